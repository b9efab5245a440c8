"""What a run of the main job came to: labels and lists beside the truth, what liars did, periods, what was spent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np

from actors.ratings import BlockRatings, StoredRatings
from coordinator.protocol.arrays import Floats, Indices, Ints
from coordinator.protocol.budget import Epsilon, add, as_json
from coordinator.protocol.coins import derive
from coordinator.protocol.composition import PERSON_HISTORY
from coordinator.protocol.custom import UserClass
from coordinator.protocol.decoding.estimates import Estimates
from coordinator.protocol.decoding.line import kmeans_on_line
from coordinator.protocol.mechanism import TWO_ROUNDS, UNTIL_LEARNED
from coordinator.protocol.schedule import COUNTER, staying
from coordinator.protocol.statistics.scores import ScoreStatistic
from coordinator.protocol.trust_models import TWO_SERVERS
from coordinator.server.rounds.scheduled import Asking
from coordinator.server.rounds.state import Ask
from scenarios.config.resolve import ResolvedRun
from scenarios.config.scenario import Scenario
from scenarios.data.datasets import lines_skipped
from scenarios.data.metrics import best_matching, clustering_scores, score_advice, what_clusters_follow
from scenarios.data.populations import liked_share
from scenarios.data.rating_periods import MONTH
from scenarios.families.main.run import MainResult
from scenarios.theory.liars import Prediction, by_level, influence_of, predict_round, universal_limit
from scenarios.theory.predictors import predictor

TOP_ITEMS = 50  # Length of the list whose items are compared; all items where there are fewer


def ranks(scores: Floats) -> Ints:
    """Return every item's rank by falling score, from 1, int64, shape (N,); of equal scores the lower item comes first.

    >>> ranks(np.array([0.1, 0.7, 0.1])).tolist()
    [2, 1, 3]
    """
    rank = np.empty(scores.size, np.int64)
    rank[np.argsort(-scores, kind="stable")] = np.arange(1, scores.size + 1)
    return rank


def top_share(scores: Floats, truth: Floats, top: int = TOP_ITEMS) -> float:
    """Return which share of the ``top`` items of highest score belong to the truly most popular ones.

    >>> top_share(np.array([5.0, 4.0, 3.0, 2.0]), np.array([0.4, 0.1, 0.3, 0.1]), top=2)
    0.5
    """
    length = min(top, truth.size)
    last = np.sort(truth)[truth.size - length]
    return int(np.count_nonzero(truth[ranks(scores) <= length] >= last)) / length


def _mean_ranks(values: Floats) -> Floats:
    """Return ranks from 1 on, ties at their mean rank; scipy.stats has it, and takes a second to load."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2)[inverse])


def rank_correlation(scores: Floats, truth: Floats) -> float | None:
    """Return Spearman's rank correlation, ties at their mean rank; None where either has one value only."""
    estimated, true = (_mean_ranks(values) for values in (scores, truth))
    return float(np.corrcoef(estimated, true)[0, 1]) if np.ptp(estimated) and np.ptp(true) else None


def ranked(scenario: Scenario) -> bool:
    """Return whether scores rank items by popularity; of a custom mechanism a larger estimate is liked more."""
    return scenario.mechanism.ranks or isinstance(scenario.settings, UserClass)


def list_scores(run: MainResult) -> dict[str, Any]:
    """Return how well a run's list by score is the list by popularity; None where scores rank by something else."""
    if not ranked(run.scenario):
        return {"top_50": None, "rank_correlation": None}
    scores, truth = run.outcome.model.score, liked_share(run.population)
    return {"top_50": top_share(scores, truth), "rank_correlation": rank_correlation(scores, truth)}


