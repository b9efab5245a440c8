"""How a run came out that liars took part in, on honest labels: cluster 0 is the most liked one, never permuted.

Designs that learn from pairs tell which items belong together, and not which of them are liked more: their labels have
no names. They are matched with the true ones as well as can be, and nothing is said of ranks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from actors.lying.lies import Collusion
from coordinator.protocol.arrays import Indices, Ints
from scenarios.data.metrics import best_matching
from scenarios.run.popularity import ranks
from scenarios.theory.lying import Outlook, by_level, outlook, sway_of, universal_limit

if TYPE_CHECKING:
    from scenarios.run.job import Result


def lying_scores(run: Result) -> dict[str, Any]:
    """Return what liars did to a run; nothing if nobody lied."""
    collusion, scenario, model = run.job.collusion, run.scenario, run.outcome.model
    if collusion is None:
        return {}
    nameless = run.spec.half.paired
    promoted = (collusion.wishes > 0) & (collusion.ordered and not nameless)
    scores: dict[str, Any] = {
        "malicious": scenario.malicious,
        "attack": scenario.attack or "untargeted",
        "lied_about": int(np.count_nonzero(collusion.wishes)),
        "lies": _lies(run, collusion),
        "promoted_rank": float(ranks(model.score)[promoted].mean()) if promoted.any() else None,
    }
    if run.population.truth is None:
        return scores
    predicted, sway = outlook_of(run), sway_of(scenario, collusion.makes_up)
    if sway is not None and sway.tips_only and (collusion.wishes < 0).any():
        sway = None  # the formula is for items that all should seem liked more
    scores |= {
        "labels_wrong_predicted": predicted.wrong if predicted else None,
        "promoted_rank_predicted": predicted.rank if predicted else None,
        "tipping_share": sway.tipping(scores["lied_about"]) if sway else None,
        "tipping_limit": universal_limit(scenario) if scenario.epsilon is not None else None,
    }
    if scenario.clusters != len(scenario.like[0]):
        return scores
    should = by_level(scenario)[run.population.truth]
    wrong = model.cluster != (renamed(should, model.cluster, len(scenario.like[0])) if nameless else should)
    posterior = run.outcome.posterior
    decided = None if posterior is None else posterior.decided(1 - scenario.confidence)
    return scores | {
        "labels_wrong": int(wrong.sum()),
        "all_right": not bool(wrong.any()),
        "decided_wrong": None if decided is None else int((wrong & decided).sum()),
    }


def renamed(labels: Ints, like: Indices, clusters: int) -> Ints:
    """Return labels under the names that make most of them equal to others, each from 0 to ``clusters`` - 1.

    Examples
    --------
    >>> renamed(np.array([0, 0, 1, 1]), np.array([1, 1, 0, 1], np.int32), 2).tolist()
    [1, 1, 0, 0]
    """
    both = np.bincount(labels * clusters + like, minlength=clusters**2).reshape(clusters, clusters)
    names: Ints = best_matching(both)[1]
    return names[labels]


def _lies(run: Result, collusion: Collusion) -> float:
    """Return how many answers should be lies, by the rounds that were asked."""
    rounds = zip(run.outcome.state.asked, run.outcome.state.counts, strict=True)
    sizes = (
        (collusion.wishes.size if ask.query.pool is None else ask.query.pool.size, counts) for ask, counts in rounds
    )
    return sum(float(collusion.shares[size]) * counts.answered for size, counts in sizes)


def outlook_of(run: Result) -> Outlook | None:
    """Return what should have come out among liars; None where nobody lies or nothing is predicted."""
    collusion, scenario, answered = run.job.collusion, run.scenario, run.statistic.answered
    if collusion is None:
        return None
    sway = sway_of(scenario, collusion.makes_up)
    if sway is None or sway.tips_only or not answered or scenario.clusters != sway.levels.size:
        return None
    assert run.population.truth is not None  # looked at by the caller
    share, labels = scenario.malicious or 0.0, run.population.truth
    return outlook(sway, scenario, share=share, labels=labels, wishes=collusion.wishes, users=answered)
