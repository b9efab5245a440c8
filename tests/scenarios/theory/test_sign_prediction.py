"""Sign sensing in one round: predictions against optimal cuts and devices; clusters that it cannot tell apart."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from runs import Command, here, small
from statistical import binomial_bounds, clopper_pearson, normal_radius, rate_fits
from thoroughness import sample

from coordinator.protocol.arrays import Floats
from coordinator.server.moments.blocks import BlockParameters
from coordinator.server.moments.sign_moments import sign_contrast
from scenarios.config.scenario import Scenario
from scenarios.data.metrics import clustering_scores
from scenarios.families.main.main_seed import predict
from scenarios.theory.predictors import DRAWN_ITEMS, LEAST_DRAWS, mistakes, predictor, sign_accuracy, sign_exact

DRAWS = 200_000
CONTRAST = 0.05
MODELS: dict[str, tuple[list[list[float]], list[float], list[int], int]] = {
    "two alike": ([[0.9, 0.1]], [1.0], [50, 50], 500),
    "the rarer one liked less": ([[0.9, 0.1]], [1.0], [80, 20], 500),
    "the liked one last": ([[0.1, 0.9]], [1.0], [30, 70], 500),
    "three": ([[0.9, 0.5, 0.1]], [1.0], [30, 30, 40], 1500),
    "three in another order": ([[0.5, 0.1, 0.8]], [1.0], [20, 30, 50], 2500),
    "two classes": ([[0.9, 0.2], [0.6, 0.1]], [0.3, 0.7], [60, 40], 900),
    "many users": ([[0.9, 0.5, 0.1]], [1.0], [30, 30, 40], 9000),
    "a small one in the middle, never the most probable": ([[0.9, 0.5, 0.1]], [1.0], [45, 5, 50], 500),
    "a small one at the end, never the most probable": ([[0.9, 0.5, 0.4]], [1.0], [45, 50, 5], 500),
    "two that are alike, and a third": ([[0.9, 0.1, 0.1]], [1.0], [40, 35, 25], 1500),
}


def model_of(name: str) -> BlockParameters:
    """A block model by name."""
    like, class_shares, sizes, _ = MODELS[name]
    return BlockParameters(
        rated=5, like=np.array(like), class_shares=np.array(class_shares), cluster_sizes=np.array(sizes)
    )


def drawn_mistakes(parameters: BlockParameters, users: int) -> list[int]:
    """How many of the draws around each cluster's level look most like another cluster; of equals the first counts."""
    levels = 2 * parameters.class_shares @ parameters.like - 1
    error, coins = 1 / (CONTRAST * np.sqrt(users)), np.random.default_rng(1)
    prior = np.log(parameters.cluster_sizes / parameters.items)
    found = []
    for cluster, level in enumerate(levels):
        seen = level + error * coins.standard_normal(DRAWS)
        likely = prior - (seen[:, None] - levels) ** 2 / (2 * error**2)
        found.append(int((likely.argmax(axis=1) != cluster).sum()))
    return found