def lying_scores(run: MainResult) -> dict[str, Any]:
    """Return what liars did to a run; nothing if nobody lied."""
    collusion, scenario, model = run.job.collusion, run.scenario, run.outcome.model
    if collusion is None:
        return {}
    state, nameless = run.outcome.state, run.resolved.mechanism.paired
    lies = sum(collusion.share * counts.answered for counts in state.counts)
    promoted = (collusion.wishes > 0) & (collusion.ordered and not nameless)
    scores: dict[str, Any] = {
        "malicious": scenario.malicious,
        "attack": scenario.attack or "untargeted",
        "lied_about": int(np.count_nonzero(collusion.wishes)),
        "lies": lies,
        "promoted_rank": float(ranks(model.score)[promoted].mean()) if promoted.any() else None,
    }
    if run.population.truth is None:
        return scores
    predicted, influence = prediction_of(run), influence_of(run.resolved, collusion.makes_up)
    if influence is not None and influence.tips_only and (collusion.wishes < 0).any():
        influence = None  # the formula is for items that all should seem liked more
    world, local = run.resolved.world, run.resolved.mechanism.trust != TWO_SERVERS  # the limit is about local privacy
    scores |= {
        "labels_wrong_predicted": predicted.wrong if predicted else None,
        "promoted_rank_predicted": predicted.rank if predicted else None,
        "tipping_share": influence.tipping(scores["lied_about"]) if influence else None,
        "tipping_limit": universal_limit(run.resolved.block, world.epsilon) if world.epsilon and local else None,
    }
    if scenario.clusters != len(scenario.like[0]):
        return scores
    should = by_level(run.resolved.block)[run.population.truth]
    wrong = model.cluster != (renamed(should, model.cluster, len(scenario.like[0])) if nameless else should)
    return scores | {
        "labels_wrong": int(wrong.sum()),
        "all_right": not bool(wrong.any()),
        "decided_wrong": None if run.decided is None else int((wrong & run.decided).sum()),
    }


def renamed(labels: Ints, like: Indices, clusters: int) -> Ints:
    """Return labels under the names that make most of them equal to others, each from 0 to ``clusters`` - 1.

    >>> renamed(np.array([0, 0, 1, 1]), np.array([1, 1, 0, 1], np.int32), 2).tolist()
    [1, 1, 0, 0]
    """
    both = np.bincount(labels * clusters + like, minlength=clusters**2).reshape(clusters, clusters)
    names: Ints = best_matching(both)[1]
    return names[labels]


def prediction_of(run: MainResult) -> Prediction | None:
    """Return what should have come out among liars; None where nobody lies or nothing is predicted."""
    collusion, resolved, answered = run.job.collusion, run.resolved, run.statistic.answered
    if collusion is None or resolved.account.groups:
        return None
    influence = influence_of(resolved, collusion.makes_up)
    if influence is None or influence.tips_only or not answered or resolved.world.clusters != influence.levels.size:
        return None
    assert run.population.truth is not None  # looked at by the caller
    share, labels = run.scenario.malicious or 0.0, run.population.truth
    return predict_round(influence, resolved, share=share, labels=labels, wishes=collusion.wishes, users=answered)


def predict(resolved: ResolvedRun, answered: int) -> float | None:
    """Return the predicted share of items right; None where nothing is predicted."""
    prediction = predictor(resolved) if answered else None
    return prediction.accuracy(answered) if prediction else None


def periods_of(run: MainResult) -> dict[str, Any]:
    """Return what a run over periods did, and the share of items right at the end of each; nothing of other runs."""
    scenario, state = run.scenario, run.outcome.state
    if run.resolved.asking is None:
        return {}
    rows, asks, account = list[dict[str, Any]](), state.asked, run.resolved.account
    periods = sorted({ask.query.period for ask in asks})
    for period, estimates in zip(periods, state.by_period or [None] * len(periods), strict=True):
        rounds = [index for index, ask in enumerate(asks) if ask.query.period == period]
        until = asks[: rounds[-1] + 1]
        short = sum(asks[index].stop - asks[index].first for index in rounds if not state.counts[index].answered)
        rows.append(
            {
                "period": period,
                "asked": sum(state.counts[index].asked for index in rounds),
                "answered": sum(state.counts[index].answered for index in rounds),
                **({"withheld": short} if short else {}),
                "spent": as_json(account.most_spent(until)),
                **account.period_columns(until, state.counts[: rounds[-1] + 1]),
                **({} if estimates is None else _right(run, period, estimates)),
            }
        )
    ages = bool(state.by_period) and scenario.schedule != COUNTER
    worst = min((row["accuracy"] for row in rows if "accuracy" in row), default=None)
    made = ("drift", "item_arrivals", "churn") if scenario.ratings is None else ()
    flat = scenario.flat()
    return {
        **{name: flat[name] for name in ("periods", "schedule", *(("ageing",) if ages else ()))},
        **({name: flat[name] for name in made} if made else {"period_kind": scenario.period or MONTH}),
        "unit": PERSON_HISTORY,
        "accuracy_worst": worst,
        "periods_withheld": ", ".join(str(row["period"]) for row in rows if "withheld" in row) or None,
        "by_period": rows,
    }


def _right(run: MainResult, period: int, estimates: Estimates) -> dict[str, Any]:
    """Return how right a period's estimates are; of a file, whose items have no true clusters, as a list."""
    ratings, value = run.population.ratings, estimates.value
    if isinstance(ratings, BlockRatings):
        truth = ratings.at(period).clusters
        return {"accuracy": clustering_scores(kmeans_on_line(value, run.resolved.world.clusters), truth).accuracy}
    popularity = liked_share(replace(run.population, ratings=ratings.at(period)))
    return {"top_50": top_share(value, popularity), "rank_correlation": rank_correlation(value, popularity)}


