"""Results: a run as the flat record that `--json` prints and pandas opens."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from actors.ratings import BlockRatings, StoredRatings
from coordinator.protocol.budget import Epsilon, add, as_json
from coordinator.protocol.coins import derive
from coordinator.server.server_half import TRUST_CURATOR, UNTIL_LEARNED
from coordinator.server.statistics.scores import ScoreStatistic
from scenarios.data.advice_scores import score_advice, what_clusters_follow
from scenarios.data.datasets import lines_skipped
from scenarios.data.metrics import clustering_scores
from scenarios.data.populations import class_shares, cluster_sizes
from scenarios.given.config import Scenario
from scenarios.given.run_spec import RunSpec
from scenarios.places.spending import Spent
from scenarios.run.job import Result
from scenarios.run.lying_scores import lying_scores, outlook_of
from scenarios.run.popularity import list_scores
from scenarios.theory.predictors import predictor


def predict(scenario: Scenario, answered: int) -> float | None:
    """Return the predicted share of items right.

    None where nothing is predicted: another number of clusters than there are, a sensing probability of 1, nobody
    answered, pairs in a catalogue that is too large to emulate.
    """
    prediction = predictor(scenario) if answered else None
    return prediction.accuracy(answered) if prediction else None


def record(run: Result, noiseless: Result | None = None) -> dict[str, Any]:
    """Return a run's result."""
    scenario, statistic, queries = run.scenario, run.statistic, run.outcome.state.asked
    half = run.spec.half
    trust = half.trust
    own = run.spec.own
    joint = own is not None or _is_joint(run.spec, queries[0].query.questions)
    per_question = None if trust == TRUST_CURATOR or joint else as_json(queries[0].query.epsilon_per_question)
    truth_columns = _known_truth(run) if run.population.truth is not None else _real(run, noiseless or run)
    return {
        "design": scenario.design,
        **({"mechanism": own[0].name, "channel": own[1].how} if own else {}),
        "decoder": scenario.decoder,
        "items": scenario.items,
        "rated": scenario.rated,
        "users": scenario.users,
        "clusters": scenario.clusters,
        "theta": scenario.value("theta"),
        **scenario.settings.model_dump(mode="json"),
        **({"confidence": scenario.confidence} if half.sure else {}),
        "answers_per_device": scenario.answers_per_device,
        "dropout": scenario.dropout,
        "straggler_share": scenario.straggler_share,
        "straggler_delay": scenario.straggler_delay,
        "deadline": scenario.deadline,
        "epsilon": as_json(scenario.epsilon),
        "from_the_file": ", ".join(run.population.from_the_file) or None,
        "questions": 1 if joint else queries[0].query.questions,
        "epsilon_per_question": per_question,
        "policy": scenario.policy,
        "policy_error": run.outcome.failure,
        "rounds": len(queries),
        "unlearned": _unlearned(run),
        "undecided": _undecided(run),
        **(_verified(run) if scenario.verify else {}),
        "seed": scenario.seed,
        "trust_model": trust,
        "guarantee": run.spec.guarantee,
        "copies_max": run.population.copies_max,
        "person_epsilon": as_json(run.population.person_epsilon()),
        "asked": statistic.devices,
        "answered": statistic.answered,
        "refused": statistic.refused,
        "missing": statistic.missing,
        **truth_columns,
        **lying_scores(run),
        **list_scores(run),
        "seconds": run.costs.seconds,
        "devices_per_second": statistic.devices / run.costs.seconds,
        **_spent(run.spent),
        "bytes_per_answer": _bytes_per_answer(run),
        "retries": run.costs.retries,
        "restarts": run.costs.restarts,
        "releases_sha256": run.outcome.releases_sha256,
        "backend": run.backend,
        "workers": run.layout.workers,
        "actors": run.costs.actors,
        "devices_per_actor": run.layout.devices_per_actor,
    }


def _is_joint(spec: RunSpec, questions: int) -> bool:
    """Return whether many bits are one answer, under one epsilon that is not split over them."""
    local = spec.half.private and spec.half.trust != TRUST_CURATOR
    return local and questions > 1 and not spec.scenario.settings.splits


