"""Ray calls: carried out as a panel decides, and repeated after a process or a node died."""

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, NamedTuple, TypeVar

import ray

from coordinator.protocol import losses
from coordinator.protocol.errors import BlindrecError, LostError
from coordinator.server.fleet.cohorts import Cohorts
from coordinator.server.fleet.panel import MOST_ATTEMPTS, BlockRequest, Panel, pause_after, require_less
from coordinator.server.rounds.conductor import Block, Check

LOST = losses.errors(ray.exceptions, losses.LOST)  # Ray's errors after a process, a node or an object was lost
ENDS = losses.errors(ray.exceptions, losses.ENDS)  # Ray's errors of which another attempt makes no end
T = TypeVar("T")


def pause(attempt: int, what: str, error: Exception) -> None:
    """Wait before another attempt, longer each time."""
    require_less(attempt + 1, MOST_ATTEMPTS, what, error)
    time.sleep(pause_after(attempt))


def result_of(answer: Any, *, within: float | None = None) -> Any:
    """Return the object behind a reference, or a list of them; raise our own errors without Ray's wrapper."""
    try:
        return ray.get(answer) if within is None else ray.get(answer, timeout=within)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, BlindrecError):
            raise error.cause from None
        raise


@contextmanager
def in_a_line(kinds: tuple[type[Exception], ...] = (*LOST, *ENDS)) -> Iterator[None]:
    """Let Ray's errors of these kinds end the block as an error of ours; those that `losses` calls faults stay."""
    try:
        yield
    except kinds as error:
        raise LostError(f"Ray gave up ({losses.reason(error)}); {losses.remedy(error)}, then resume") from None


def with_retries(attempt: Callable[[], T], what: str, lost: Callable[[], None] = lambda: None) -> T:
    """Return the result of an attempt, repeated if a process died meanwhile. Making it twice must do no harm."""
    for number in itertools.count():
        try:
            return attempt()
        except LOST as error:
            pause(number, what, error)
            lost()
    raise AssertionError  # counting does not end


MOST_LOOKED_AT = 256  # Calls in flight whose end is waited for at the same time


class Flight(NamedTuple):
    """A question in flight: references to the devices' answer, and to what is made of it, which the panel gets."""

    question: BlockRequest
    answer: Any
    aggregate: Any


Landed = Callable[[Flight, bool], None]  # Called after every flight, with whether its answer counts


def carry(
    panel: Panel,
    send: Callable[[BlockRequest], Flight],
    landed: Landed,
    lost: Callable[[int], None] = lambda _: None,
    made: Callable[[Flight, Any], Any] = lambda _, answer: answer,
) -> None:
    """Carry out what a panel decides, until it has all answers."""
    flying: dict[Any, Flight] = {}
    while not panel.done:
        while question := panel.question(time.monotonic()):
            flight = send(question)
            flying[flight.aggregate] = flight
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
        return result_of(flight.aggregate)
    except Exception:
        result_of(flight.answer)
        raise


def _ended(flying: dict[Any, Flight], until: float | None) -> list[Any]:
    """Wait until one of the calls in flight ends, or until a time; return all that have ended by then."""
    left = None if until is None else max(0.0, until - time.monotonic())
    if not flying:
        time.sleep(left or 0.0)
        return []
    if left is None and len(flying) == 1:
        return list(flying)  # the caller waits for it when it takes the answer
    # `ray.wait` takes time for every call that it is given, so with thousands in flight only the earliest ones are
    calls = list(islice(flying, MOST_LOOKED_AT))
    done, others = ray.wait(calls, num_returns=1, timeout=left)
    more = ray.wait(others, num_returns=len(others), timeout=0)[0] if done and others else []
    return [*done, *more]


class RayHosts:
    """Hosts that are Ray actors; see `coordinator.server.rounds.conductor.Hosts`. A host that dies is asked again."""

    def __init__(self, cohorts: Cohorts, window: int, lost: Callable[[int], None]) -> None:
        self._window, self._lost = window, lost
        self._stored: list[tuple[Any, Any]] = []
        self.blocks = cohorts.blocks

    def ask(self, question: Any, blocks: Sequence[Block], check: Check, *shared: Any) -> list[Any]:
        """Ask blocks; see `coordinator.server.rounds.conductor.Hosts.ask`."""
        panel, references = Panel(blocks, check, window=self._window), self._references(shared)

        def send(panel_question: BlockRequest) -> Flight:
            host, first, stop, public = panel_question.block
            answer = host.ask.remote(question, first, stop, *public, *references)
            return Flight(panel_question, answer, answer)

        carry(panel, send, lambda *_: None, self._lost)
        return panel.answers()

    def _references(self, shared: Sequence[Any]) -> list[Any]:
        """Store objects that go to all blocks with `ray.put`, unless the last question sent the same ones."""
        references = {id(stored): reference for stored, reference in self._stored}
        self._stored = [
            (value, references[id(value)] if id(value) in references else ray.put(value)) for value in shared
        ]
        return [reference for _, reference in self._stored]
