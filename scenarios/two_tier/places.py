"""Where public cohorts and private devices are: in this process, or on Ray. The same classes behind both."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from actors.second_order.crowd import Devices, LocalDevices, cohort_bounds
from actors.second_order.ratings import PrivateRatings
from coordinator.completion.cohorts import Crowd, LocalCrowd
from scenarios.session import Session
from scenarios.two_tier.sparse import Rows


@contextmanager
def open_crowd(rows: Rows, session: Session) -> Iterator[Crowd]:
    """Yield public users in cohorts, at the session's place."""
    if session.name == "inprocess":
        yield LocalCrowd(rows.starts, rows.items, rows.values, rows.count, session.workers)
        return
    from coordinator.completion.remote import crowd_on_ray  # noqa: PLC0415 (importing Ray takes a second)

    with crowd_on_ray(rows.starts, rows.items, rows.values, rows.count, session.workers) as crowd:
        yield crowd


@contextmanager
def open_devices(rows: Rows, secret: bytes, session: Session) -> Iterator[Devices]:
    """Yield private devices, at the session's place."""
    ratings = PrivateRatings(starts=rows.starts, items=rows.items, values=rows.values)
    if session.name == "inprocess":
        yield LocalDevices(ratings, secret, session.workers)
        return
    from actors.second_order.remote import devices_on_ray  # noqa: PLC0415 (importing Ray takes a second)

    with devices_on_ray(ratings, secret, cohort_bounds(rows.users), session.workers) as devices:
        yield devices
