"""Candidates: every design and decoder that could learn one world's item clusters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from coordinator.protocol.budget import Epsilon
from coordinator.protocol.errors import InputError
from coordinator.server.custom import KMEANS
from coordinator.server.server_half import POSTERIOR, TRUST_LOCAL, ServerHalf
from scenarios.data.populations import settle
from scenarios.given.config import Scenario
from scenarios.given.mechanisms import designs, server_half, variants
from scenarios.theory.separability import inseparable

_WORLD = ("items", "rated", "clusters", "like", "class_shares", "cluster_shares", "seed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One design with one decoder in a given world."""

    world: Scenario  # A block model; its design does not matter
    settings: dict[str, Any]  # Design, decoder and the design's own settings
    _made: dict[Any, Scenario] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def design(self) -> str:
        """Name of the design."""
        return str(self.settings["design"])

    @property
    def half(self) -> ServerHalf:
        """The server's half of the design."""
        return server_half(self.design)

    @property
    def private(self) -> bool:
        """Whether the design has a guarantee, so that epsilon matters."""
        return self.half.private

    @property
    def protects_all(self) -> bool:
        """Whether all that a device holds is protected from everybody: what a plan recommends among."""
        own = {name: self.settings[name] for name in self.half.settings.model_fields if name in self.settings}
        public = self.half.settings.model_validate(own).rated_public
        return self.private and self.half.trust == TRUST_LOCAL and not public

    def at(self, epsilon: Epsilon, **changes: Any) -> Scenario:
        """Return the scenario at an epsilon, filled in, ``questions`` a number."""
        if (cache_key := (epsilon, *changes.items())) in self._made:
            return self._made[cache_key]
        world = {name: getattr(self.world, name) for name in _WORLD if getattr(self.world, name) is not None}
        shared = type(self.world.settings).model_fields.keys() & self.half.settings.model_fields.keys()
        world |= {name: getattr(self.world.settings, name) for name in shared}
        epsilon_or_none = epsilon if self.private else None
        try:
            scenario = Scenario.model_validate({**world, **self.settings, "epsilon": epsilon_or_none, **changes})
        except ValidationError as error:
            raise InputError(str(error.errors()[0]["msg"]).removeprefix("Value error, ")) from None
        return self._made.setdefault(cache_key, settle(scenario.complete()))

    def blind(self, epsilon: Epsilon) -> str:
        """Return in words which clusters the design cannot tell apart, whatever the number of users; empty: none."""
        pairs = ", ".join(f"{one} and {other}" for one, other in inseparable(self.at(epsilon)))
        return f"blind to clusters {pairs}" if pairs else ""


def any_design() -> dict[str, Any]:
    """Return what a world is checked as: of all mechanisms the one that takes the most epsilons."""
    split = next((half for half in designs().values() if half.settings.splits), next(iter(designs().values())))
    return {"design": split.name, **variants(split)[-1]}


def own_candidates(world: Scenario, own: Mapping[str, Any] | None) -> list[Candidate]:
    """Return a design of one's own, with its settings, as a candidate; none where there is none."""
    return [] if own is None else [Candidate(world=world, settings={**own, "decoder": KMEANS})]


def candidates(world: Scenario) -> list[Candidate]:
    """Return every mechanism's variants, as they are listed, with each of their decoders.

    Where a mechanism has others, the posterior decoder is left out: in one round it finds the same clusters.
    """
    return [
        Candidate(world=world, settings={"design": half.name, **variant, "decoder": decoder})
        for half in designs().values()
        for variant in variants(half)
        for decoder in half.decoders
        if decoder != POSTERIOR or half.decoders == (POSTERIOR,)
    ]
