"""What a scenario should achieve, before anything is run: share of items right, and probability that all are."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from coordinator.curator import pair_sensitivity
from coordinator.designs import MultiMaxSense
from coordinator.moments import BlockParameters, SketchMoments, maxsense_moments
from coordinator.multi_moments import multi_maxsense_moments
from coordinator.open_designs import Reveal
from coordinator.pair_moments import BlockSignal, curator_signal, pair_agreement
from coordinator.pool_designs import SignSensing
from coordinator.protocol.budget import as_float
from coordinator.rounds import POSTERIOR
from scenarios import curator_prediction, toy_prediction
from scenarios.config import Scenario
from scenarios.kinds import design_of
from scenarios.pair_curve import pair_all_right, pair_share
from scenarios.prediction import predicted_accuracy, predicted_exact
from scenarios.separability import block_parameters
from scenarios.sign_prediction import sign_accuracy, sign_exact
from scenarios.spectral_prediction import signal_accuracy, signal_exact

PREDICTED = ("one-round", "fixed", "until-learned")
"""Policies whose rounds do not depend on the answers, or only on which items are learned."""
Curve = Callable[[int], float]
"""Number of answering users to a share or a probability."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Predictor:
    """Predictions at any number of users.

    Attributes
    ----------
    accuracy : callable
        Users to the expected share of items right.
    exact : callable
        Users to the probability that all items are right.
    told : callable
        Users to whether the values there are predictions, and not only bounds that plans search by.
    """

    accuracy: Curve
    exact: Curve
    told: Callable[[int], bool] = lambda _: True

    def share(self, users: int) -> float | None:
        """Return the expected share of items right, None where nothing is predicted."""
        return self.accuracy(users) if self.told(users) else None

    def all_right(self, users: int) -> float | None:
        """Return the probability that all items are right, None where nothing is predicted."""
        return self.exact(users) if self.told(users) else None


def predictor(scenario: Scenario) -> Predictor | None:
    """Return the predictions for a block-model scenario, from exact moments of its design.

    Parameters
    ----------
    scenario : Scenario
        Filled in (`Scenario.complete`), ``questions`` a number (`scenarios.questions.settle`).

    Returns
    -------
    Predictor or None
        None where nothing is predicted: another number of clusters than there are, a sensing probability of 1, a
        policy that adapts.
    """
    if scenario.policy not in PREDICTED:
        return None
    if scenario.epsilon is not None and scenario.answers_per_device > 1:
        share = {"epsilon": scenario.epsilon / scenario.answers_per_device, "answers_per_device": 1}
        scenario = scenario.model_copy(update=share)
    parameters = block_parameters(scenario)
    if scenario.complete().clusters != parameters.cluster_sizes.size:
        return None
    return _PREDICTORS[scenario.design](scenario.complete(), parameters)


def _scores(moments: SketchMoments, parameters: BlockParameters, decoder: str) -> Predictor:
    sizes = parameters.cluster_sizes
    decoder = "centred" if decoder == POSTERIOR else decoder
    return Predictor(
        accuracy=lambda users: predicted_accuracy(moments, sizes, users=users, decoder=decoder),
        exact=lambda users: predicted_exact(moments, sizes, users=users, decoder=decoder),
    )


def _maxsense(scenario: Scenario, parameters: BlockParameters) -> Predictor | None:
    sensing = scenario.theta / parameters.rated
    if sensing >= 1:
        return None
    moments = maxsense_moments(parameters, sensing=sensing, epsilon=as_float(scenario.epsilon))
    return _scores(moments, parameters, scenario.decoder)


def _sign(scenario: Scenario, parameters: BlockParameters) -> Predictor | None:
    design = design_of(scenario)
    assert isinstance(design, SignSensing)
    query = design.query(round_number=0, public_seed=bytes(16), epsilon=scenario.epsilon)
    contrast = math.sqrt(float(design.rates(query)[0]))
    return Predictor(
        accuracy=lambda users: sign_accuracy(parameters, contrast=contrast, users=users),
        exact=lambda users: sign_exact(parameters, contrast=contrast, users=users),
    )


def _multi_maxsense(scenario: Scenario, parameters: BlockParameters) -> Predictor | None:
    design = design_of(scenario)
    assert isinstance(design, MultiMaxSense)
    if design.set_size == design.items:
        return None
    moments = multi_maxsense_moments(
        parameters, set_size=design.set_size, questions=design.questions, epsilon=as_float(scenario.epsilon)
    )
    return _scores(moments, parameters, scenario.decoder)


def _pairwise(scenario: Scenario, parameters: BlockParameters) -> Predictor:
    rates = pair_agreement(
        parameters,
        agreement=scenario.agreement,
        epsilon=as_float(scenario.epsilon),
        rated_public=scenario.rated_items == "public",
    )
    sizes, decoder = parameters.cluster_sizes, scenario.decoder
    return Predictor(
        accuracy=lambda users: pair_share(rates, sizes, users=users, decoder=decoder).share,
        exact=lambda users: pair_all_right(rates, sizes, users=users, decoder=decoder),
        told=lambda users: pair_share(rates, sizes, users=users, decoder=decoder).told,
    )


def _item_query(scenario: Scenario, parameters: BlockParameters) -> Predictor:
    """Predict as if the users were enough for every item to be learned."""
    answers = scenario.answers_per_item
    return Predictor(
        accuracy=lambda _: toy_prediction.query_accuracy(parameters, answers=answers),
        exact=lambda _: toy_prediction.query_exact(parameters, answers=answers),
    )


def _full_reveal(scenario: Scenario, parameters: BlockParameters) -> Predictor:
    design = design_of(scenario)
    assert isinstance(design, Reveal)
    share = design.share
    return Predictor(
        accuracy=lambda users: toy_prediction.reveal_accuracy(parameters, users=users, share=share),
        exact=lambda users: toy_prediction.reveal_exact(parameters, users=users, share=share),
    )


def _curator_items(scenario: Scenario, parameters: BlockParameters) -> Predictor:
    epsilon = scenario.epsilon
    return Predictor(
        accuracy=lambda users: curator_prediction.curator_accuracy(parameters, users=users, epsilon=epsilon),
        exact=lambda users: curator_prediction.curator_exact(parameters, users=users, epsilon=epsilon),
    )


def _curator_pairs(scenario: Scenario, parameters: BlockParameters) -> Predictor:
    alike = pair_agreement(parameters, agreement="rated-equal", epsilon=math.inf, rated_public=True)
    scale = pair_sensitivity(parameters.rated) / as_float(scenario.epsilon)

    def signal(users: int) -> BlockSignal:
        return curator_signal(alike, parameters.cluster_sizes, users=users, rated=parameters.rated, scale=scale)

    return Predictor(
        accuracy=lambda users: signal_accuracy(signal(users)), exact=lambda users: signal_exact(signal(users))
    )


_PREDICTORS: dict[str, Callable[[Scenario, BlockParameters], Predictor | None]] = {
    "maxsense": _maxsense,
    "multi-maxsense": _multi_maxsense,
    "sign": _sign,
    "pairwise": _pairwise,
    "item-query": _item_query,
    "full-reveal": _full_reveal,
    "curator-items": _curator_items,
    "curator-pairs": _curator_pairs,
}