def fits(counts: Sequence[int], wrong: Floats) -> bool:
    """Whether counts of mistakes are as probable as told, all together up to one false alarm in a million."""
    bounds = [binomial_bounds(DRAWS, float(rate), comparisons=len(counts)) for rate in wrong]
    return all(low <= count <= high for count, (low, high) in zip(counts, bounds, strict=True))


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.statistical
def test_mistakes_are_those_of_the_most_probable_cluster(name: str) -> None:
    """False alarm: 1e-6 (binomial, Bonferroni over clusters). The twin: a tenth more users are noticed."""
    parameters, users = model_of(name), MODELS[name][-1]
    counts = drawn_mistakes(parameters, users)
    assert fits(counts, mistakes(parameters, contrast=CONTRAST, users=users))
    assert not fits(counts, mistakes(parameters, contrast=CONTRAST, users=users * 11 // 10))


@pytest.mark.parametrize("name", MODELS)
def test_accuracy_and_exact_follow_from_mistakes(name: str) -> None:
    parameters, users = model_of(name), MODELS[name][-1]
    wrong, sizes = mistakes(parameters, contrast=CONTRAST, users=users), parameters.cluster_sizes
    known = 1 - float(sizes @ wrong) / parameters.items
    right = sign_accuracy(parameters, contrast=CONTRAST, users=users)
    assert right == pytest.approx(known) if known >= 0.9 else right < known
    exact = sign_exact(parameters, contrast=CONTRAST, users=users)
    assert exact == pytest.approx(float(np.prod((1 - wrong) ** sizes)), rel=1e-9)
    more = [sign_accuracy(parameters, contrast=CONTRAST, users=users * k) for k in (1, 2, 4, 8)]
    assert more == sorted(more)
    assert 0 <= exact <= right <= 1


@pytest.mark.parametrize(("items", "rated", "users"), sample([(40, 10, 1000), (12, 6, 200), (100, 20, 2000)], 1))
@pytest.mark.statistical
def test_what_the_server_must_learn_counts_where_labels_are_uncertain(items: int, rated: int, users: int) -> None:
    """False alarm 1e-6 (normal; the prediction is drawn, too). The twin knows the levels: it is too high."""
    world = small(design="sign", items=items, rated=rated, users=users, epsilon=1)
    shares = np.zeros(150)
    for seed in range(shares.size):
        run = here(world.model_copy(update={"seed": seed}))
        assert run.population.truth is not None
        shares[seed] = clustering_scores(run.outcome.model.cluster, run.population.truth).accuracy
    told, mean = predictor(world.complete()), float(shares.mean())
    assert told is not None
    draws = max(LEAST_DRAWS, DRAWN_ITEMS // items)
    radius = normal_radius(float(shares.std(ddof=1)) * (1 / shares.size + 1 / draws) ** 0.5)
    assert abs(told.accuracy(users) - mean) < radius
    sizes = np.array([items // 2, items // 2])
    model = BlockParameters(rated=rated, like=np.array([[0.9, 0.1]]), class_shares=np.ones(1), cluster_sizes=sizes)
    contrast = sign_contrast(items, items=items, rated=rated, vectors=1, best_count=1, epsilon=Fraction(1))
    assert 1 - mistakes(model, contrast=contrast, users=users).mean() > mean + radius


SHARES = 60
"""Seeds a scenario."""
WORLDS: dict[str, Scenario] = {
    "alike": small(design="sign", items=60, rated=8, users=20_000),
    "unequal": small(design="sign", items=60, rated=8, users=20_000, cluster_shares="0.3,0.7"),
    "three": small(design="sign", items=60, rated=8, users=26_000, epsilon=2, like="0.95,0.5,0.05"),
    "three rounds of vectors": small(
        design="sign", items=60, rated=8, users=4000, epsilon=3, vectors=4, policy="fixed", rounds=3
    ),
}


@pytest.mark.parametrize("name", sample(list(WORLDS), 2))
@pytest.mark.statistical
def test_predictions_hold_for_devices(name: str) -> None:
    """False alarm: 1e-6 for the mean accuracy (normal), and for the share of runs with all right (Clopper-Pearson).

    The prediction knows levels and shares, the server fits them: that costs it less than half a point where nearly all
    items are right. The twin: two thirds of the users, and twice as many, are noticed.
    """
    scenario = WORLDS[name]
    accuracies, exact = np.zeros(SHARES), 0
    for seed in range(SHARES):
        run = here(scenario.model_copy(update={"seed": seed}))
        assert run.population.truth is not None
        scores = clustering_scores(run.outcome.model.cluster, run.population.truth)
        accuracies[seed] = scores.accuracy
        exact += scores.exact
    told = predictor(scenario.complete())
    assert told is not None
    users, mean = scenario.users or 0, float(accuracies.mean())
    radius = normal_radius(float(accuracies.std(ddof=1)) / np.sqrt(SHARES))
    assert mean - radius < told.accuracy(users) < mean + radius + 0.005
    assert rate_fits(exact, SHARES, told.exact(users))
    assert told.accuracy(users * 2 // 3) < mean - radius
    assert clopper_pearson(exact, SHARES)[1] < told.exact(2 * users)


ALIKE = "0.9,0.1;0.1,0.9"
FLAGS = ["run", "--backend", "inprocess", "--design", "sign", "--items", "20", "--rated", "5", "--users", "1500"]
FLAGS += ["--like", ALIKE, "--confidence", "0.999999", "--json", "-"]
WARNING = "warning: sign cannot tell clusters 0 and 1 apart, however many users answer"


@pytest.mark.usefixtures("nobody_asks")
def test_the_warning_comes_before_anybody_is_asked(blindrec: Command, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(AssertionError, match="a device was asked"):
        blindrec(*FLAGS)
    assert capsys.readouterr().err.startswith(f"{WARNING}; anchor sensing can (--design anchor)\n")


@pytest.mark.parametrize("policy", ["one-round", "fixed", "eliminate", "item-by-item"])
@pytest.mark.statistical
def test_nothing_is_decided_where_clusters_cannot_be_told_apart(
    policy: str, blindrec: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Deciding anything is the false alarm, 1e-6 a run. The twin: clusters that differ a little are decided."""
    monkeypatch.setattr("scenarios.show.tables.EVERY", 1e9)
    flags = [*FLAGS, "--policy", policy, "--repeat", 2]
    told = blindrec(*flags)
    assert (told.code, told.err.strip().partition(";")[0]) == (0, WARNING)
    assert [one["undecided"] for one in told.result["runs"]] == [20] * 2
    assert [one["answered"] for one in told.result["runs"]] == [1500] * 2
    assert all(one["policy_error"] is None for one in told.result["runs"])
    assert all((one["accuracy_predicted"] or 0) < 0.8 for one in told.result["runs"])
    other = blindrec(*FLAGS, "--policy", policy, "--like", "0.9,0.2;0.8,0.1", "--epsilon", 5, "--users", 30_000)
    assert (other.err, other.result["undecided"]) == ("", 0)


@pytest.mark.parametrize("shares", ["0.5,0.5", "0.2,0.8"])
def test_what_cannot_be_told_apart_is_predicted_all_the_same(shares: str) -> None:
    """All items go to the larger cluster, or some by luck to the other."""
    found = predict(small(design="sign", like=ALIKE, cluster_shares=shares).complete(), 3001)
    assert found is None or found == pytest.approx(max(float(share) for share in shares.split(",")), abs=0.05)
