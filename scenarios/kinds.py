"""Designs by name: what each promises, which decoders it has, and the server's design object behind it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from coordinator.curator import DiscreteLaplace, item_sensitivity, pair_sensitivity
from coordinator.designs import Design, MultiMaxSense, Pairwise
from coordinator.open_designs import ItemQuery, Reveal, toy_share
from coordinator.pool_designs import MaxSense, SignSensing
from coordinator.protocol.budget import as_float
from coordinator.protocol.errors import InputError
from coordinator.rounds import POSTERIOR

if TYPE_CHECKING:
    from scenarios.config import Scenario

LOCAL, CURATOR = "local", "curator"
ONE_ROUND = "one-round"
GUARANTEE = "epsilon-local differential privacy of all that a device holds"
GUARANTEE_PUBLIC_ITEMS = (
    "epsilon-local differential privacy of how a device rated its items; which items it rated is public"
)
GUARANTEE_CURATOR = (
    "epsilon-differential privacy of the published model, one user added or removed (2 epsilon: one user's ratings "
    "replaced); the curator sees every rating"
)
NOT_PRIVATE = "none: this design is not private, ratings are told as they are"
NO_GUARANTEE = "none: epsilon is infinite, answers are not private"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One design as scenarios name it.

    Attributes
    ----------
    build : callable
        A filled-in scenario to the server's design.
    decoders : tuple of str
        Names of its decoders, the default first.
    trust_model : {"local", "curator"}
        Who is untrusted; see the threat model.
    private : bool
        Whether it has a guarantee at finite epsilon.
    own : frozenset of str
        Keys of a scenario that are about this design.
    policies : tuple of str
        Names of the policies it can follow, the default first.
    """

    build: Callable[[Scenario], Design]
    decoders: tuple[str, ...]
    trust_model: str = LOCAL
    private: bool = True
    own: frozenset[str] = frozenset()
    policies: tuple[str, ...] = (ONE_ROUND, "fixed")


def _maxsense(scenario: Scenario) -> Design:
    return MaxSense(items=scenario.items or 0, rated=scenario.rated or 0, theta=scenario.theta)


def _sign(scenario: Scenario) -> Design:
    return SignSensing(
        items=scenario.items or 0,
        rated=scenario.rated or 0,
        vectors=scenario.vectors,
        centred=scenario.signs == "centred",
    )


def multi_maxsense(scenario: Scenario, questions: int) -> MultiMaxSense:
    """Return Multi-MaxSense of a filled-in scenario with that many questions."""
    return MultiMaxSense(
        items=scenario.items or 0, rated=scenario.rated or 0, theta=scenario.theta, questions=questions
    )


def _multi_maxsense(scenario: Scenario) -> Design:
    if isinstance(scenario.questions, int):
        return multi_maxsense(scenario, scenario.questions)
    if scenario.questions == "auto":
        raise ValueError("questions is still auto; scenarios.questions.settle makes it a number")
    if scenario.epsilon is None:
        raise InputError("questions is ceil, and epsilon inf has no ceil(epsilon); say how many, or auto")
    return multi_maxsense(scenario, min(math.ceil(scenario.epsilon), multi_maxsense(scenario, 1).most_questions))


def _pairwise(scenario: Scenario) -> Design:
    public = scenario.rated_items == "public"
    if public and scenario.ratings is None and (scenario.rated or 0) < 2:
        raise InputError(f"rated is {scenario.rated}; a pair among public rated items needs at least 2")
    return Pairwise(items=scenario.items or 0, agreement=scenario.agreement, rated_public=public)


def _item_query(scenario: Scenario) -> Design:
    return ItemQuery(items=scenario.items or 0)


def _reveal(scenario: Scenario) -> Design:
    items, toy = scenario.items or 0, scenario.design == "full-reveal"
    if scenario.design == "curator-pairs" and (scenario.rated or 0) < 2:
        raise InputError(f"rated is {scenario.rated}; curator-pairs adds up pairs of ratings and needs at least 2")
    if not toy:
        w = scenario.rated or 0
        sensitivity = pair_sensitivity(w) if scenario.design == "curator-pairs" else item_sensitivity(w)
        DiscreteLaplace(budget=scenario.epsilon, sensitivity=sensitivity)
    share = (scenario.reveal_share or toy_share(items)) if toy else 1.0
    return Reveal(name=scenario.design, items=items, most=items if toy else scenario.rated or 0, share=share)


_SETS = ("centred", "paper")
_POOLED = (ONE_ROUND, "fixed", "eliminate", "item-by-item")
DESIGNS: dict[str, Kind] = {
    "maxsense": Kind(
        build=_maxsense,
        decoders=(*_SETS, POSTERIOR),
        own=frozenset({"theta", "confidence"}),
        policies=_POOLED,
    ),
    "sign": Kind(
        build=_sign, decoders=(POSTERIOR,), own=frozenset({"vectors", "signs", "confidence"}), policies=_POOLED
    ),
    "multi-maxsense": Kind(build=_multi_maxsense, decoders=_SETS, own=frozenset({"theta", "questions"})),
    "pairwise": Kind(build=_pairwise, decoders=_SETS, own=frozenset({"agreement", "rated_items"})),
    "item-query": Kind(
        build=_item_query,
        decoders=("shares",),
        private=False,
        own=frozenset({"answers_per_item"}),
        policies=("until-learned",),
    ),
    "full-reveal": Kind(
        build=_reveal, decoders=("shares",), private=False, own=frozenset({"reveal_share"}), policies=(ONE_ROUND,)
    ),
    "curator-items": Kind(build=_reveal, decoders=("totals",), trust_model=CURATOR, policies=(ONE_ROUND,)),
    "curator-pairs": Kind(build=_reveal, decoders=("totals",), trust_model=CURATOR, policies=(ONE_ROUND,)),
}


def design_of(scenario: Scenario) -> Design:
    """Return the design of a filled-in scenario.

    Raises
    ------
    InputError
        If its parameters are outside their ranges.
    """
    return DESIGNS[scenario.design].build(scenario)


def guarantee(scenario: Scenario) -> str:
    """Return in words what the scenario promises its users."""
    kind = DESIGNS[scenario.design]
    if not kind.private:
        return NOT_PRIVATE
    if scenario.epsilon is None:
        return NO_GUARANTEE
    if kind.trust_model == CURATOR:
        return GUARANTEE_CURATOR
    return GUARANTEE_PUBLIC_ITEMS if scenario.rated_items == "public" else GUARANTEE


def check_kind(scenario: Scenario) -> None:
    """Refuse an unknown design, a decoder that it does not have, and settings that are about another one.

    Raises
    ------
    InputError
        One line that names the value and the remedy.
    """
    if (kind := DESIGNS.get(scenario.design)) is None:
        raise InputError(f"design is {scenario.design!r}; choose one of {', '.join(DESIGNS)}")
    if scenario.decoder not in kind.decoders:
        told = ", ".join(kind.decoders)
        raise InputError(f"decoder is {scenario.decoder!r}; choose one of {told} for {scenario.design}")
    if not kind.private and scenario.epsilon is not None:
        raise InputError(
            f"epsilon is {as_float(scenario.epsilon):g}, but {scenario.design} is not private; say inf or leave it out"
        )
    for name in sorted(set().union(*(one.own for one in DESIGNS.values())) - kind.own):
        value = getattr(scenario, name)
        if value != type(scenario).model_fields[name].default:
            owners = " and ".join(other for other, one in DESIGNS.items() if name in one.own)
            raise InputError(
                f"{name} is {value!r}, which is about {owners}; the design is {scenario.design}, leave it out"
            )
