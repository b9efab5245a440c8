"""The trust boundary: who may import whom, and everything that crosses in a run, held against an allow-list."""

import ast
import functools
import json
import pickle
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from messages import SEED, Wire, forged, leaves, shows_a_secret
from runs import here, of_file, planted_ratings, present, small, write_movielens

from actors.device import Cohort
from benchmarks.reference_pages import rooms
from coordinator.aggregators.gathering import ShareServer
from coordinator.protocol.coins import derive
from coordinator.protocol.messages import Query, Release
from coordinator.protocol.statistics.scores import ScoreStatistic
from coordinator.server.rounds.rounds import QueryRounds
from coordinator.shuffler import Shuffler
from scenarios.backends import on_ray
from scenarios.families.main import run as main_run
from scenarios.families.main.run import MainResult

IMPORTS = """
import importlib, json, os, pkgutil, sys
import numba, pandas, pydantic, ray, scipy.stats  # what nearly all of them need of others, once
for names in json.loads(sys.argv[1]):
    if not os.fork():
        modules = [importlib.import_module(name) for name in names]
        walked = [one.name for module in modules if hasattr(module, "__path__")
                  for one in pkgutil.walk_packages(module.__path__, module.__name__ + ".")]
        for name in walked:
            importlib.import_module(name)
        ours = [name for name in sys.modules if name.partition(".")[0] in {"actors", "coordinator", "scenarios"}]
        print(json.dumps([walked, ours]), flush=True)
        os._exit(0)
    os.wait()
"""
SERVERS = ("word_server", "seed_server")


@functools.cache
def loaded() -> list[tuple[set[str], set[str]]]:
    """The modules of the server, of devices, and of each of two servers, and all of ours that these load with them."""
    alone = [[f"coordinator.aggregators.{name}", "coordinator.aggregators.ray_shares"] for name in SERVERS]
    command = [sys.executable, "-c", IMPORTS, json.dumps([["coordinator"], ["actors"], *alone])]
    said = subprocess.run(command, capture_output=True, text=True, check=True)
    return [(set(walked), set(ours)) for walked, ours in map(json.loads, said.stdout.splitlines())]


def test_the_server_never_loads_devices_or_experiments() -> None:
    walked, ours = loaded()[0]
    assert {"coordinator.server.fleet.coordinator_actor", "coordinator.protocol.messages"} <= walked
    assert ours == walked | {"coordinator"}


def test_devices_load_of_the_server_what_is_public_and_of_experiments_nothing() -> None:
    walked, ours = loaded()[1]
    assert {"actors.host", "actors.device"} <= walked
    others = ours - walked - {"actors", "coordinator"}
    assert all(name == "coordinator.protocol" or name.startswith("coordinator.protocol.") for name in others), others


@pytest.mark.parametrize(("mine", "other"), [(0, 1), (1, 0)])
def test_one_of_two_servers_loads_neither_the_other_nor_devices_nor_who_reads(mine: int, other: int) -> None:
    ours = loaded()[2 + mine][1]
    assert f"coordinator.aggregators.{SERVERS[mine]}" in ours
    assert f"coordinator.aggregators.{SERVERS[other]}" not in ours
    strangers = {name for name in ours if not name.startswith(("coordinator.aggregators", "coordinator.protocol"))}
    assert strangers == {"coordinator"}


def all_of(run: MainResult, tap: Wire) -> list[object]:
    """What crossed, and what the server holds at the end."""
    return [*tap.crossed, run.outcome]


def test_ray_is_known_in_its_rooms_only() -> None:
    """Its edge: the fleet, the actors of devices and of their keeper, places, and submission."""
    root, found = Path(__file__).parents[1], set[str]()
    for package in ("actors", "blindrec", "coordinator", "scenarios"):
        for path in (root / package).rglob("*.py"):
            if re.search(r"^\s*(import|from) ray\b", path.read_text(), re.MULTILINE):
                found.add(str(path.relative_to(root)))
    rooms = (
        "coordinator/server/fleet/",
        "coordinator/aggregators/ray_shares.py",
        "actors/host.py",
        "scenarios/backends/",
    )
    assert [path for path in found if not path.startswith((*rooms, "scenarios/cluster/"))] == []
    assert len(found) <= 15, sorted(found)


def test_the_server_calls_no_sketch_and_draws_no_release() -> None:
    """A mechanism's code is public, so that both sides could call it; ratings and coins are the devices' alone."""
    root, found = Path(__file__).parents[1], list[str]()
    calls = {"sketch", "randomize", "packed"}
    said = re.compile(rf"\b({'|'.join(calls)})\b")  # few modules have one, and to parse all takes a second
    for path in sorted((root / "coordinator").rglob("*.py")):
        name = str(path.relative_to(root / "coordinator/protocol")) if "protocol" in path.parts else str(path)
        if name.startswith("mechanisms/") or name in {"mechanism.py", "custom_adapter.py", "short_adapter.py"}:
            continue  # they say how; `actors` calls them
        if not said.search(text := path.read_text()):
            continue
        found += [
            f"{name}:{node.lineno}"
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.Attribute) and node.attr in calls
        ]
    assert not found


def test_each_room_says_in_a_line_what_it_is_for() -> None:
    assert len(rooms()) > 30
    assert not [room for room, line in rooms().items() if not re.fullmatch(r"[A-Z].*\.", line) or ". " in line]


def test_nothing_crosses_but_what_is_on_the_list(wire: Wire) -> None:
    """Without noise; see the contract of every mechanism for what all release. No text of it shows a secret, either."""
    run = here(small(seed=SEED, epsilon="inf"), workers=2, devices_per_actor=500)
    assert {type(value) for value in wire.crossed} == {Query, int, Release, ScoreStatistic}
    assert len([leaf for value in all_of(run, wire) for leaf in leaves(value, items=40)]) > 500
    assert not shows_a_secret([all_of(run, wire), [repr(value) for value in all_of(run, wire)]], SEED)


