"""What attacks do to whole runs, and what defences do to attacks: small catalogues, devices in this process."""

import math
from typing import Any

import numpy as np
import pytest
from runs import present

from coordinator.protocol.errors import InputError
from coordinator.protocol.statistics.counts import GroupStatistic
from scenarios.backends.selection import InProcess
from scenarios.config.resolve import resolve
from scenarios.config.scenario import Scenario
from scenarios.data.populations import populate
from scenarios.families.main.main_columns import record
from scenarios.families.main.run import MainResult, collusion_of, run
from scenarios.families.main.run_scores import lying_scores
from scenarios.theory.liars import influence_of, universal_limit
from scenarios.theory.predictors import predictor

SIGN: dict[str, Any] = {"design": "sign", "policy": "eliminate"}
ADAPTIVE: dict[str, Any] = {**SIGN, "items": 24, "rated": 8, "epsilon": 2, "users": 60_000}


def ran(**given: Any) -> MainResult:
    return run(Scenario(**given), InProcess(1))


def told(**given: Any) -> dict[str, Any]:
    return lying_scores(ran(**given))


@pytest.mark.few(2)
@pytest.mark.parametrize("design", ["sign", "maxsense", "set", "oue", "olh"])
def test_labels_go_wrong_as_predicted_with_levels_fitted_by_the_server(design: str) -> None:
    """Far above f* all promoted items pass, far below none does; the prediction says so, and an honest one does not."""
    common = {"design": design, "items": 40, "rated": 10, "epsilon": 3, "users": 60_000, "attack": "promote:12"}
    tipping = told(malicious=0.01, **common)["tipping_share"]
    honest, few, many = (record(ran(malicious=part, **common)) for part in (0, tipping / 4, min(2.5 * tipping, 0.9)))
    assert honest["accuracy_predicted"] > 0.99
    assert (few["labels_wrong"], many["labels_wrong"]) == (0, 12)
    assert few["labels_wrong_predicted"] < 0.5
    assert many["labels_wrong_predicted"] == pytest.approx(12, abs=0.5)
    assert many["accuracy"] < 0.8
    assert many["accuracy_predicted"] == pytest.approx(many["accuracy"], abs=0.06)
    assert many["promoted_rank"] < few["promoted_rank"]
    assert many["promoted_rank"] == pytest.approx(many["promoted_rank_predicted"], abs=4)


def test_a_margin_lets_no_wrong_label_be_decided_that_is_decided_without_it() -> None:
    """A share of liars above f* turns one item round; a margin for as many leaves it open, and costs users."""
    plain = told(**ADAPTIVE, malicious=0.1, attack="promote:1")
    assert (plain["labels_wrong"], plain["decided_wrong"]) == (1, 1)
    assert told(**ADAPTIVE, malicious=0.1, attack="promote:1", assume_malicious=0.1)["decided_wrong"] == 0
    costs = [ran(**ADAPTIVE, **({"assume_malicious": share} if share else {})) for share in (0, 0.02)]
    asked = [one.statistic.devices for one in costs]
    assert all(one.outcome.posterior is not None for one in costs)
    assert asked[0] < asked[1] < ADAPTIVE["users"]


def test_small_pools_ask_about_few_items_at_a_time_and_learn_all() -> None:
    one = ran(**ADAPTIVE, pool_size=6)
    sizes = [0 if ask.query.pool is None else ask.query.pool.size for ask in one.outcome.state.asked]
    assert max(sizes) <= 6
    assert min(sizes) >= 1
    first = [ask.query.pool for ask in one.outcome.state.asked[:4]]
    assert sorted(np.concatenate([pool for pool in first if pool is not None]).tolist()) == list(range(24))
    assert present(one.outcome.posterior).decided(0.05).all()


def test_fixed_rounds_take_pools_in_turn() -> None:
    one = ran(**{**ADAPTIVE, "policy": "fixed"}, pool_size=9, rounds=6, decoder="posterior")
    pools = [pool.tolist() for ask in one.outcome.state.asked if (pool := ask.query.pool) is not None]
    assert [len(pool) for pool in pools] == [8, 8, 8] * 2
    assert pools[0] == pools[3]
    lied = told(**{**ADAPTIVE, "policy": "fixed"}, pool_size=9, rounds=6, malicious=0.1)
    assert lied["tipping_share"] is None
    predicted = predictor(resolve(one.scenario))  # a formula for all items at once says nothing of pools
    assert predicted is None


