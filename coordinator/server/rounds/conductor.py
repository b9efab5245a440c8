"""One loop for everything that a server learns in rounds: run a round, store it, report progress, go on."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from coordinator.protocol.agreement import Agreement
from coordinator.protocol.custom import CustomMechanism
from coordinator.protocol.messages import Query, Release
from coordinator.protocol.statistics.statistic import Statistic
from coordinator.server.rounds.state import Ask, RunProgress
from coordinator.server.rounds.transcript import Sealed

R = TypeVar("R")  # What is stored of a finished round
O_co = TypeVar("O_co", covariant=True)  # The result of all rounds


class Block(NamedTuple):
    """Devices ``first`` to ``stop - 1`` of one host, and public data that go only to them, beside the question."""

    host: Any
    first: int
    stop: int
    public: tuple[Any, ...] = ()

    @property
    def name(self) -> str:
        """What errors call these devices."""
        return f"devices {self.first} to {self.stop - 1}"


Check = Callable[[Block, Any], None]  # Raises an InputError if a block's answer does not fit its question


class Hosts(Protocol):
    """Devices of one kind, or the server's own cohorts, on Ray or in this process."""

    def blocks(self, first: int, stop: int) -> list[Block]:
        """Return the blocks of addresses ``first`` to ``stop - 1``, one for each cohort, ascending."""

    def ask(self, question: Any, blocks: Sequence[Block], check: Check, *shared: Any) -> list[Any]:
        """Ask blocks a question; return their answers in the order of the blocks."""


class Transport(Protocol):
    """Carries a query to devices and brings the releases and their statistic back."""

    def ask(self, ask: Ask) -> tuple[Statistic, Sequence[Release | Sealed]]:
        """Ask every device of ``ask``; return the merged statistic, and all releases or what digests them."""


class Fleet(Protocol):
    """The devices and processes that a server can call."""

    def hosts(self, kind: str) -> Hosts:
        """Return the devices of a kind, by its name in the run."""

    def queries(self, custom: CustomMechanism | None) -> Transport:
        """Return a transport that carries queries to devices and adds releases up."""

    def spread(self, host: Callable[..., Any], shared: Sequence[Any], bounds: Sequence[tuple[int, int]]) -> Hosts:
        """Return the server's own cohorts, ``host(*shared, some bounds)`` in each process: a block for each host."""

    def report_progress(self, count: int) -> None:
        """Count answers, devices or rounds that have come in, for the display of progress."""


class ServerProcess(Protocol[R, O_co]):
    """What the server does in rounds: it asks, takes in the answers, and learns from them."""

    def run_round(self) -> R | None:
        """Run the next round and take it in; return what is stored of it, or None if all rounds are over."""

    def replay(self, record: R) -> None:
        """Take in a stored round of an interrupted run, without asking anybody; in order, before any other is run."""

    def outcome(self) -> O_co:
        """Return the result of all rounds."""

    def progress(self) -> RunProgress:
        """Return the progress of the rounds; the fleet knows ``count``. Another thread may call this."""


class ServerSpec(Protocol[R, O_co]):
    """What starts a server process: public, and small enough to send to the coordinator."""

    @property
    def custom(self) -> CustomMechanism | None:
        """The experimenter's own mechanism, if devices answer through one."""

    @property
    def in_step(self) -> bool:
        """Whether a round must be stored before the next one begins, because later rounds depend on who answered it."""

    @property
    def agreement(self) -> Agreement | None:
        """The agreement of its queries; None if there is none, as in families without queries."""

    def rehearsal(self) -> Query | None:
        """Return the first query, so that its code can be compiled in advance; None if there is none."""

    def begin(self, fleet: Fleet) -> ServerProcess[R, O_co]:
        """Return the process in its state before the first round."""


def run_rounds(process: ServerProcess[R, O_co], keep: Callable[[R], None], earlier: Iterable[R] = ()) -> O_co:
    """Take in stored rounds, run all further ones, call ``keep`` after each, and return the result."""
    for stored in earlier:
        process.replay(stored)
    while (record := process.run_round()) is not None:
        keep(record)
    return process.outcome()
