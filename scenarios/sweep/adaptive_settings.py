"""What an adaptive sweep compares: schemes, catalogues, and the world they share; checked before any run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from coordinator.protocol.budget import as_json
from coordinator.protocol.errors import InputError
from scenarios.config import MOST_USERS, Scenario, load_scenario
from scenarios.planner.needs import Target
from scenarios.populations import cluster_sizes
from scenarios.separability import inseparable
from scenarios.sweep.schemes import DESIGNS, SCHEMES
from scenarios.sweep.threshold import predicted_users

DEVICES, MOMENTS = "devices", "moments"
GENEROUS = 8
"""No run has more users than this many times what one round of its design should need."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A checked sweep.

    Attributes
    ----------
    items : tuple of int
        Catalogues N.
    schemes : tuple of str
        Keys of `SCHEMES`.
    seeds : int
        Runs of each of them, seeds 0 and up.
    statistic : {"devices", "moments"}
        Whether devices answer, or sign sensing's statistic is drawn from its exact moments.
    vectors : int
        Sign vectors of the scheme with several.
    rated : int
        Items w that a user rated, at most N.
    world : dict
        The other keys of a scenario that all runs share.
    """

    items: tuple[int, ...]
    schemes: tuple[str, ...]
    seeds: int
    statistic: str
    vectors: int
    rated: int
    world: dict[str, Any]

    @property
    def confidence(self) -> float:
        """Probability that all labels are right, which all schemes are to have."""
        return float(self.world["confidence"])

    @property
    def measured(self) -> tuple[str, ...]:
        """Schemes that are run; of the others there is a prediction only."""
        return tuple(name for name in self.schemes if self.statistic == DEVICES or SCHEMES[name].emulated)

    def label(self, name: str) -> str:
        """Return a scheme's name in tables and figures."""
        return SCHEMES[name].label.format(vectors=self.vectors)

    def scenario(self, name: str, items: int, **changes: Any) -> Scenario:
        """Return a scheme's scenario, filled in; ``users`` is the most that may be asked."""
        scheme = SCHEMES[name]
        told = {"design": DESIGNS[name], "decoder": scheme.decoder, "policy": scheme.policy}
        several = {name: getattr(self, name) for name in scheme.takes}
        sizes = {"items": items, "rated": min(self.rated, items)}
        values = {"users": MOST_USERS, **self.world, **told, **several, **sizes, **changes}
        return load_scenario(None, values).complete()

    def planned(self, name: str, items: int) -> float | None:
        """Return the users of one round at which all labels should be right at the confidence; None: no number is."""
        one = self.scenario(name, items, policy="one-round")
        return predicted_users(one, Target(success=self.confidence, accuracy=None))

    def content(self) -> dict[str, Any]:
        """Return what every unit depends on, as JSON values; not which units there are."""
        one = self.scenario(self.schemes[0], self.items[0])
        names = ("class_shares", "cluster_shares", "confidence")
        told = {name: getattr(one, name) for name in names} | {"like": [list(row) for row in one.like]}
        mine = {"rated": self.rated, "epsilon": as_json(one.epsilon), "exact_epsilon": str(one.epsilon)}
        return {"sweep": "adaptive", "statistic": self.statistic, "vectors": self.vectors, **mine, **told}


def check_comparison(wanted: Comparison) -> None:
    """Refuse what cannot be compared, before anything runs.

    Raises
    ------
    InputError
        One line that names the value and the remedy.
    """
    if wanted.statistic not in (DEVICES, MOMENTS):
        raise InputError(f"statistic is {wanted.statistic!r}; choose {DEVICES} or {MOMENTS}")
    if wanted.seeds < 1:
        raise InputError(f"seeds is {wanted.seeds}; it must be at least 1")
    if not wanted.measured:
        told = ", ".join(name for name, one in SCHEMES.items() if one.emulated)
        raise InputError(f"statistic is {MOMENTS}, which none of the schemes has; add one of {told}, or say {DEVICES}")
    for name in wanted.schemes:
        for items in wanted.items:
            _check_scheme(wanted, name, items)


def _check_scheme(wanted: Comparison, name: str, items: int) -> None:
    try:
        setting = wanted.scenario(name, items)
        cluster_sizes(setting)
    except InputError as error:
        raise InputError(f"scheme {name} at {items} items: {error}") from None
    if pairs := inseparable(setting):
        told = ", ".join(f"{one} and {other}" for one, other in pairs)
        raise InputError(
            f"scheme {name} cannot tell clusters {told} apart, however many users answer; give another --like, or "
            "leave it out of --schemes"
        )
    planned = wanted.planned(name, items)
    if planned is None or planned > MOST_USERS:
        raise InputError(
            f"scheme {name} at {items} items needs more users than can be simulated; raise --epsilon or --rated, or "
            "leave it out of --schemes"
        )