TRUST: dict[str, tuple[dict[str, Any], set[str]]] = {
    "local": ({}, {"Cohort", "QueryRounds"}),
    "shuffled": ({"design": "grr", "trust": "shuffled"}, {"Cohort", "QueryRounds", "Shuffler"}),
    "two servers": (
        {"design": "totals", "trust": "two-servers"},
        {"Cohort", "QueryRounds", "WordServer", "SeedServer"},
    ),
    "curator": ({"design": "curator-items"}, {"Cohort", "QueryRounds"}),
    "liars": ({"malicious": 0.1}, {"LyingCohort", "QueryRounds"}),
}
"""Settings of a run by whom devices trust, and the parties that hold what was agreed."""


@pytest.mark.whole
@pytest.mark.parametrize("trust", TRUST)
def test_all_parties_of_a_run_hold_one_agreement(trust: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it devices look at their budget alone, and who stands between them and the server opens everything."""
    settings, parties = TRUST[trust]
    holders: list[object] = []
    for kind in (Cohort, QueryRounds, Shuffler, ShareServer):

        def begun(self: object, *block: Any, begin: Any = kind.__init__, **more: Any) -> None:
            begin(self, *block, **more)
            holders.append(self)

        monkeypatch.setattr(kind, "__init__", begun)
    done = here(small(**settings), devices_per_actor=1500)
    assert {type(one).__name__ for one in holders} == parties
    assert all(one._agreement == done.resolved.agreement for one in holders)  # type: ignore[attr-defined] # so they are called
    assert all(ask.query.agreement == done.resolved.agreement.digest for ask in done.outcome.state.asked)


class StartedError(Exception):
    """All actors of a run on Ray would have been started."""


@pytest.mark.whole
@pytest.mark.parametrize("trust", TRUST)
def test_all_actors_of_a_run_on_ray_are_handed_it(trust: str, monkeypatch: pytest.MonkeyPatch) -> None:
    settings, parties = TRUST[trust]
    handed: list[tuple[str, Any]] = []

    def coordinator(plan: Any, *_: Any) -> None:
        handed.append(("QueryRounds", plan.agreement))
        raise StartedError

    def host(kind: Any, *_: Any, **__: Any) -> None:
        handed.append((kind.func.__name__, kind.keywords["agreement"]))

    def server(kind: Any, _: bytes, __: bytes, ___: Any, agreement: Any, *____: Any) -> None:
        handed.append((kind.__name__, agreement))

    monkeypatch.setattr(on_ray, "start_keeper", lambda _: SimpleNamespace(actor=None))
    monkeypatch.setattr(on_ray, "start_openings", lambda _: None)
    monkeypatch.setattr(on_ray.DeviceActors, "end", lambda _: None)
    monkeypatch.setattr("ray.kill", lambda _: None)
    monkeypatch.setattr(on_ray, "start_host", host)
    monkeypatch.setattr(on_ray, "start_server", server)
    monkeypatch.setattr(on_ray, "start_shuffler", lambda _, __, agreement, *___: handed.append(("Shuffler", agreement)))
    monkeypatch.setattr(on_ray, "start_coordinator", coordinator)
    with pytest.raises(StartedError):
        main_run.run(scenario := small(**settings), on_ray.OnRay(1))
    assert {name for name, _ in handed} == parties
    assert {agreement for _, agreement in handed} == {here(scenario).resolved.agreement}


def test_ratings_of_a_file_stay_with_the_devices(wire: Wire, tmp_path: Any) -> None:
    rows = planted_ratings(users=100, items=40, each=12)
    file = write_movielens(tmp_path / "ratings.csv", rows)
    run = here(of_file(file, seed=SEED), devices_per_actor=30)
    assert sum(1 for value in all_of(run, wire) for _ in leaves(value, items=40)) > 50
    assert not shows_a_secret(all_of(run, wire), SEED)
    assert str(file).encode() not in pickle.dumps(all_of(run, wire))


def test_the_search_for_secrets_would_find_them() -> None:
    assert shows_a_secret(small(seed=SEED), SEED)
    assert shows_a_secret({"key": derive(SEED, "devices")}, SEED)
    assert shows_a_secret(np.frombuffer(derive(SEED, "devices"), "<u8"), SEED)
    assert not shows_a_secret(derive(SEED, "public"), SEED)


def test_the_list_would_stop_ratings_and_other_strangers() -> None:
    run = here(small())
    query = here(small(design="item-query", users=50)).outcome.state.asked[0].query
    strangers: list[object] = [run.population, run.population.ratings, run.scenario, {1: 0.5}, {0}, {"likes": "3"}]
    strangers += [np.zeros(41), np.zeros(40, bool), np.zeros((40, 41)), forged(query, pool=np.array([3, 1], np.int32))]
    for stranger in strangers:
        with pytest.raises(AssertionError):
            list(leaves([stranger], items=40))


def test_the_server_holds_no_true_cluster_and_no_memory_of_the_private_side() -> None:
    run = here(small(seed=SEED, users=500))
    truth = present(run.population.truth)
    arrays = [leaf for leaf in leaves(run.outcome, items=40) if isinstance(leaf, np.ndarray)]
    assert len(arrays) == 5
    for array in arrays:
        assert not np.shares_memory(array, truth)
        assert not np.array_equal(array, truth)
        assert not np.array_equal(array, 1 - truth)
    assert truth.tobytes() not in pickle.dumps(run.outcome)
