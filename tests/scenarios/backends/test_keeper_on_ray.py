"""The keeper on Ray: a device process that somebody starts anew has no fresh budget, and none answers without it."""

from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
import ray
import worlds
from runs import holds_within

from actors.device import Cohort
from actors.host import HostedKeeper, start_host, start_keeper
from actors.keeper import LEDGER, require_there, spent_by
from benchmarks.victims import below
from coordinator.protocol.errors import LedgerError, LostError
from coordinator.protocol.messages import Query, Release
from scenarios.backends.on_ray import OnRay

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("ray_session")]
WORLD = worlds.world(items=20, rated=4)
FIRST, SECOND = (
    worlds.maxsense_query(items=20, sensing=0.25, epsilon=Fraction(1), round_number=number) for number in range(2)
)
USERS, KIND = 40, partial(Cohort, budget=Fraction(1))


@contextmanager
def started(folder: Path | None) -> Iterator[tuple[HostedKeeper, Any]]:
    """A keeper, and one host of devices whose budget holds one answer."""
    keeper = start_keeper(folder)
    host = start_host(KIND, worlds.block_ratings(WORLD), WORLD.secret, [(0, USERS)], keeper, cpus=0)
    try:
        yield keeper, host
    finally:
        for actor in (host, keeper.actor):
            ray.kill(actor)


def asked(host: Any, query: Query) -> Release:
    """What devices say, once their process is there."""
    said: list[Release] = []

    def answered() -> bool:
        try:
            said.append(ray.get(host.ask.remote(query, 0, USERS)))
        except ray.exceptions.RayActorError:
            return False
        return True

    assert holds_within(60, answered)
    return said[-1]


def kill(words: str) -> None:
    """End a process as a fault would, without telling Ray."""
    next(process for process, told in below(psutil.Process()).items() if words in told).kill()


def test_processes_that_are_started_anew_have_spent_what_they_have_spent(ray_session: OnRay, tmp_path: Path) -> None:
    """The server says nothing about it; the same question gets the same bits, and a new one none.

    Devices' process is started anew twice, and the keeper's, which reads its log. It has no name that the server could
    look up.
    """
    with started(tmp_path) as (keeper, host):
        before = asked(host, FIRST)
        booked = keeper.read(0, USERS)
        assert not ray.util.list_named_actors(all_namespaces=True)
        for query, refused in ((SECOND, USERS), (FIRST, 0)):
            kill("DeviceHost")
            now = asked(host, query)
            assert now.refused == refused
            assert (now == before) == (query is FIRST)
        assert keeper.read(0, USERS) == booked
        kill("Keeper")
        assert asked(host, SECOND).refused == USERS
        assert asked(host, FIRST) == before
        require_there(keeper)
        assert keeper.read(0, USERS) == booked
        assert spent_by(keeper, USERS) == [(0, USERS, Fraction(1))]


def test_without_their_keeper_devices_refuse_and_the_experimenter_is_told() -> None:
    """What a process has booked itself it repeats; one that is started anew refuses even that."""
    with started(None) as (keeper, host):
        before = asked(host, FIRST)
        kill("Keeper")
        assert asked(host, SECOND).refused == USERS
        assert asked(host, FIRST) == before
        kill("DeviceHost")
        silent = asked(host, FIRST)
        assert (silent.refused, any(silent.bits)) == (USERS, False)
        for call in (lambda: require_there(keeper), lambda: spent_by(keeper, USERS)):
            with pytest.raises(LostError, match="the process that keeps what devices have spent was lost"):
                call()


def test_a_log_that_is_damaged_is_told_before_anybody_is_asked(tmp_path: Path) -> None:
    (tmp_path / LEDGER.name).write_text("no database\n")
    with pytest.raises(LedgerError, match=r"is damaged .file is not a database."):
        start_keeper(tmp_path)
