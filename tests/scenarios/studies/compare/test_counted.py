"""A comparison whose devices first tell how many items they like: its law is theirs, and it helps where w is wrong."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import worlds
from runs import write_movielens
from statistical import binomial_bounds

from actors.device import Cohort
from actors.ratings import StoredRatings
from coordinator.server.mechanisms import aggregate
from coordinator.server.mechanisms.oracles import subset_rates
from coordinator.server.mechanisms.sets import CountedSet
from coordinator.server.statistics.counts import SIZED, SIZED_TOP, GroupStatistic
from scenarios.config.run_spec import RunSpec
from scenarios.studies.compare.comparison_settings import Comparison
from scenarios.studies.compare.row import AGGREGATE, DEVICES, RowRequest
from scenarios.studies.compare.rows import registered_rows
from scenarios.studies.compare.rows.local import LocalRow
from scenarios.studies.compare.sum_laws import group_counts, shares_of
from scenarios.studies.compare.worlds import FileWorld, world_of

ITEMS, PEOPLE = 120, 400


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> FileWorld:
    """People who like 2 to 9 of 120 items, the first ones most."""
    coins, rows = np.random.default_rng(0), []
    weight = 1 / np.arange(1, ITEMS + 1)
    for person in range(PEOPLE):
        liked = coins.choice(ITEMS, size=coins.integers(3, 12), replace=False, p=weight / weight.sum())
        rows += [(person, int(item), 5.0) for item in liked]
    path = write_movielens(tmp_path_factory.mktemp("file") / "ratings.csv", rows)
    return world_of(Comparison(ratings=path, like_from=4), 0)


@pytest.mark.statistical
@pytest.mark.parametrize("pool", [None, np.arange(10, dtype=np.int32)])
def test_devices_tell_numbers_of_likes_as_the_law_says(
    world: FileWorld, pool: np.ndarray[tuple[int], np.dtype[np.int32]] | None
) -> None:
    """Counts of 40,000 devices lie within binomial bounds of the law, false alarm 1e-6; its twin knows another."""
    user = np.random.default_rng(1).integers(world.people, size=40_000).astype(np.int32)
    devices = StoredRatings(rows=world.fold.train, user=user, rated_public=False)
    design = CountedSet(items=ITEMS, rated=20, counted_group=0.5)
    query = design.of_numbers(round_number=0, public_seed=worlds.PUBLIC, epsilon=Fraction(2), pool=pool)
    told = aggregate(query, Cohort(devices, worlds.SECRET, 0, user.size, Fraction(2)).answer(query, 0, user.size))
    assert isinstance(told, GroupStatistic)
    counts = told.of(SIZED if pool is None else SIZED_TOP).sums
    shares, rates = shares_of(query, world.fold), subset_rates(query)
    assert shares.sum() == pytest.approx(1)

    def alarms(contrast: float) -> bool:
        chances = (1 - contrast) / counts.size + contrast * shares
        bounds = [binomial_bounds(user.size, chance, comparisons=counts.size) for chance in chances.tolist()]
        return not all(low <= count <= high for count, (low, high) in zip(counts.tolist(), bounds, strict=True))

    assert not alarms(rates.contrast)
    assert alarms(0.9 * rates.contrast)
    drawn = group_counts(query, world.fold, user.size, np.random.default_rng(2))
    assert drawn.of(SIZED if pool is None else SIZED_TOP).sums.sum() == user.size


@pytest.mark.statistical
@pytest.mark.parametrize("devices", [0, 1_000_000])
def test_sets_of_the_size_that_is_told_teach_more_than_declared_ones(devices: int, world: FileWorld) -> None:
    """Correlations with popularity of five seeds, all higher: chance has 1 in 32 where both teach alike."""
    row, told = registered_rows()["local: set"], dict[float, list[float]]()
    for counted in (0.05, 0.0):
        wanted = Comparison(ratings=Path("none.csv"), likes=50, counted=counted, devices=devices)
        for seed in range(5):
            advised = row.advise(
                world, RowRequest(settings=wanted, epsilon=Fraction(2), users=8000, public=0, seed=seed)
            )
            assert advised.simulated == (DEVICES if devices else AGGREGATE)
            found_by = float(np.corrcoef(advised.popularity, world.popularity)[0, 1])
            told.setdefault(counted, []).append(found_by)
    assert (np.array(told[0.05]) > np.array(told[0.0])).all()


def test_pairs_are_asked_so_as_well_and_two_tiers_are_not(world: FileWorld) -> None:
    wanted = Comparison(ratings=Path("none.csv"), likes=8, counted=0.05)
    asked = RowRequest(settings=wanted, epsilon=None, users=400, public=0.2, seed=0)
    row = registered_rows()["local: pairs"]
    assert isinstance(row, LocalRow)
    assert RunSpec(row.scenario_of(world.items, asked)).design.counted_group == 0.05  # type: ignore[attr-defined]
    tiers = [
        registered_rows()["two-tier: popularity with set"].advise(world, replace(asked, settings=one)).popularity
        for one in (wanted, Comparison(ratings=Path("none.csv"), likes=8))
    ]
    assert tiers[0].tolist() == tiers[1].tolist()
