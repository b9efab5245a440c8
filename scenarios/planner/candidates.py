"""Candidates: every design and decoder that could learn one world's item clusters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from coordinator.protocol.budget import Epsilon
from coordinator.protocol.errors import InputError
from coordinator.rounds import POSTERIOR
from scenarios.config import Scenario
from scenarios.kinds import DESIGNS, LOCAL
from scenarios.questions import settle
from scenarios.separability import inseparable

_AGREEMENTS = ("rated-equal", "equal", "positive")
VARIANTS: tuple[dict[str, Any], ...] = (
    {"design": "maxsense"},
    {"design": "sign"},
    {"design": "multi-maxsense", "questions": "ceil"},
    {"design": "multi-maxsense", "questions": "auto"},
    *({"design": "pairwise", "agreement": agreement} for agreement in _AGREEMENTS),
    {"design": "pairwise", "rated_items": "public"},
    {"design": "curator-items"},
    {"design": "curator-pairs"},
    {"design": "item-query"},
    {"design": "full-reveal"},
)
"""The designs in the order of a plan."""
ANY_DESIGN = {"design": "multi-maxsense", "questions": "auto"}
"""What a world is checked as: of all designs the one that takes the most epsilons."""
_WORLD = ("items", "rated", "clusters", "like", "class_shares", "cluster_shares", "seed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One design with one decoder in a given world.

    Attributes
    ----------
    world : Scenario
        A block model; its design does not matter.
    settings : dict
        Design, decoder and the design's own settings.
    """

    world: Scenario
    settings: dict[str, Any]

    @property
    def design(self) -> str:
        """Name of the design."""
        return str(self.settings["design"])

    @property
    def private(self) -> bool:
        """Whether the design has a guarantee, so that epsilon matters."""
        return DESIGNS[self.design].private

    @property
    def protects_all(self) -> bool:
        """Whether all that a device holds is protected from everybody: what a plan recommends among."""
        local = DESIGNS[self.design].trust_model == LOCAL
        return self.private and local and self.settings.get("rated_items") != "public"

    def at(self, epsilon: Epsilon, **changes: Any) -> Scenario:
        """Return the scenario at an epsilon, filled in, ``questions`` a number.

        Raises
        ------
        InputError
            If the design does not fit the world.
        """
        kept = {name: getattr(self.world, name) for name in _WORLD if getattr(self.world, name) is not None}
        if "theta" in DESIGNS[self.design].own:
            kept["theta"] = self.world.theta
        told = epsilon if self.private else None
        try:
            wanted = Scenario.model_validate({**kept, **self.settings, "epsilon": told, **changes})
        except ValidationError as error:
            raise InputError(str(error.errors()[0]["msg"]).removeprefix("Value error, ")) from None
        return settle(wanted.complete())

    def blind(self, epsilon: Epsilon) -> str:
        """Return in words which clusters the design cannot tell apart, whatever the number of users; empty: none."""
        told = ", ".join(f"{one} and {other}" for one, other in inseparable(self.at(epsilon)))
        return f"blind to clusters {told}" if told else ""


def candidates(world: Scenario) -> list[Candidate]:
    """Return every design with each of its decoders, in the order of `VARIANTS`.

    Where a design has others, the posterior decoder is left out: in one round it finds the same clusters.
    """
    return [
        Candidate(world=world, settings={**variant, "decoder": decoder})
        for variant in VARIANTS
        for decoder in DESIGNS[variant["design"]].decoders
        if decoder != POSTERIOR or DESIGNS[variant["design"]].decoders == (POSTERIOR,)
    ]
