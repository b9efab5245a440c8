"""Carrying out a panel's decisions by Ray calls, and telling the panel how these ended."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, NamedTuple

import ray

from coordinator.server.fleet.cohorts import Cohorts
from coordinator.server.fleet.panel import Panel, Question
from coordinator.server.fleet.retrying import LOST, got
from coordinator.server.rounds.conductor import Block, Check

MOST_LOOKED_AT = 256
"""Calls in flight whose end is waited for at the same time."""


class Flight(NamedTuple):
    """A question in flight: references to the devices' answer, and to what is made of it, which the panel gets."""

    question: Question
    answer: Any
    over: Any


Landed = Callable[[Flight, bool], None]
"""Called after every flight, with whether its answer counts."""


def carry(
    panel: Panel,
    send: Callable[[Question], Flight],
    landed: Landed,
    lost: Callable[[int], None] = lambda _: None,
    made: Callable[[Flight, Any], Any] = lambda _, answer: answer,
) -> None:
    """Carry out what a panel decides, until it has all answers.

    Parameters
    ----------
    panel : Panel
    send : callable
        Calls a block.
    landed, lost : callable
        Called after every answered or lost call, and ``lost`` with the number of blocks that will be asked again.
    made : callable
        Makes what the panel gets of what a flight brings, where that is left to this process.

    Raises
    ------
    LostError
        If a block was lost too often.
    BlindrecError
        The error with which a block refused.
    """
    flying: dict[Any, Flight] = {}
    while not panel.done:
        while question := panel.question(time.monotonic()):
            flight = send(question)
            flying[flight.over] = flight
        for done in _ended(flying, panel.until):
            flight = flying.pop(done)
            number, epoch, _ = flight.question
            try:
                answer = made(flight, _taken(flight))
            except LOST as error:
                landed(flight, False)  # noqa: FBT003 (as the callback is declared)
                lost(panel.lost(number, epoch, time.monotonic(), error))
            else:
                landed(flight, panel.answered(number, epoch, answer))


def _taken(flight: Flight) -> Any:
    """Return what was made of an answer; raise the devices' own error if that is why there is nothing."""
    try:
        return got(flight.over)
    except Exception:
        got(flight.answer)
        raise


def _ended(flying: dict[Any, Flight], until: float | None) -> list[Any]:
    """Wait until one of the calls in flight ends, or until a time; return all that have ended by then.

    Each look at Ray costs time for every call looked at. So with thousands in flight only the earliest ones are looked
    at, and all of these that have ended are taken at once.
    """
    left = None if until is None else max(0.0, until - time.monotonic())
    if not flying:
        time.sleep(left or 0.0)
        return []
    if left is None and len(flying) == 1:
        return list(flying)  # the caller waits for it when it takes the answer
    calls = list(islice(flying, MOST_LOOKED_AT))
    done, others = ray.wait(calls, num_returns=1, timeout=left)
    more = ray.wait(others, num_returns=len(others), timeout=0)[0] if done and others else []
    return [*done, *more]


class RayHosts:
    """Hosts that are Ray actors; see `coordinator.server.rounds.conductor.Hosts`. A host that dies is asked again.

    Parameters
    ----------
    cohorts : Cohorts
        Which host has which addresses.
    window : int
        Most calls in flight.
    lost : callable
        Called with the number of blocks that are asked again.
    """

    def __init__(self, cohorts: Cohorts, window: int, lost: Callable[[int], None]) -> None:
        self._window, self._lost = window, lost
        self._stored: list[tuple[Any, Any]] = []
        self.blocks = cohorts.blocks

    def ask(self, question: Any, blocks: Sequence[Block], check: Check, *shared: Any) -> list[Any]:
        """Ask blocks; see `coordinator.server.rounds.conductor.Hosts.ask`."""
        panel, held = Panel(blocks, check, window=self._window), self._references(shared)

        def send(asked: Question) -> Flight:
            host, first, stop, public = asked.block
            answer = host.ask.remote(question, first, stop, *public, *held)
            return Flight(asked, answer, answer)

        carry(panel, send, lambda *_: None, self._lost)
        return panel.answers()

    def _references(self, shared: Sequence[Any]) -> list[Any]:
        """Store objects that go to all blocks with `ray.put`, unless the last question sent the same ones."""
        known = {id(one): reference for one, reference in self._stored}
        self._stored = [(one, known[id(one)] if id(one) in known else ray.put(one)) for one in shared]
        return [reference for _, reference in self._stored]