def _spent(stretches: Sequence[Spent]) -> dict[str, Any]:
    """Return what devices have spent, by their own ledgers [nats]: the most, and the mean."""
    total: Epsilon = Fraction(0)
    for first, stop, spent in stretches:
        total = add(total, None if spent is None else (stop - first) * spent)
    devices = sum(stop - first for first, stop, _ in stretches)
    most = None if total is None else max((spent or Fraction(0) for _, _, spent in stretches), default=Fraction(0))
    mean = total / devices if total is not None and devices else total
    return {"spent_max": as_json(most), "spent_mean": as_json(mean)}


def _bytes_per_answer(run: Result) -> float | None:
    """Return how many bytes of messages came through the coordinator for each answer to one question."""
    answers = run.statistic.answered * run.outcome.state.asked[0].query.questions
    return run.outcome.size / answers if answers else None


def _unlearned(run: Result) -> int | None:
    """Return how many items a policy that goes on until every item is learned left unlearned; None for others."""
    if run.scenario.policy != UNTIL_LEARNED or not isinstance(run.statistic, ScoreStatistic):
        return None
    return int((run.statistic.sensed < run.scenario.value("answers_per_item")).sum())


def _undecided(run: Result) -> int | None:
    """Return how many items are not decided at the scenario's confidence; None where the server does not know."""
    posterior = run.outcome.posterior
    return None if posterior is None else int((~posterior.decided(1 - run.scenario.confidence)).sum())


def _verified(run: Result) -> dict[str, int]:
    """Return about how many items fresh devices were asked again, how many answered, and whose labels they dispute."""
    state, posterior = run.outcome.state, run.outcome.posterior
    nothing = np.zeros(run.outcome.model.cluster.size, np.bool_)
    verified = nothing if state.verified is None else state.verified.information > 0
    answers = sum(one.answered for ask, one in zip(state.asked, state.counts, strict=True) if ask.verifies)
    disputed = None if posterior is None else posterior.disputed
    return {
        "verified": int(verified.sum()),
        "verifying_answers": answers,
        "disputed": 0 if disputed is None else int((disputed & verified).sum()),
    }


def _known_truth(run: Result) -> dict[str, Any]:
    population, ratings = run.population, run.population.ratings
    assert population.truth is not None and isinstance(ratings, BlockRatings)  # noqa: PT018 (narrows types)
    sizes = cluster_sizes(run.scenario)
    scores = clustering_scores(run.outcome.model.cluster, population.truth)
    liked = ratings.would_like(derive(run.scenario.seed, "devices"), run.advice)[run.advice >= 0]
    return {
        "accuracy": scores.accuracy,
        "exact": scores.exact,
        "ari": scores.ari,
        "nmi": scores.nmi,
        "accuracy_predicted": _predicted(run),
        "advice_liked": float(liked.mean()) if liked.size else None,
        "random_liked": float(class_shares(run.scenario) @ np.array(run.scenario.like) @ (sizes / sizes.sum())),
    }


def _predicted(run: Result) -> float | None:
    """Return the predicted share of items right, among liars if there are any; None where nothing is predicted."""
    if run.scenario.malicious:
        return outlook.accuracy if (outlook := outlook_of(run)) else None
    return None if _unlearned(run) else predict(run.scenario, run.statistic.answered)


def _real(run: Result, noiseless: Result) -> dict[str, Any]:
    split, ratings = run.population.split, run.population.ratings
    assert split is not None and isinstance(ratings, StoredRatings)  # noqa: PT018 (narrows types)
    follows = what_clusters_follow(run.outcome.model.cluster, noiseless.outcome.model.cluster, split)
    nothing = dict.fromkeys(("accuracy", "exact", "ari", "nmi", "accuracy_predicted"))
    return {
        **nothing,
        **lines_skipped(run.scenario, split.train),
        "clusters_follow": follows.verdict,
        "popularity_share": follows.popularity,
        "taste_share": follows.taste,
        "noiseless_ari": follows.noiseless_ari,
        **score_advice(run.advice, ratings, split),
    }
