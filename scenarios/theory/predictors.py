"""What a scenario should achieve, before anything is run: share of items right, and probability that all are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, singledispatch

from coordinator.server.moments.blocks import (
    BlockParameters,
    PairTotals,
    RevealMoments,
    SketchMoments,
    TotalMoments,
    YesMoments,
)
from coordinator.server.moments.count_moments import FrequencyMoments
from coordinator.server.moments.pair_moments import PairMoments
from coordinator.server.moments.sign_moments import SignMoments
from coordinator.server.server_half import FIXED, GROUPS, ONE_ROUND, POSTERIOR, UNTIL_LEARNED
from scenarios.data.populations import known_world
from scenarios.given.config import Scenario
from scenarios.given.run_spec import half_in
from scenarios.theory import curator_prediction
from scenarios.theory.emulated_runs import (
    NOT_EMULATED,
    Emulation,
    as_key,
    pair_emulation,
    pair_seconds,
    query_emulation,
    reveal_emulation,
    share_seconds,
    takes_too_long,
    totals_emulation,
    world_key,
)
from scenarios.theory.prediction import mixture_accuracy, mixture_exact, mixture_of, predicted_accuracy, predicted_exact
from scenarios.theory.sign_prediction import sign_accuracy, sign_exact

PREDICTED = (ONE_ROUND, FIXED, UNTIL_LEARNED, GROUPS)
"""Policies whose rounds do not depend on the answers, or only on which items are learned or most liked."""
Curve = Callable[[int], float]
"""Number of answering users to a share or a probability."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Predictor:
    """Predictions at any number of users."""

    accuracy: Curve  # Users to the expected share of items right
    exact: Curve  # Users to the probability that all items are right
    emulation: Emulation | None = None  # Where predictions are emulated: it estimates what a target needs


def predictor(scenario: Scenario) -> Predictor | None:
    """Return the predictions for a block-model scenario, from exact moments of its design."""
    if scenario.policy not in PREDICTED or scenario.pool_size is not None:
        return None
    if scenario.epsilon is not None and scenario.answers_per_device > 1:
        share = {"epsilon": scenario.epsilon / scenario.answers_per_device, "answers_per_device": 1}
        scenario = scenario.model_copy(update=share)
    filled = scenario.complete()
    world = known_world(filled)
    assert world.block is not None
    if filled.clusters != world.block.cluster_sizes.size:
        return None
    moments = half_in(filled).moments(filled.settings, world)
    return None if moments is None else _predictor(moments, world.block, filled.decoder)


def why_not_predicted(scenario: Scenario) -> str:
    """Return why a filled-in scenario that would be emulated has no predictions; empty for all others."""
    moments = half_in(scenario).moments(scenario.settings, known_world(scenario))
    items = scenario.items or 0
    pairs, shares = isinstance(moments, PairMoments | PairTotals), isinstance(moments, YesMoments | RevealMoments)
    seconds = pair_seconds(items) if pairs else share_seconds(items) if shares else 0
    return NOT_EMULATED if takes_too_long(seconds) else ""


def from_moments(moments: object, scenario: Scenario) -> Predictor | None:
    """Return what moments predict for a filled-in block-model scenario; None where nobody has said what follows."""
    world = known_world(scenario)
    assert world.block is not None  # a block model
    return _predictor(moments, world.block, scenario.decoder)


@singledispatch
def _predictor(moments: object, parameters: BlockParameters, decoder: str) -> Predictor | None:  # noqa: ARG001 (as all)
    """Return what moments of one kind predict; None where nobody has said what follows from them."""
    return moments if isinstance(moments, Predictor) else None


@_predictor.register
def _scores(moments: SketchMoments, parameters: BlockParameters, decoder: str) -> Predictor:
    sizes = parameters.cluster_sizes
    decoder = "centred" if decoder == POSTERIOR else decoder
    return Predictor(
        accuracy=lambda users: predicted_accuracy(moments, sizes, users=users, decoder=decoder),
        exact=lambda users: predicted_exact(moments, sizes, users=users, decoder=decoder),
    )


@_predictor.register
def _frequencies(moments: FrequencyMoments, parameters: BlockParameters, decoder: str) -> Predictor:  # noqa: ARG001 (as all)
    level, variance, sizes = moments.level, moments.variance, parameters.cluster_sizes
    return Predictor(
        accuracy=lambda users: mixture_accuracy(mixture_of(level, variance / users, sizes), sizes),
        exact=lambda users: mixture_exact(mixture_of(level, variance / users, sizes), sizes),
    )


@_predictor.register
def _signs(moments: SignMoments, parameters: BlockParameters, decoder: str) -> Predictor:  # noqa: ARG001 (as all)
    contrast = moments.contrast
    return Predictor(
        accuracy=lru_cache(maxsize=1024)(lambda users: sign_accuracy(parameters, contrast=contrast, users=users)),
        exact=lambda users: sign_exact(parameters, contrast=contrast, users=users),
    )


@_predictor.register
def _pairs(moments: PairMoments, parameters: BlockParameters, decoder: str) -> Predictor | None:
    sizes = tuple(parameters.cluster_sizes.tolist())
    return _of_pairs(parameters, lambda: pair_emulation(as_key(moments.rates), sizes, decoder))


@_predictor.register
def _pair_totals(moments: PairTotals, parameters: BlockParameters, decoder: str) -> Predictor | None:  # noqa: ARG001 (as all)
    return _of_pairs(parameters, lambda: totals_emulation(as_key(moments.alike), world_key(parameters), moments.scale))


def _of_pairs(parameters: BlockParameters, emulation: Callable[[], Emulation]) -> Predictor | None:
    """Return emulated predictions; None where they take too long, or where items cannot be clustered."""
    if takes_too_long(pair_seconds(parameters.items)) or not 2 <= parameters.cluster_sizes.size < parameters.items:
        return None
    one = emulation()
    return Predictor(accuracy=one.accuracy, exact=one.exact, emulation=one)


@_predictor.register
def _yeses(moments: YesMoments, parameters: BlockParameters, decoder: str) -> Predictor | None:  # noqa: ARG001 (as all)
    """Predict as if the users were enough for every item to be learned."""
    if takes_too_long(share_seconds(parameters.items)):
        return None
    one, answers = query_emulation(world_key(parameters)), moments.answers
    return Predictor(accuracy=lambda _: one.accuracy(answers), exact=lambda _: one.exact(answers))


@_predictor.register
def _revealed(moments: RevealMoments, parameters: BlockParameters, decoder: str) -> Predictor | None:  # noqa: ARG001 (as all)
    if takes_too_long(share_seconds(parameters.items)):
        return None
    one = reveal_emulation(world_key(parameters), moments.share)
    return Predictor(accuracy=one.accuracy, exact=one.exact, emulation=one)


@_predictor.register
def _totals(moments: TotalMoments, parameters: BlockParameters, decoder: str) -> Predictor:  # noqa: ARG001 (as all)
    epsilon = moments.epsilon
    return Predictor(
        accuracy=lambda users: curator_prediction.curator_accuracy(parameters, users=users, epsilon=epsilon),
        exact=lambda users: curator_prediction.curator_exact(parameters, users=users, epsilon=epsilon),
    )
