"""Where public cohorts and private devices are: in this process, or on Ray. The same classes behind both."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeVar

from actors.keeper import Books, Keeper
from actors.second_order.consent import Consent
from actors.second_order.crowd import Devices, LocalDevices, cohort_bounds
from actors.second_order.ratings import PrivateRatings
from coordinator.protocol.errors import BlindrecError
from coordinator.protocol.features import ItemFeatures
from coordinator.protocol.second_order import SecondOrderQuery, SecondOrderRelease
from coordinator.server.completion.cohorts import Crowd, LocalCrowd
from scenarios.session import Session
from scenarios.spending import require_there
from scenarios.two_tier.sparse import Rows

T = TypeVar("T")
UNREACHABLE = "private devices cannot be reached"


@contextmanager
def open_crowd(rows: Rows, session: Session) -> Iterator[Crowd]:
    """Yield public users in cohorts, at the session's place."""
    if session.name == "inprocess":
        yield LocalCrowd(rows.starts, rows.items, rows.values, rows.count, session.workers)
        return
    from coordinator.server.completion.cohort_actors import crowd_on_ray  # noqa: PLC0415 (importing Ray takes a second)
    from scenarios.cluster import quiet  # noqa: PLC0415 (importing Ray takes a second)

    with ExitStack() as stack:
        with quiet():
            crowd = stack.enter_context(crowd_on_ray(rows.starts, rows.items, rows.values, rows.count, session.workers))
        yield crowd


@contextmanager
def open_devices(
    rows: Rows, secret: bytes, consent: Consent, session: Session, ledger: Path | None = None
) -> Iterator[Devices]:
    """Yield private devices that agreed to ``consent``, at the session's place.

    Parameters
    ----------
    rows : Rows
        What they rated.
    secret : bytes
        Their master secret.
    consent : Consent
    session : Session
    ledger : Path, optional
        Folder in which the devices' keeper keeps what they have answered; default: in memory only.
    """
    ratings = PrivateRatings(starts=rows.starts, items=rows.items, values=rows.values, count=rows.count)
    if session.name == "inprocess":
        yield LocalDevices(ratings, secret, consent, session.workers, Keeper(ledger))
        return
    import ray  # noqa: PLC0415 (importing Ray takes a second)

    from actors.hosted_keeper import start_keeper  # noqa: PLC0415 (importing Ray takes a second)
    from actors.second_order.private_host import devices_on_ray  # noqa: PLC0415 (importing Ray takes a second)
    from scenarios.cluster import quiet  # noqa: PLC0415 (importing Ray takes a second)

    with ExitStack() as stack:
        keeper = start_keeper(ledger)
        stack.callback(ray.kill, keeper.actor)
        with quiet():
            devices = stack.enter_context(
                devices_on_ray(ratings, secret, cohort_bounds(rows.users), consent, session.workers, keeper)
            )
        yield Retried(devices, keeper)


class Retried:
    """Private devices whose processes may die: they are asked again, and repeat what they answered.

    Parameters
    ----------
    devices : Devices
        Where they are.
    keeper : Books
        Theirs; without it the run ends.
    """

    def __init__(self, devices: Devices, keeper: Books) -> None:
        self._devices, self._keeper = devices, keeper

    def pin(self, model: bytes, first: int, stop: int) -> None:
        """Announce a model's digest; see `actors.second_order.crowd.Devices.pin`."""
        self._again(lambda: self._devices.pin(model, first, stop))

    def answer(
        self, query: SecondOrderQuery, features: ItemFeatures, first: int, stop: int
    ) -> list[SecondOrderRelease]:
        """Let devices answer; see `actors.second_order.crowd.Devices.answer`."""
        return self._again(lambda: self._devices.answer(query, features, first, stop))

    def _again(self, call: Callable[[], T]) -> T:
        """Call, again where a process died; an error of our own comes without what Ray says around it."""
        from ray.exceptions import RayTaskError  # noqa: PLC0415 (importing Ray takes a second)

        from coordinator.server.fleet.retrying import again  # noqa: PLC0415 (importing Ray takes a second)

        try:
            told = again(call, UNREACHABLE)
        except RayTaskError as error:
            if isinstance(error.cause, BlindrecError):
                raise error.cause from None
            raise
        require_there(self._keeper)
        return told
