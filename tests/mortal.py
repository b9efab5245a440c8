"""Processes that die, without Ray: a stand-in for it runs each call at once, and lets processes die around it."""

import pickle
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
import ray

from coordinator.protocol.errors import BlindrecError

Fate = Callable[[str], str]
"""What becomes of a process when a method is called: "lives", "dies before", "dies in it" or "dies after"."""
DEATHS = ("dies before", "dies in it", "dies after")


@dataclass(eq=False)
class Reference:
    """What a call brought."""

    value: Any = None
    error: Exception | None = None


@dataclass(eq=False)
class Actor:
    """A handle; a process that died is started anew at once, and knows nothing."""

    start: Callable[[], Any]
    fate: Fate = lambda _: "lives"
    deaths: int = 0
    process: Any = field(init=False)

    def __post_init__(self) -> None:
        self.process = self.start()

    def __getattr__(self, name: str) -> Any:
        def method(returns: int) -> Any:
            return SimpleNamespace(remote=lambda *given: self.call(name, given, returns))

        return SimpleNamespace(remote=method(1).remote, options=lambda *, num_returns: method(num_returns))

    def call(self, name: str, given: Sequence[Any], returns: int) -> Any:
        """Call a method of the process that is there now; where it dies in it, nobody gets to know what it did."""
        answers = self._answers(name, given, returns)
        return answers[0] if returns == 1 else answers

    def _answers(self, name: str, given: Sequence[Any], returns: int) -> list[Reference]:
        if failed := [one for one in given if isinstance(one, Reference) and one.error]:
            return failed[:1] * returns
        fate, answers = self.fate(name), [Reference(error=ray.exceptions.RayActorError())] * returns
        if fate != "dies before":
            try:
                values = [one.value if isinstance(one, Reference) else one for one in given]
                value = getattr(self.process, name)(*values)
                done = [Reference(value=one) for one in (value if returns > 1 else [value])]
            except BlindrecError as error:
                done = [Reference(error=pickle.loads(pickle.dumps(error)))] * returns
            answers = answers if fate == "dies in it" else done
        if fate != "lives":
            self.process, self.deaths = self.start(), self.deaths + 1
        return answers


def lives(_: str) -> str:
    """Nobody dies."""
    return "lives"


def by_chance(seed: int, share: float = 0.03) -> Fate:
    """Let each call be somebody's last with a probability."""
    chance = random.Random(seed)
    return lambda _: chance.choice(DEATHS) if chance.random() < share else "lives"


def at(name: str, number: int, how: str) -> Fate:
    """Let one call be somebody's last: that of a method, by its number."""
    calls = iter(range(10**6))
    return lambda called: how if called == name and next(calls) == number else "lives"


def stand_in(patch: pytest.MonkeyPatch, *modules: str) -> None:
    """Put the stand-in in Ray's place, in some modules; nobody waits before another attempt."""
    instead = SimpleNamespace(get=_get, put=Reference, wait=_wait, exceptions=ray.exceptions)
    for module in (*modules, *("coordinator.server.fleet." + name for name in ("calls", "querying"))):
        patch.setattr(f"{module}.ray", instead)
    patch.setattr("coordinator.server.fleet.panel.FIRST_PAUSE", 0)


def _get(asked: Any) -> Any:
    if isinstance(asked, list):
        return [_get(one) for one in asked]
    if asked.error:
        raise asked.error
    return asked.value


def _wait(flying: list[Reference], num_returns: int, timeout: float = 0) -> tuple[list[Reference], list[Reference]]:
    """What was called last is over first; of those that are asked for without waiting none is."""
    over = flying[len(flying) - num_returns if timeout != 0 else len(flying) :]
    return over, flying[: len(flying) - len(over)]
