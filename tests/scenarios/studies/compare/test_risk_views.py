"""What an attacker sees of each row: worst cases by laws of the row's promise, groups and pools as they are asked."""

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from runs import planted_ratings, write_movielens
from scipy import special, stats

from coordinator.protocol.budget import as_float
from coordinator.protocol.composition import gaussian_distance
from scenarios.studies.answer import right_at_most
from scenarios.studies.compare.comparison import comparison
from scenarios.studies.compare.comparison_settings import Comparison
from scenarios.studies.compare.risk.histories import Games, Histories, HistoryPair, without_like
from scenarios.studies.compare.risk.report_tests import ReportTest, SensedBit, SubsetTest
from scenarios.studies.compare.risk.risk_study import result_of
from scenarios.studies.compare.risk.sum_tests import KeptPairsSum
from scenarios.studies.compare.risk.views import RowView, views_of, whole_world
from scenarios.studies.compare.row import RowRequest
from scenarios.studies.compare.run_row import RunRow, asks_of
from scenarios.studies.compare.scoring import rows_of
from scenarios.studies.compare.worlds import table_of

DELTA, USERS, ITEMS, CURATED = 1e-6, 1000, 30, 3


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_movielens(
        tmp_path_factory.mktemp("views") / "ratings.csv", planted_ratings(users=60, items=ITEMS, each=12)
    )


def views(file: Path, name: str, **more: Any) -> tuple[Comparison, list[RowView]]:
    values = {"ratings": file, "like_from": 4, "likes": 5, "curated": CURATED, "top": 11, "people": USERS}
    named = {"delta": DELTA, **({} if "design" in more else {"mechanisms": name.partition(": ")[2]})}
    settings = comparison({**values, **named, **more}).settings
    table = table_of(settings)
    games = Games.of(Histories.of_table(table, 4.0), 0, most=1, others=1)
    request = RowRequest(settings=settings, epsilon=Fraction(1), users=USERS, seed=0)
    return settings, views_of(rows_of(settings)[name], whole_world(table, 4.0), request, games)


@pytest.mark.whole
@pytest.mark.parametrize(("relation", "steps"), [("replace", 1), ("add-remove", 2)])
def test_worst_histories_are_as_far_apart_as_the_noise_is_for(file: Path, relation: str, steps: int) -> None:
    """Two histories are two steps of add-remove: Gaussian distances grow with their root, and Laplace's rates add."""
    whole = gaussian_distance(1, DELTA)
    by_parts = math.hypot(gaussian_distance(0.25, DELTA / 2), gaussian_distance(0.75, DELTA / 2))
    of_bits = stats.binom(2 * CURATED, special.expit(steps / (2 * CURATED)))
    expected = {
        "curator: popularity (Gaussian)": special.ndtr(math.sqrt(steps) * whole / 2),
        "curator: pairs with EASE": special.ndtr(math.sqrt(steps) * whole / 2),
        "curator: popularity": of_bits.sf(CURATED) + of_bits.pmf(CURATED) / 2,
        "two-servers: popularity": special.ndtr(math.sqrt(steps) * whole / 2),
        "two-servers: popularity (Laplace)": of_bits.sf(CURATED) + of_bits.pmf(CURATED) / 2,
        "two-servers: pairs with EASE": special.ndtr(math.sqrt(steps) * by_parts / 2),
    }
    for name, worst in expected.items():
        _, (view, *_) = views(file, name, relation=relation)
        assert view.attack is not None
        assert view.attack.worst == pytest.approx(worst, abs=2e-5), name


def test_bounds_are_of_the_relation_of_the_row(file: Path) -> None:
    settings, (view, *_) = views(file, "curator: popularity", relation="add-remove")
    games = Games.of(Histories.of_table(table_of(settings), 4.0), 0, most=20, others=1)
    assert view.risk(games, "add-remove").bound == right_at_most(2)
    assert view.risk(games, "replace").bound == right_at_most(1)


def test_groups_weigh_as_their_shares_and_hide_among_their_own(file: Path) -> None:
    popular = [0, 2, 4, 6, 7, 8, 10, 11, 12, 13, 14]
    for name, devices in (("local: pairs", [0, 0, 0]), ("shuffled: pairs", [200, 150, 650])):
        _, (view, *_) = views(file, name)
        assert isinstance(view.attack, ReportTest)
        assert view.attack.shares == pytest.approx((0.2, 0.15, 0.65))
        tests = [test if isinstance(test, SubsetTest) else test.of_pairs for test in view.attack.tests]
        assert [test.devices for test in tests] == devices
        everything, *pools = (scope.pool for scope in view.attack.scopes)
        assert everything is None
        assert [pool.tolist() for pool in pools if pool is not None] == [popular, popular]
    _, (view, *_) = views(file, "curator: pairs with EASE")
    assert isinstance(view.attack, KeptPairsSum)
    (pool,) = (scope.pool for scope in view.attack.scopes if scope.pool is not None)
    assert pool.tolist() == popular


def test_one_of_many_values_is_told_as_their_channel_tells_it(file: Path) -> None:
    _, (view,) = views(file, "local: grr", design="grr", trust_models="local")
    assert view.attack is not None
    odds, values = math.e, ITEMS + 1  # an item, or none
    assert view.attack.worst == pytest.approx(0.5 + (odds - 1) / (odds + values - 1) / 2, abs=1e-9)


def test_what_a_device_reports_twelve_times_adds_up_if_the_shuffler_lies(file: Path) -> None:
    settings, (*_, lies) = views(file, "shuffled: set (12 reports)")
    row = rows_of(settings)["shuffled: set (12 reports)"]
    assert isinstance(row, RunRow)
    request = RowRequest(settings=settings, epsilon=Fraction(1), users=USERS, seed=0)
    asks = asks_of(row.sampled(whole_world(table_of(settings), 4.0), request))
    epsilons = [as_float(ask.query.epsilon) for ask in asks]
    assert len(epsilons) == 12
    assert lies.name == "lies"
    assert lies.epsilon == pytest.approx(math.fsum(epsilons))


def test_likes_that_no_question_is_about_are_guessed_by_a_coin() -> None:
    attack = SensedBit(Fraction(1), 0.1, ITEMS)
    told = attack.right([HistoryPair.without_like(3)])
    assert without_like(attack, [(3, 0.6)]) == pytest.approx(0.6 * told + 0.4 * 0.5)


def test_who_likes_nothing_is_not_attacked(tmp_path: Path) -> None:
    rows = [*planted_ratings(users=25, items=ITEMS, each=12), (25, 0, 1.0), (26, 1, 2.0)]
    settings = Comparison(ratings=write_movielens(tmp_path / "ratings.csv", rows), like_from=4.0)
    result = result_of(settings, USERS, {})
    assert (result["people_attacked"], result["people_in_file"]) == (25, 27)
