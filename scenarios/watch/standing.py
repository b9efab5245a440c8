"""Where a run stands: the public numbers that its folder, its job's log and the structured log tell while it lasts."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Annotated, Any

from annotated_types import Ge
from pydantic import TypeAdapter, ValidationError

from coordinator.protocol.errors import InputError

Whole = Annotated[int, Ge(0)]
Amount = Annotated[float, Ge(0)]
ROUNDS = {"online": "clients", "two-tier": "batches", "sweep": "units"}
"""What rounds are called, by the experiment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where a run stood at a time. No field is a seed: from it all ratings and secrets of a simulation follow.

    Attributes
    ----------
    kind : str
        The experiment's command.
    run : str
        The run's public name.
    repeat, repeats : int
        Which of the seeds runs, from 1 on, and how many there are.
    unit : str
        What is counted.
    count, total : int
        How many have come in, of how many at most.
    rounds, planned : int
        Rounds, batches or clients that are over; how many there will be, or None where nobody knows.
    answers : int or None
        Answers in these.
    refused : int or None
        Devices in these that refused for lack of budget; None where devices do not say so.
    epsilon : float or None
        What a device has spent at most in these [nats]; infinite where answers have no noise, None for sweeps.
    undecided : int or None
        Items that are not decided; None where the policy does not ask about these only.
    seconds : float
        Since this seed began here.
    rate : float
        Units a second, lately.
    left : float or None
        Seconds until all planned rounds are over; None where that is not known.
    at : float
        When this was [seconds since 1970].
    pid, born : int, float
        The process that told it, and when that began.
    host : str
        Its machine.
    """

    kind: str
    run: str
    repeat: Whole = 1
    repeats: Whole = 1
    unit: str = "devices"
    count: Whole = 0
    total: Whole = 0
    rounds: Whole = 0
    planned: Whole | None = None
    answers: Whole | None = None
    refused: Whole | None = None
    epsilon: Amount | None = None
    undecided: Whole | None = None
    seconds: Amount = 0.0
    rate: Amount = 0.0
    left: Amount | None = None
    at: float = 0.0
    pid: Whole = 0
    born: float = 0.0
    host: str = ""

    def rows(self, now: float | None = None) -> dict[str, str]:
        """Return what is shown of it, in words and with units, by the rows' names."""
        rounds, of = ROUNDS.get(self.kind, "rounds"), "" if self.planned is None else f" of {self.planned:,}"
        known = {
            "command": self._command(),
            "run": self.run,
            rounds: None if rounds == self.unit else f"{self.rounds:,}{of} over",
            self.unit: f"{self.count:,} of {'at most ' if self.planned is None else ''}{self.total:,}",
            "answers": None if self.answers is None else f"{self.answers:,} in {rounds} that are over",
            "refused": None if self.refused is None else f"{self.refused:,}",
            "epsilon spent": None
            if self.epsilon is None
            else f"{self.epsilon:g} a device at most [nats], in {rounds} that are over",
            "undecided": None if self.undecided is None else f"{self.undecided:,} items",
            f"{self.unit} a second": self._speed(),
            "time left": "unknown" if self.left is None else duration(self.left),
            "running for": duration(self.seconds),
            "told": f"{duration(max(0.0, (now or time.time()) - self.at))} ago",
        }
        return {name: value for name, value in known.items() if value is not None}

    def line(self) -> str:
        """Return what matters most of it in a line."""
        rounds, rows = ROUNDS.get(self.kind, "rounds"), self.rows(self.at)
        parts = [f"{rows[self.unit]} {self.unit}", f"{self._speed()} a second"]
        if rounds in rows:
            parts.insert(0, rows[rounds].replace(" over", f" {rounds} over"))
        parts += [f"{self.refused:,} refused"] if self.refused else []
        parts += [f"{rows['undecided']} undecided"] if "undecided" in rows else []
        return f"{self._command()}: {', '.join(parts)}, time left {rows['time left']}"

    def _command(self) -> str:
        return f"{self.kind}, seed {self.repeat} of {self.repeats}" if self.repeats > 1 else self.kind

    def _speed(self) -> str:
        return f"{self.rate:,.0f}" if self.rate >= 10 else f"{self.rate:.2f}"


_STANDING = TypeAdapter(Standing)


def read_standing(told: Any) -> Standing:
    """Return the standing that a file or a log tells.

    Raises
    ------
    InputError
        If it tells none.
    """
    try:
        return _STANDING.validate_python({**told, "epsilon": _finite(told.get("epsilon"))})
    except (ValidationError, TypeError, AttributeError) as error:
        raise InputError(f"it tells no standing of a run ({type(error).__name__})") from None


def _finite(value: object) -> object:
    return math.inf if value == "inf" else value


def duration(seconds: float) -> str:
    """Return a time in words.

    >>> duration(7261.2), duration(75), duration(0.4)
    ('2 h 1 min', '1 min 15 s', '0 s')
    """
    minutes, left = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {left} s" if minutes else f"{left} s"
