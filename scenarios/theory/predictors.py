"""What a scenario should achieve, before anything is run: share of items right, and probability that all are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, singledispatch

from coordinator.server.decoding.threads import one_thread
from coordinator.server.moments.blocks import BlockParameters, SketchMoments
from coordinator.server.moments.frequencies import FrequencyMoments
from coordinator.server.moments.open_ratings import PairTotals, RevealMoments, TotalMoments, YesMoments
from coordinator.server.moments.pairs import PairMoments, curator_signal
from coordinator.server.moments.signs import SignMoments
from coordinator.server.server_half import FIXED, GROUPS, ONE_ROUND, POSTERIOR, UNTIL_LEARNED
from scenarios.data.populations import known_world
from scenarios.given.config import Scenario
from scenarios.given.run_spec import half_in
from scenarios.theory import curator_prediction, toy_prediction
from scenarios.theory.pair_curve import pair_all_right, pair_share
from scenarios.theory.prediction import mixture_accuracy, mixture_exact, mixture_of, predicted_accuracy, predicted_exact
from scenarios.theory.sign_prediction import sign_accuracy, sign_exact
from scenarios.theory.spectral_prediction import Right, predict_signal

PREDICTED = (ONE_ROUND, FIXED, UNTIL_LEARNED, GROUPS)
"""Policies whose rounds do not depend on the answers, or only on which items are learned or most liked."""
Curve = Callable[[int], float]
"""Number of answering users to a share or a probability."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Predictor:
    """Predictions at any number of users."""

    accuracy: Curve  # Users to the expected share of items right
    exact: Curve  # Users to the probability that all items are right
    # Users to whether the values there are predictions, and not only bounds that plans search by
    told: Callable[[int], bool] = lambda _: True
    rises: bool = False  # Whether neither curve ever falls, by construction

    def share(self, users: int) -> float | None:
        """Return the expected share of items right, None where nothing is predicted."""
        return self.accuracy(users) if self.told(users) else None

    def all_right(self, users: int) -> float | None:
        """Return the probability that all items are right, None where nothing is predicted."""
        return self.exact(users) if self.told(users) else None


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
def _pairs(moments: PairMoments, parameters: BlockParameters, decoder: str) -> Predictor:
    rates, sizes = moments.rates, parameters.cluster_sizes
    return Predictor(
        accuracy=lambda users: pair_share(rates, sizes, users=users, decoder=decoder).share,
        exact=lambda users: pair_all_right(rates, sizes, users=users, decoder=decoder),
        told=lambda users: pair_share(rates, sizes, users=users, decoder=decoder).told,
        rises=True,
    )


@_predictor.register
def _yeses(moments: YesMoments, parameters: BlockParameters, decoder: str) -> Predictor:  # noqa: ARG001 (as all)
    """Predict as if the users were enough for every item to be learned."""
    return Predictor(
        accuracy=lambda _: toy_prediction.query_accuracy(parameters, answers=moments.answers),
        exact=lambda _: toy_prediction.query_exact(parameters, answers=moments.answers),
    )


@_predictor.register
def _revealed(moments: RevealMoments, parameters: BlockParameters, decoder: str) -> Predictor:  # noqa: ARG001 (as all)
    share = moments.share
    return Predictor(
        accuracy=lambda users: toy_prediction.reveal_accuracy(parameters, users=users, share=share),
        exact=lambda users: toy_prediction.reveal_exact(parameters, users=users, share=share),
    )


@_predictor.register
def _totals(moments: TotalMoments, parameters: BlockParameters, decoder: str) -> Predictor:  # noqa: ARG001 (as all)
    epsilon = moments.epsilon
    return Predictor(
        accuracy=lambda users: curator_prediction.curator_accuracy(parameters, users=users, epsilon=epsilon),
        exact=lambda users: curator_prediction.curator_exact(parameters, users=users, epsilon=epsilon),
    )


@_predictor.register
def _pair_totals(moments: PairTotals, parameters: BlockParameters, decoder: str) -> Predictor:  # noqa: ARG001 (as all)
    @lru_cache(maxsize=1024)
    def right(users: int) -> Right:
        sizes, rated = parameters.cluster_sizes, parameters.rated
        with one_thread():
            return predict_signal(curator_signal(moments.alike, sizes, users=users, rated=rated, scale=moments.scale))

    return Predictor(accuracy=lambda users: right(users).share, exact=lambda users: right(users).all_right)