@pytest.mark.parametrize("design", ["set", "pairs"])
def test_liars_tell_how_many_items_they_like_and_promote_theirs_in_later_groups(design: str) -> None:
    common = {"design": design, "items": 40, "rated": 8, "users": 20_000, "epsilon": 3, "counted_group": 0.1}
    plain, lied = ran(**common), ran(**common, malicious=0.3, attack="promote:2")
    sums = [one.outcome.state.merged for one in (plain, lied)]
    assert isinstance(sums[0], GroupStatistic)
    assert isinstance(sums[1], GroupStatistic)
    assert sums[0].sized.tolist() == sums[1].sized.tolist()
    assert sums[0].ranked.tolist() != sums[1].ranked.tolist()
    assert lying_scores(lied)["promoted_rank"] < 5


@pytest.mark.parametrize(("signs", "many"), [("plain", 7), ("centred", 5)])
def test_untargeted_liars_move_as_many_items_as_get_wrong_before_others_are_decided(signs: str, many: int) -> None:
    """With 1,000 items, 30 rated and a share of .01, as devices say (docs/explanation/lying.md)."""
    common: dict[str, Any] = {**SIGN, "users": 10**6, "malicious": 0.01}
    population = populate(Scenario(items=1000, rated=30, signs=signs, **common))
    plot = present(collusion_of(population, resolve(population.scenario)))
    assert np.count_nonzero(plot.wishes) == many


def test_one_item_pushed_far_in_the_first_round_makes_all_others_one_cluster_unless_pools_are_small() -> None:
    """Liars without a target choose that where it mixes up most labels; the twin's first rounds are about pools."""
    common: dict[str, Any] = {**SIGN, "items": 1000, "rated": 30, "malicious": 0.05}
    found = told(**common, users=200_000)
    assert (found["lied_about"], found["labels_wrong"], found["decided_wrong"]) == (1, 501, 501)
    pooled = told(**common, users=200_000, attack="promote:1", pool_size=100)
    assert pooled["decided_wrong"] <= 1


@pytest.mark.thorough
@pytest.mark.parametrize("design", ["anchor", "pairwise"])
def test_labels_without_names_are_matched_before_they_are_wrong(design: str) -> None:
    """Pairs tell which items belong together, not which are liked more: without lies to speak of no label is wrong."""
    given = {"design": design, "items": 20, "rated": 20, "epsilon": 3, "users": 20_000, "malicious": 1e-9}
    found = [told(**given, like=((0.9, 0.1), (0.1, 0.9)), seed=seed) for seed in range(6)]
    assert [(one["labels_wrong"], one["all_right"], one["promoted_rank"]) for one in found] == [(0, True, None)] * 6
    assert found[0]["tipping_limit"] == pytest.approx(0.8 * math.tanh(1.5) / (1 + 0.8 * math.tanh(1.5)))


def test_no_mechanism_goes_beyond_the_universal_limit() -> None:
    """What one liar moves is at least an honest answer's distance over the limit's odds; sign sensing comes near."""
    for design in ("sign", "maxsense", "multi-maxsense", "set", "subset", "oue", "olh", "grr"):
        resolved = resolve(Scenario(design=design, items=100, rated=10, users=1000))
        influence = present(influence_of(resolved))
        assert influence.tipping(1) <= universal_limit(resolved.block, resolved.world.epsilon)


