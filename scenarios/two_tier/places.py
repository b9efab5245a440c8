"""Where public cohorts and private devices are: in this process, or on Ray. The same classes behind both."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeVar

from actors.second_order.consent import Consent
from actors.second_order.crowd import Devices, LocalDevices, cohort_bounds
from actors.second_order.ratings import PrivateRatings
from coordinator.protocol.errors import BlindrecError
from coordinator.protocol.features import ItemFeatures
from coordinator.protocol.second_order import SecondOrderQuery, SecondOrderRelease
from coordinator.server.completion.cohorts import Crowd, LocalCrowd
from scenarios.session import Session
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

    They keep in the folder ``ledger`` what they answer; None: nothing outlives them.
    """
    ratings = PrivateRatings(starts=rows.starts, items=rows.items, values=rows.values, count=rows.count)
    if session.name == "inprocess":
        yield LocalDevices(ratings, secret, consent, session.workers, ledger)
        return
    from actors.second_order.private_host import devices_on_ray  # noqa: PLC0415 (importing Ray takes a second)
    from scenarios.cluster import quiet  # noqa: PLC0415 (importing Ray takes a second)

    with ExitStack() as stack:
        folder = ledger or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="blindrec-answers-")))
        with quiet():
            devices = stack.enter_context(
                devices_on_ray(ratings, secret, cohort_bounds(rows.users), consent, session.workers, folder)
            )
        yield Recovering(devices)


class Recovering:
    """Private devices whose processes may die: they are asked again, and repeat what they answered.

    Parameters
    ----------
    devices : Devices
        Where they are; a process that was started anew knows its answers, not what was announced to it.
    """

    def __init__(self, devices: Devices) -> None:
        self._devices, self._announced = devices, list[tuple[bytes, int, int]]()

    def pin(self, model: bytes, first: int, stop: int) -> None:
        """Announce a model's digest; see `actors.second_order.crowd.Devices.pin`."""
        self._again(lambda: self._devices.pin(model, first, stop))
        self._announced.append((model, first, stop))

    def answer(
        self, query: SecondOrderQuery, features: ItemFeatures, first: int, stop: int
    ) -> list[SecondOrderRelease]:
        """Let devices answer; see `actors.second_order.crowd.Devices.answer`."""
        return self._again(lambda: self._devices.answer(query, features, first, stop))

    def _again(self, call: Callable[[], T]) -> T:
        """Call, again where a process died; an error of our own comes without what Ray says around it."""
        from ray.exceptions import RayTaskError  # noqa: PLC0415 (importing Ray takes a second)

        from coordinator.server.fleet.retrying import again  # noqa: PLC0415 (importing Ray takes a second)

        tries = itertools.count()

        def attempt() -> T:
            try:
                if next(tries):
                    for announced in self._announced:
                        self._devices.pin(*announced)
                return call()
            except RayTaskError as error:
                if isinstance(error.cause, BlindrecError):
                    raise error.cause from None
                raise

        return again(attempt, UNREACHABLE)
