"""What an adaptive sweep compares: schemes, catalogues, and the world they share; checked before any run."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from coordinator.protocol.budget import as_json
from coordinator.protocol.errors import InputError
from scenarios.data.populations import cluster_sizes
from scenarios.given.config import MOST_USERS, Scenario, load_scenario
from scenarios.given.values import brief
from scenarios.planner.needs import Target
from scenarios.sweep.schemes import SCHEMES
from scenarios.sweep.threshold import predicted_users
from scenarios.theory.separability import inseparable

DEVICES: Literal["devices"] = "devices"
MOMENTS: Literal["moments"] = "moments"
_WORLD = ("epsilon", "like", "class_shares", "cluster_shares", "confidence")
GENEROUS = 8
"""No run has more users than this many times what one round of its design should need."""


def _items(told: Any) -> Any:
    parts = told.split(",") if isinstance(told, str) else told if isinstance(told, (list, tuple)) else [told]
    try:
        found = tuple(int(part) for part in parts)
    except (TypeError, ValueError):
        raise InputError(f"items is {brief(told)}, no list of whole numbers; write it like 100,300,1000") from None
    if len(set(found)) < len(found):
        raise InputError(f"items is {brief(told)}; name each catalogue once")
    return tuple(sorted(found))


def _schemes(told: Any) -> Any:
    names = [part.strip() for part in told.split(",")] if isinstance(told, str) else list(told)
    for name in names:
        if name not in SCHEMES:
            raise InputError(f"scheme {brief(name)} is unknown; choose among {', '.join(SCHEMES)}")
    return tuple(name for name in SCHEMES if name in names)


class Comparison(BaseModel):
    """What a sweep of adaptive rounds compares: schemes and catalogues, in one world.

    The world's keys are those of a scenario, and are read as a scenario reads them.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    items: Annotated[tuple[int, ...], BeforeValidator(_items)] = Field(
        (100, 300, 1000), description="Catalogues: numbers of items N [100,300,1000]."
    )
    rated: int = Field(30, description="Items w that a user rated, at most N [30].")
    epsilon: Any = Field("1", description="Privacy of a device's answer in nats; inf for no noise [1].")
    like: Any = Field("0.9,0.1", description="P(like): clusters by ',', user classes by ';' [0.9,0.1].")
    class_shares: Any = Field(None, description="Shares of user classes [equal].")
    cluster_shares: Any = Field(None, description="Shares of item clusters [equal].")
    confidence: float = Field(0.95, description="P(all labels right) that all schemes are to have [0.95].")
    seeds: Annotated[int, Field(ge=1)] = Field(20, description="Runs of every scheme and catalogue [20].")
    vectors: int = Field(32, description="Vectors of adaptive-vectors, a power of two up to 64 [32].")
    statistic: Literal["devices", "moments"] = Field(
        DEVICES, description="devices answer, or moments: sign sensing is emulated [devices]."
    )
    schemes: Annotated[tuple[str, ...], BeforeValidator(_schemes)] = Field(
        tuple(SCHEMES), description="Some of them, by ',' [all]."
    )

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
        told = {"design": scheme.design, "decoder": scheme.decoder, "policy": scheme.policy}
        several = {name: getattr(self, name) for name in scheme.takes}
        sizes = {"items": items, "rated": min(self.rated, items)}
        shared = {name: getattr(self, name) for name in _WORLD}
        values = {"users": MOST_USERS, **shared, **told, **several, **sizes, **changes}
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
