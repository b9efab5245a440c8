"""The Ray actors of the device side: hosts of devices, and the host of their keeper."""

import hmac
from bisect import bisect_right
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from actors.device_block import DeviceBlock, DeviceKind
from actors.keeper import Keeper, LedgerClient, UnreachableError, require_opener
from actors.shares import side_of
from coordinator.protocol import losses
from coordinator.protocol.checked import MOST_DEVICES, require_block, require_whole
from coordinator.protocol.coins import derive
from coordinator.protocol.custom import CustomMechanism, admit
from coordinator.protocol.errors import BlindrecError, PermitError
from coordinator.protocol.messages import Query
from coordinator.protocol.trust import BookActor


class DeviceHost:
    """The plain class behind the actor of devices."""

    def __init__(
        self,
        kind: DeviceKind,
        holdings: Any,
        secret: bytes,
        bounds: list[tuple[int, int]],
        keeper: LedgerClient | None = None,
        custom: CustomMechanism | None = None,
    ) -> None:
        admit(custom)
        self._secret = secret
        self._firsts = [first for first, _ in bounds]
        self.cohorts = [kind(holdings, secret, first, stop, keeper=keeper) for first, stop in bounds]

    def _cohort_of(self, first: int, stop: int) -> DeviceBlock:
        """Return the cohort of devices ``first`` to ``stop - 1``; refuse if they do not all belong to one cohort."""
        require_whole("first device", first, 0, MOST_DEVICES)
        cohort = self.cohorts[bisect_right(self._firsts, first) - 1]
        require_block(first, stop, cohort.first, cohort.stop)
        return cohort

    def warm_up(self, question: Query | None) -> None:
        """Compile the code that a question will need, if there is one; nothing is answered or charged."""
        if question is not None:
            self.cohorts[0].rehearse(question)

    def ask(self, question: Any, first: int, stop: int, *public: Any) -> Any:
        """Answer for devices of one cohort; see `actors.device_block.DeviceBlock.ask`."""
        return self._cohort_of(first, stop).ask(question, first, stop, *public)

    def inspect(self, permit: bytes, question: Any, first: int, stop: int) -> Any:
        """Let the experimenter look at devices of one cohort; see `actors.device_block.DeviceBlock.inspect`."""
        # The result may reveal what a device rated. The server also holds a handle of this actor, so a ``permit`` is
        # required that only the experimenter can compute, because it is derived from the devices' secret.
        if type(permit) is not bytes or not hmac.compare_digest(permit, permit_of(self._secret)):
            raise PermitError("what devices hold stays there; only the experimenter may look at it")
        return self._cohort_of(first, stop).inspect(question, first, stop)

    def share(self, permit: bytes, question: Any, first: int, stop: int) -> Any:
        """Give one of two servers its shares of devices of one cohort; see `actors.device.Cohort.share`."""
        # Which server it is follows from its ``permit``, so that none can get the other one's share, nor anybody both.
        side = side_of(permit, self._secret)
        return self._cohort_of(first, stop).share(side, question, first, stop)


def permit_of(secret: bytes) -> bytes:
    """Return the permit that lets the experimenter look at devices; it is derived from their master secret."""
    return derive(secret, "advice")


def start_host(
    kind: DeviceKind,
    holdings: Any,
    secret: bytes,
    bounds: list[tuple[int, int]],
    keeper: LedgerClient,
    custom: CustomMechanism | None = None,
    *,
    cpus: float,
) -> Any:
    """Start devices as a Ray actor. Ray restarts it if its process dies, but does not repeat calls."""
    actor: Any = ray.remote(DeviceHost)
    options = actor.options(num_cpus=cpus, scheduling_strategy="SPREAD", max_restarts=-1)
    return options.remote(kind, holdings, secret, bounds, keeper, custom)


CALLS = 16  # Most calls that the keeper handles at the same time
WAIT = 60.0  # Seconds that devices wait for their keeper before they refuse
_UNREACHABLE = losses.errors(ray.exceptions, losses.LOST, losses.ENDS, losses.WAITS)


class HostedKeeper(BookActor):
    """A keeper behind an actor; see `actors.keeper.LedgerClient`. Hosts of devices get it, the server never does."""

    def __init__(self, actor: Any) -> None:
        super().__init__(actor, _result_of)
        self.actor = actor

    def end(self) -> None:
        """Write the actor's log into its file and end it; if it is out of reach, the next process writes the log."""
        with suppress(*_UNREACHABLE):
            ray.get(self.actor.close.remote(), timeout=WAIT)
        ray.kill(self.actor)

    def read(self, first: int, stop: int, since: int = 0) -> tuple[int, list[str]]:
        """Return the entries after ``since``; see `Keeper.read`."""
        return self.book(first, stop, since, ())


def _result_of(answer: Any) -> tuple[int, list[str]]:
    try:
        position, lines = ray.get(answer, timeout=WAIT)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, BlindrecError):
            raise error.cause from None
        raise
    except _UNREACHABLE as error:
        raise UnreachableError(
            f"the keeper of what devices have spent does not answer ({type(error).__name__}); devices refuse"
        ) from None
    return position, lines


def start_keeper(folder: Path | None) -> HostedKeeper:
    """Start a `Keeper` as a Ray actor on the node of whoever calls this."""
    # If its process dies, Ray restarts it and repeats its calls, provided that a folder keeps its entries. Repeating a
    # call does no harm, because the keeper returns a line that it already holds instead of booking it again. Without a
    # folder the entries are lost, and devices refuse.
    Keeper(folder).close()  # errors about the folder are raised here, in the caller's process
    return HostedKeeper(_started(Keeper, folder, lasting=folder is not None))


class OpeningKeeper:
    """What intermediaries reach of the devices' keeper: each the table of what it opened, and nobody the charges."""

    def __init__(self, keeper: HostedKeeper) -> None:
        self._keeper = keeper

    def book(self, first: int, stop: int, position: int, lines: Sequence[str], opener: str) -> tuple[int, list[str]]:
        """Book what an intermediary opens; see `Keeper.book`."""
        return self._keeper.book(first, stop, position, lines, require_opener(opener))


def start_openings(keeper: HostedKeeper) -> Any:
    """Start an `OpeningKeeper` as a Ray actor, which Ray restarts."""
    return _started(OpeningKeeper, keeper, lasting=True)


def _started(kind: type, argument: Any, *, lasting: bool) -> Any:
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    actor: Any = ray.remote(kind)
    forever = {"max_restarts": -1, "max_task_retries": -1} if lasting else {}
    return actor.options(num_cpus=0, max_concurrency=CALLS, scheduling_strategy=here, **forever).remote(argument)
