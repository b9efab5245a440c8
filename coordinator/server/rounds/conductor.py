"""One loop for all that a server learns in rounds: conduct one, let it be kept, go on; go over those that were kept.

What a round is depends on what is learned: a query and its statistic, a batch of private devices, a client's service.
How a question comes to devices and its answers back is a fleet's affair.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from coordinator.protocol.admitted import Own
from coordinator.protocol.messages import Query, Release
from coordinator.server.rounds.state import Ask
from coordinator.server.statistics.statistic import Statistic

R = TypeVar("R")
"""What is kept of a round that is over."""
O_co = TypeVar("O_co", covariant=True)
"""What all rounds together end with."""


class Block(NamedTuple):
    """Devices ``first`` to ``stop - 1`` behind one host, and what only they are told besides the question."""

    host: Any
    first: int
    stop: int
    public: tuple[Any, ...] = ()

    @property
    def name(self) -> str:
        """What errors call these devices."""
        return f"devices {self.first} to {self.stop - 1}"


Check = Callable[[Block, Any], None]
"""Refuses, by an InputError, what is no answer of a block to what it was asked."""


class Hosts(Protocol):
    """Devices of one kind, or cohorts of the server's own, wherever they are."""

    def blocks(self, first: int, stop: int) -> list[Block]:
        """Return who stands behind addresses ``first`` to ``stop - 1``, a block for each cohort, ascending."""
        ...

    def ask(self, question: Any, blocks: Sequence[Block], check: Check, *shared: Any) -> list[Any]:
        """Ask blocks a question; return their answers in the order of the blocks.

        Parameters
        ----------
        question : object
            What every block is asked.
        blocks : sequence of Block
            Whom.
        check : callable
            Told every block and its answer.
        *shared : object
            What goes with the question to all of them, such as a model; it travels once to each machine.
        """
        ...


class Transport(Protocol):
    """Carries a query to devices and brings the releases and their statistic back."""

    def ask(self, ask: Ask) -> tuple[Statistic, Sequence[Release]]:
        """Ask every device of ``ask`` and return the merged statistic and all releases."""
        ...


class Fleet(Protocol):
    """All that a server reaches: devices, and processes of its own."""

    def hosts(self, kind: str) -> Hosts:
        """Return the devices of a kind, by its name in the run."""
        ...

    def queries(self, own: Own | None) -> Transport:
        """Return what carries queries to devices, and adds releases up where they lie."""
        ...

    def spread(self, host: Callable[..., Any], shared: Sequence[Any], bounds: Sequence[tuple[int, int]]) -> Hosts:
        """Return cohorts of the server's own: ``host(*shared, some of the bounds)`` in each of its processes.

        Each host is one block, whose addresses are those of all its cohorts.
        """
        ...

    def more(self, count: int) -> None:
        """Count answers, devices or rounds that are in, for whoever watches."""
        ...


class Learning(Protocol[R, O_co]):
    """What is learned in rounds, and from them all."""

    def next(self) -> R | None:
        """Conduct one more round and take it in; return what is kept of it, None where all rounds are over."""
        ...

    def repeat(self, over: R) -> None:
        """Take in a round of an interrupted run as it was kept; nobody is asked.

        Raises
        ------
        BlindrecError
            If it can be no round of this run.
        """
        ...

    def outcome(self) -> O_co:
        """Return what all rounds together tell."""
        ...


class Plan(Protocol[R, O_co]):
    """What is to be learned, before anything begins: public, and small enough to travel."""

    @property
    def own(self) -> Own | None:
        """The experimenter's own mechanism, where devices answer through it."""
        ...

    @property
    def in_step(self) -> bool:
        """Whether a round must be kept before the next one begins.

        Else several may wait for that, and those that a coordinator's death takes are conducted once more. Then devices
        that answered may be cut off from their keeper, or the reverse, so that rounds after them rest on other answers.
        """
        ...

    def rehearsal(self) -> Query | None:
        """Return the query that is asked first, for whoever compiles what it needs; None where there is none."""
        ...

    def begin(self, fleet: Fleet) -> Learning[R, O_co]:
        """Return the learning before its first round."""
        ...


class Conductor(Generic[R, O_co]):
    """Conducts round after round until all are over.

    Parameters
    ----------
    learning : Learning
        Before its first round.
    """

    def __init__(self, learning: Learning[R, O_co]) -> None:
        self._learning = learning

    def repeat(self, over: R) -> None:
        """Go over a round of an interrupted run; before `run`, in order. See `Learning.repeat`."""
        self._learning.repeat(over)

    def run(self, keep: Callable[[R], None]) -> O_co:
        """Conduct all further rounds, tell ``keep`` each as soon as it is over, and return what they tell."""
        while (over := self._learning.next()) is not None:
            keep(over)
        return self._learning.outcome()