CROSSED: dict[str, Any] = {"design": "anchor", "items": 60, "rated": 20, "like": ((0.9, 0.1), (0.1, 0.9)), "epsilon": 2}
LIED_SIDES = {**CROSSED, "users": 1000, "malicious": 0.2}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"attack": "promote:3"}, "nobody lies; give --malicious too"),
        ({"malicious": 0.1, "attack": "untargeted:3"}, "takes no number"),
        ({"malicious": 0.1, "attack": "bribe"}, "choose one of input:R"),
        ({"malicious": 0.1, "attack": "poison-features"}, "works only in blindrec two-tier"),
        ({"pool_size": 5}, "pool_size is 5"),
        ({"assume_malicious": 0.1}, "assume_malicious is 0.1"),
        ({"design": "anchor", "policy": "eliminate"}, "policy is 'eliminate'; anchor takes anchor alone, leave it out"),
        ({"design": "anchor", "rated": 1}, "rated is 1; anchor sensing begins with pairs of ratings"),
        ({"malicious": 0.1, "attack": "promote:300"}, "only 100 items are liked less"),
        ({**LIED_SIDES, "attack": "promote:3"}, "no cluster of anchor is the more liked one; choose untargeted"),
        ({**LIED_SIDES, "attack": "input:31"}, "only 30 items can change sides"),
    ],
)
def test_what_no_run_can_do_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        ran(**given)


LIED: list[dict[str, Any]] = [
    {"design": "sign", "attack": "promote:12"},
    {"design": "set", "attack": "promote:12"},
    {"design": "oue"},
    {"design": "maxsense", "attack": "input:12"},
    {"design": "sign", "policy": "eliminate", "attack": "promote:5"},
    {"design": "anchor", "policy": "anchor"},
]


@pytest.mark.few(3)
@pytest.mark.parametrize("lied", LIED, ids=lambda one: "-".join(map(str, one.values())))
def test_no_liars_are_a_baseline(lied: dict[str, Any]) -> None:
    """A share of 0 has the releases and the result of a run without the flag, and the columns of a run with liars."""
    common = {"items": 40, "rated": 10, "epsilon": 2, "users": 20_000}
    honest = ran(**common, **{name: lied[name] for name in ("design", "policy") if name in lied})
    nobody, some = (ran(**common, **lied, malicious=share) for share in (0, 0.02))
    assert nobody.outcome.releases_sha256 == honest.outcome.releases_sha256
    assert some.outcome.releases_sha256 != honest.outcome.releases_sha256
    plain, told_nobody, told_some = (record(one) for one in (honest, nobody, some))
    assert told_nobody.keys() == told_some.keys()
    for name in ("accuracy", "accuracy_predicted", "answered", "spent_max"):
        assert told_nobody[name] == plain[name]
    assert (told_nobody["malicious"], told_nobody["lies"]) == (0, 0)


def test_nothing_is_predicted_where_nobody_knows_what_liars_do() -> None:
    common = {"design": "pairwise", "items": 12, "rated": 6, "epsilon": 3, "users": 20_000}
    assert record(ran(**common, malicious=0.02))["accuracy_predicted"] is None
    assert record(ran(**common, malicious=0))["accuracy_predicted"] is not None


def plotted(**given: Any) -> Any:
    population = populate(Scenario(**CROSSED, users=1000, **given))
    return collusion_of(population, resolve(population.scenario))


@pytest.mark.parametrize(("attack", "many"), [("untargeted", 10), ("input:7", 7)])
def test_items_of_both_clusters_should_change_sides_though_all_are_liked_equally_often(attack: str, many: int) -> None:
    plot = plotted(malicious=0.2, attack=attack)
    population = populate(Scenario(**CROSSED, users=1000))
    assert (plot.truth == np.where(population.truth == 0, 1, -1)).all()
    moved = plot.wishes != 0
    assert (plot.wishes[moved] == -plot.truth[moved]).all()
    assert moved.sum() == many
    assert set(plot.wishes[moved].tolist()) == {-1, 1}
    assert plot.share == 0.2


def test_wrong_labels_are_those_that_were_turned_whichever_cluster_is_called_the_first() -> None:
    """A fifth of the devices turns about ten items; here the learner calls the second cluster the first."""
    ran_sides = ran(**CROSSED, users=20_000, malicious=0.2, seed=3)
    told = lying_scores(ran_sides)
    assert 7 <= told["labels_wrong"] <= 12
    assert np.count_nonzero(ran_sides.outcome.model.cluster != ran_sides.population.truth) == 60 - told["labels_wrong"]
    assert told["decided_wrong"] == told["labels_wrong"]
    assert not told["all_right"]
    predicted = ("promoted_rank", "labels_wrong_predicted", "tipping_share")
    assert all(told[name] is None for name in predicted)
