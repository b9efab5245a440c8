"""How a run came out that liars took part in: labels as they are, cluster 0 the most liked, unless none is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from actors.lying.plot import Plot
from coordinator.protocol.arrays import Bools, Indices, Ints
from scenarios.run.popularity import ranks
from scenarios.theory.lying import Outlook, by_level, outlook, sway_of, universal_limit

if TYPE_CHECKING:
    from scenarios.run.experiment import Run


def lying_scores(run: Run) -> dict[str, Any]:
    """Return what liars did to a run; nothing if nobody lied.

    Returns
    -------
    dict
        JSON values by the names of `scenarios.run.lying_columns`. ``decided_wrong`` counts items that the server takes
        for decided at the scenario's confidence, which promises none with that probability; ``all_right`` is what was
        kept of it.
    """
    plot, scenario, model = run.plot, run.scenario, run.outcome.model
    if plot is None:
        return {}
    promoted = plot.wishes > 0 if plot.ordered else np.zeros(plot.wishes.size, np.bool_)
    told: dict[str, Any] = {
        "malicious": scenario.malicious,
        "attack": scenario.attack or "untargeted",
        "coins_drawn": scenario.coins_drawn or "after",
        "lied_about": int(np.count_nonzero(plot.wishes)),
        "lies": _lies(run, plot),
        "promoted_rank": float(ranks(model.score)[promoted].mean()) if promoted.any() else None,
    }
    if run.population.truth is None:
        return told
    predicted, sway = _outlook(run, plot), sway_of(scenario, plot.makes_up, grinds=plot.grinds)
    if sway is not None and sway.tips_only and (plot.wishes < 0).any():
        sway = None  # the formula is for items that all should seem liked more
    told |= {
        "labels_wrong_predicted": predicted.wrong if predicted else None,
        "promoted_rank_predicted": predicted.rank if predicted else None,
        "tipping_share": sway.tipping(told["lied_about"]) if sway else None,
        "tipping_limit": universal_limit(scenario) if plot.ordered and scenario.epsilon is not None else None,
    }
    if scenario.clusters != len(scenario.like[0]):
        return told
    wrong = _wrong(model.cluster, by_level(scenario)[run.population.truth], ordered=plot.ordered)
    posterior = run.outcome.posterior
    decided = None if posterior is None else posterior.decided(1 - scenario.confidence)
    return told | {
        "labels_wrong": int(wrong.sum()),
        "all_right": not bool(wrong.any()),
        "decided_wrong": None if decided is None else int((wrong & decided).sum()),
    }


def _wrong(found: Indices, truth: Ints, *, ordered: bool) -> Bools:
    """Return which labels are wrong; where two clusters have no order, under the better of their two matchings."""
    wrong: Bools = found != truth
    return ~wrong if not ordered and 2 * np.count_nonzero(wrong) > wrong.size else wrong


def _lies(run: Run, plot: Plot) -> float:
    """Return how many answers should be lies, by the rounds that were asked."""
    total, grinding = 0.0, run.scenario.malicious if plot.grinds else None
    for ask, counts in zip(run.outcome.state.asked, run.outcome.state.counts, strict=True):
        size = plot.wishes.size if ask.query.pool is None else ask.query.pool.size
        first, stop = (ask.first, ask.stop) if plot.came is None else plot.came
        reached = max(min(ask.stop, stop) - max(ask.first, first), 0)
        share = float(plot.shares[size]) if grinding is None else grinding
        total += share * counts.answered * reached / max(ask.stop - ask.first, 1)
    return total


def _outlook(run: Run, plot: Plot) -> Outlook | None:
    """Return what should have come out; None where nothing is predicted."""
    scenario, answered = run.scenario, run.statistic.answered
    sway = sway_of(scenario, plot.makes_up, grinds=plot.grinds)
    if sway is None or sway.tips_only or not answered or scenario.clusters != sway.levels.size:
        return None
    assert run.population.truth is not None  # looked at by the caller
    share, labels = scenario.malicious or 0.0, run.population.truth
    return outlook(sway, scenario, share=share, labels=labels, wishes=plot.wishes, users=answered)