def spent_of(run: MainResult, asks: Sequence[Ask]) -> dict[str, Any]:
    """Return what devices have spent [nats]: the most, and the mean; by their ledgers, which also charge who left."""
    asking, account = run.resolved.asking, run.resolved.account
    total: Epsilon = Fraction(0)
    composed = account.trust.name == TWO_SERVERS or account.agreement.memoized  # which no ledger's sum is
    if asking is not None and (run.scenario.churn or composed):
        for devices, history in _answering_together(run, asking, asks):
            total = add(total, None if (spent := account.spent(history)) is None else devices * spent)
        most, devices = account.most_spent(asks), run.resolved.world.users
    else:
        for first, stop, spent in run.spent:
            total = add(total, None if spent is None else (stop - first) * spent)
        devices = sum(stop - first for first, stop, _ in run.spent)
        most = None if total is None else max((spent or Fraction(0) for _, _, spent in run.spent), default=Fraction(0))
    mean = total / devices if total is not None and devices else total
    return {"spent_max": as_json(most), "spent_mean": as_json(mean)}


def _answering_together(run: MainResult, asking: Asking, asks: Sequence[Ask]) -> Iterator[tuple[int, tuple[Ask, ...]]]:
    """Yield how many devices answered the same rounds: of those who came together those who left together."""
    churn, periods = run.scenario.churn, run.scenario.periods or 1
    for group in asking.groups:
        of_group = [ask for ask in asks if ask.first <= group.first and group.stop <= ask.stop]
        stays = [staying(group.stop - group.first, churn, age) for age in range(periods - group.arrival + 1)]
        for period, (before, after) in enumerate(pairwise([*stays, 0]), group.arrival):
            yield before - after, tuple(ask for ask in of_group if ask.query.period <= period)


def unlearned(run: MainResult) -> int | None:
    """Return how many items remain unlearned under a policy that learns all items; None for other policies."""
    if run.scenario.policy != UNTIL_LEARNED or not isinstance(run.statistic, ScoreStatistic):
        return None
    return int((run.statistic.sensed < run.scenario.value("answers_per_item")).sum())


def known_truth(run: MainResult) -> dict[str, Any]:
    """Return how the learned clusters and advice are where the truth is known."""
    population, ratings = run.population, run.population.ratings
    assert population.truth is not None and isinstance(ratings, BlockRatings)  # noqa: PT018 (narrows types)
    block = run.resolved.block
    sizes = block.cluster_sizes
    liked = ratings.would_like(derive(run.scenario.seed, "devices"), run.advice)[run.advice >= 0]
    return {
        **asdict(clustering_scores(run.outcome.model.cluster, population.truth)),
        "accuracy_predicted": _predicted(run),
        "advice_liked": float(liked.mean()) if liked.size else None,
        "random_liked": float(block.class_shares @ block.like @ (sizes / sizes.sum())),
    }


def _predicted(run: MainResult) -> float | None:
    """Return the predicted share of items right, among liars if there are any; None where nothing is predicted."""
    if run.resolved.account.groups:
        return None  # each group has an epsilon of its own
    if run.scenario.malicious:
        return prospect.accuracy if (prospect := prediction_of(run)) else None
    # Clusters follow from the first round alone where the second one asks the same devices about pairs
    answered = run.outcome.state.counts[0].answered if run.scenario.policy == TWO_ROUNDS else run.statistic.answered
    return None if unlearned(run) else predict(run.resolved, answered)


def file_scores(run: MainResult, noiseless: MainResult) -> dict[str, Any]:
    """Return what clusters and lists of a file of ratings are, beside a run without noise and held-out likes."""
    split, ratings = run.population.split, run.population.ratings
    assert split is not None and isinstance(ratings, StoredRatings)  # noqa: PT018 (narrows types)
    follows = what_clusters_follow(run.outcome.model.cluster, noiseless.outcome.model.cluster, split)
    return {
        **dict.fromkeys(("accuracy", "exact", "ari", "nmi", "accuracy_predicted")),
        **lines_skipped(run.scenario, split.train),
        **split.protocol,
        "clusters_follow": follows.verdict,
        "popularity_share": follows.popularity,
        "taste_share": follows.taste,
        "noiseless_ari": follows.noiseless_ari,
        **score_advice(run.advice, ratings, split),
    }
