"""The trust boundary: who may import whom, and everything that crosses in a run, held against an allow-list."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from boundary import SEED, leaves, shows_a_secret
from forging import forged
from runs import here, of_file, planted_ratings, small, write_movielens

from actors.device import Cohort
from coordinator.aggregation import Statistic, aggregate
from coordinator.pair_statistics import PairStatistic
from coordinator.protocol.coins import derive
from coordinator.protocol.messages import Query, Release
from coordinator.statistics import ScoreStatistic
from scenarios import session, together
from scenarios.config import Scenario
from scenarios.experiment import Run, learner_of
from scenarios.policies import policy_of
from scenarios.questions import settle

IMPORT_ALL = """
import importlib, json, pkgutil, sys
package = importlib.import_module(sys.argv[1])
walked = [found.name for found in pkgutil.walk_packages(package.__path__, package.__name__ + ".")]
for name in walked:
    importlib.import_module(name)
ours = [name for name in sys.modules if name.partition(".")[0] in {"actors", "coordinator", "scenarios"}]
print(json.dumps([walked, ours]))
"""


def loaded_with(package: str) -> tuple[set[str], set[str]]:
    """The modules of a package, and all of ours that a fresh interpreter holds once it has imported them."""
    said = subprocess.run([sys.executable, "-c", IMPORT_ALL, package], capture_output=True, text=True, check=True)
    walked, ours = json.loads(said.stdout)
    return set(walked), set(ours)


def test_the_server_never_loads_devices_or_experiments() -> None:
    walked, ours = loaded_with("coordinator")
    assert {"coordinator.remote", "coordinator.aggregator", "coordinator.protocol.messages"} <= walked
    assert ours == walked | {"coordinator"}


def test_devices_load_of_the_server_what_is_public_and_of_experiments_nothing() -> None:
    walked, ours = loaded_with("actors")
    assert {"actors.remote", "actors.device"} <= walked
    others = ours - walked - {"actors", "coordinator"}
    assert all(name == "coordinator.protocol" or name.startswith("coordinator.protocol.") for name in others), others


class Wire:
    """All that crossed in a run: what devices were handed and gave back, and what the server was handed."""

    def __init__(self) -> None:
        self.crossed: list[Any] = []


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Wire:
    """A tap on both sides of every run in this process, which goes message by message as on Ray."""
    tap = Wire()

    class Tapped(Cohort):
        def answer(self, query: Query, first: int, stop: int) -> Release:
            release = super().answer(query, first, stop)
            tap.crossed += [query, first, stop, release]
            return release

    def tapped(query: Query, release: Release) -> Statistic:
        statistic = aggregate(query, release)
        tap.crossed += [query, release, statistic]
        return statistic

    monkeypatch.setattr(session, "Cohort", Tapped)
    monkeypatch.setattr(together, "aggregate", tapped)
    monkeypatch.setattr(together, "_shares", lambda *_: False)
    monkeypatch.setattr("coordinator.layout.SMALLEST_BLOCK", 64)
    return tap


def all_of(run: Run, tap: Wire) -> list[object]:
    """What crossed, and what the server holds at the end."""
    return [*tap.crossed, run.outcome]


@pytest.mark.parametrize("scenario", [small(seed=SEED, like="0.9,0.2;0.1,0.7"), small(seed=SEED, epsilon="inf")])
def test_nothing_crosses_but_what_is_on_the_list(scenario: Scenario, wire: Wire) -> None:
    run = here(scenario, workers=2, devices_per_actor=500)
    kinds = {type(value) for value in wire.crossed}
    assert kinds == {Query, int, Release, ScoreStatistic}
    assert len([value for value in wire.crossed if type(value) is Release]) > 30
    found = [leaf for value in all_of(run, wire) for leaf in leaves(value, items=40)]
    assert len(found) > 500


DESIGNS: dict[str, dict[str, Any]] = {
    "multi-maxsense": {"design": "multi-maxsense", "questions": 3, "epsilon": 3},
    "sign": {"design": "sign", "vectors": 4},
    "eliminate": {"design": "sign", "policy": "eliminate", "answers_per_device": 2},
    "item-by-item": {"design": "maxsense", "policy": "item-by-item", "confidence": 0.9},
    "fixed": {"design": "maxsense", "policy": "fixed", "rounds": 3},
    "pairwise": {"design": "pairwise"},
    "public pairs": {"design": "pairwise", "rated_items": "public"},
    "item-query": {"design": "item-query", "answers_per_item": 5},
    "full-reveal": {"design": "full-reveal"},
    "curator-items": {"design": "curator-items"},
    "curator-pairs": {"design": "curator-pairs"},
}


@pytest.mark.parametrize("name", DESIGNS)
def test_nothing_crosses_in_any_design_but_what_is_on_the_list(name: str, wire: Wire) -> None:
    scenario = small(**DESIGNS[name], seed=SEED, like="0.9,0.2;0.1,0.7", users=601)
    run = here(scenario, workers=2, devices_per_actor=100)
    told = {Query, int, Release, PairStatistic if "pairs" in name or "pairwise" in name else ScoreStatistic}
    assert {type(value) for value in wire.crossed} == told
    held = [*all_of(run, wire), policy_of(run.scenario), learner_of(run.scenario)]
    assert sum(1 for value in held for _ in leaves(value, items=40)) > 100
    assert not shows_a_secret(held, SEED)


@pytest.mark.parametrize("name", DESIGNS)
def test_a_release_is_as_long_as_its_questions_and_pairs_cross_where_they_are_public(name: str, wire: Wire) -> None:
    """Its length tells how many devices it is about, and nothing about them; padding is 0."""
    here(small(**DESIGNS[name], users=301), devices_per_actor=100)
    for release in [value for value in wire.crossed if type(value) is Release and value.count]:
        bits = release.count * release.width
        assert len(release.bits) == -(-bits // 8)
        assert int.from_bytes(release.bits, "big") & ((1 << -bits % 8) - 1) == 0
        assert (release.answered, release.refused) == (None, 0)
        assert (release.pairs is not None) == (name == "public pairs")
        assert len(release.pairs or b"") == (8 * release.count if name == "public pairs" else 0)


def test_the_server_gets_the_curators_coins_only_where_it_is_the_curator() -> None:
    for name, changes in DESIGNS.items():
        learner = learner_of(settle(small(**changes).complete()))
        assert (learner.curator is not None) == name.startswith("curator")


def test_ratings_of_a_file_stay_with_the_devices(wire: Wire, tmp_path: Any) -> None:
    rows = planted_ratings(users=100, items=40, each=12)
    file = write_movielens(tmp_path / "ratings.csv", rows)
    run = here(of_file(file, seed=SEED), devices_per_actor=30)
    assert sum(1 for value in all_of(run, wire) for _ in leaves(value, items=40)) > 50
    assert not shows_a_secret(all_of(run, wire), SEED)
    assert str(file).encode() not in pickle.dumps(all_of(run, wire))


def test_a_release_is_one_bit_a_device_and_no_more(wire: Wire) -> None:
    here(small(users=1001), devices_per_actor=300)
    releases = {value.first: value for value in wire.crossed if type(value) is Release}
    assert sum(release.count for release in releases.values()) == 1001
    for release in releases.values():
        assert len(release.bits) == -(-release.count // 8)
        assert release.answered is None
        assert (release.width, release.refused) == (1, 0)
        padding = int.from_bytes(release.bits, "big") & ((1 << -release.count % 8) - 1)
        assert padding == 0


def test_what_one_loop_for_both_sides_gives_out_is_on_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    crossed: list[Any] = []

    def tapped(query: Query, *private: Any) -> tuple[Statistic, Release]:
        statistic, release = together.answer(query, *private)
        crossed.extend([query, release, statistic])
        return statistic, release

    monkeypatch.setattr(session, "answer", tapped)
    run = here(small(seed=SEED), devices_per_actor=500)
    assert {type(value) for value in crossed} == {Query, Release, ScoreStatistic}
    assert sum(1 for value in [*crossed, run.outcome] for _ in leaves(value, items=40)) > 100
    assert not shows_a_secret([*crossed, run.outcome], SEED)


def test_no_seed_and_no_secret_is_in_what_crosses(wire: Wire) -> None:
    run = here(small(seed=SEED), devices_per_actor=500)
    assert not shows_a_secret(all_of(run, wire), SEED)
    assert not shows_a_secret([repr(value) for value in all_of(run, wire)], SEED)


def test_the_search_for_secrets_would_find_them() -> None:
    assert shows_a_secret(small(seed=SEED), SEED)
    assert shows_a_secret({"key": derive(SEED, "devices")}, SEED)
    assert shows_a_secret(np.frombuffer(derive(SEED, "devices"), "<u8"), SEED)
    assert not shows_a_secret(derive(SEED, "public"), SEED)


def test_the_list_would_stop_ratings_and_other_strangers() -> None:
    run = here(small())
    query = here(small(design="item-query", users=50)).outcome.state.asked[0].query
    strangers = [run.population, run.population.ratings, run.scenario, np.zeros(41), np.zeros(40, bool), {1: 0.5}, {0}]
    strangers += [np.zeros((40, 41)), {"likes": "3"}, forged(query, pool=np.array([3, 1], np.int32))]
    for stranger in strangers:
        with pytest.raises(AssertionError):
            list(leaves([stranger], items=40))


def test_the_server_holds_no_true_cluster_and_no_memory_of_the_private_side() -> None:
    run = here(small(seed=SEED, users=500))
    truth = run.population.truth
    assert truth is not None
    arrays = [leaf for leaf in leaves(run.outcome, items=40) if isinstance(leaf, np.ndarray)]
    assert len(arrays) == 5
    for array in arrays:
        assert not np.shares_memory(array, truth)
        assert not np.array_equal(array, truth)
        assert not np.array_equal(array, 1 - truth)
    assert truth.tobytes() not in pickle.dumps(run.outcome)
