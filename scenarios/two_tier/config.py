"""A two-tier run as a value: what `blindrec two-tier` takes, checked before anything runs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from coordinator.protocol.budget import Epsilon, as_float, parse_epsilon
from coordinator.protocol.errors import InputError
from coordinator.protocol.second_order_mechanisms import check_mechanism, found, half_of
from coordinator.server.completion import mechanisms
from coordinator.server.completion.reading import HALF
from scenarios.given import GivenPath, brief
from scenarios.two_tier.scale import read_scale
from scenarios.validation import validated

if TYPE_CHECKING:
    from coordinator.server.completion.fitting import Fitting

RIVALS = FULL, NONE = "full", "none"
"""Rivals in which no private device answers: their ratings become public, or nothing of them is used."""
GUARANTEES = {
    FULL: "none: private users' ratings themselves are released",
    NONE: "private devices let nothing out",
    **{name: half.promise for name, half in found().items()},
}
"""What a private device is promised, by mechanism."""
PRIVATE = 400
"""Private devices that answer, as in the paper."""
DEFAULT_MECHANISM = "pmc"
DEFAULT_EPSILON = "1"
MOST_PLANTED = {"users": (2, 10**8), "items": (2, 10**7), "ratings": (1, 10**10)}
"""Numbers of planted users, items and ratings, from and to; the largest are more than a machine holds."""


def takes_epsilon(mechanism: str) -> bool:
    """Return whether a mechanism, or rival, has an epsilon."""
    return mechanism not in RIVALS and half_of(mechanism).takes_epsilon


def needs_scale(mechanism: str) -> bool:
    """Return whether a mechanism, or rival, needs ratings of a finite set S."""
    return mechanism not in RIVALS and half_of(mechanism).needs_scale


def _share(value: Any) -> Any:
    """Read ``"100"``, ``"0.05"`` or ``"5%"``."""
    text = str(value).strip()
    percent = text.endswith("%")
    try:
        number = float(text.removesuffix("%")) / (100 if percent else 1)
    except ValueError:
        raise ValueError(f"public is {brief(value)}, neither a number of users, nor a share like 0.05 or 5%") from None
    if percent and number >= 1:
        raise ValueError(f"public is {brief(value)}; give less than 100%, or all users by their number")
    if not math.isfinite(number) or number <= 0 or (number > 1 and number != round(number)):
        raise ValueError(f"public is {brief(value)}; give a whole number from 1, or a share above 0 and below 1")
    return number if number < 1 and not text.isdigit() else round(number)


def _shape(value: Any) -> Any:
    """Read ``"2000,500,60000"``."""
    if not isinstance(value, str):
        return value
    like = "give users,items,ratings, such as 69878,10677,10000000"
    try:
        users, items, ratings = (int(part) for part in value.split(","))
    except ValueError:
        raise ValueError(f"planted is {brief(value)}; {like}") from None
    for name, count, (fewest, most) in zip(MOST_PLANTED, (users, items, ratings), MOST_PLANTED.values(), strict=True):
        if not fewest <= count <= most:
            raise ValueError(f"planted is {brief(value)}, with {count} {name}; {name} must be {fewest} to {most}")
    return users, items, ratings


Exact = Annotated[Epsilon, BeforeValidator(lambda value: None if value is None else parse_epsilon(value))]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class TwoTier(BaseModel):
    """One run of the two-tier model. Nothing here is about speed.

    Attributes
    ----------
    ratings : Path or None
        A file of ratings; else ``planted``.
    columns : tuple of str or None
        Names of its user, item and rating columns.
    planted : tuple of int or None
        Users, items and ratings of a planted table; see `scenarios.two_tier.planted`.
    public : int or float
        Number of public users, or their share below 1.
    private : int or None
        Private devices that answer, all other users only receive the model; None: `PRIVATE`, or all that there are.
    public_by, private_by : {"most", "random"}
        Users with most ratings first, or in random order.
    mechanism : str
        One of `GUARANTEES`.
    epsilon : Fraction or None
        The mechanism's privacy parameter [nats], where it has one.
    rank, regularisation, weight
        r, kap, and the weight of a release against a public user's row; chosen on held-out public users where None
        (or see `weight_set`).
    norm : {"uniform", "weighted"}
        Trace norm.
    m_step : {"keep", "prox"}
        See `coordinator.server.completion.fitting.Fitting`.
    scale : tuple of float or None
        The set S of ratings; None: the ratings that public users gave, where there are at most 32 different ones.
    round_ratings : bool
        Move every rating to the nearest in ``scale`` first.
    holdout : int
        Test ratings a user.
    iterations, batch, batch_iterations : int
        EM iterations on public users alone; devices of a batch; EM iterations after each batch.
    seed : int
        Everything random follows from it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    ratings: GivenPath | None = None
    columns: tuple[str, str, str] | None = None
    planted: Annotated[tuple[int, int, int] | None, BeforeValidator(_shape)] = None
    public: Annotated[float, BeforeValidator(_share)] = 100
    private: Annotated[int, Field(ge=0)] | None = None
    public_by: Literal["most", "random"] = "most"
    private_by: Literal["most", "random"] = "most"
    mechanism: str = DEFAULT_MECHANISM
    epsilon: Exact = None
    rank: Annotated[int, Field(ge=1)] | None = None
    regularisation: Positive | None = None
    weight: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    norm: Literal["uniform", "weighted"] = "uniform"
    m_step: Literal["keep", "prox"] = "keep"
    scale: Annotated[tuple[float, ...] | None, BeforeValidator(read_scale)] = None
    round_ratings: bool = False
    holdout: Annotated[int, Field(ge=1)] = 10
    iterations: Annotated[int, Field(ge=1)] = 20
    batch: Annotated[int, Field(ge=1)] = 20
    batch_iterations: Annotated[int, Field(ge=1)] = 2
    seed: Annotated[int, Field(ge=0, lt=1 << 63)] = 0

    @model_validator(mode="after")
    def _consistent(self) -> TwoTier:
        if self.mechanism not in GUARANTEES:
            raise InputError(f"mechanism is {brief(self.mechanism)}; choose one of {', '.join(GUARANTEES)}")
        if (self.ratings is None) == (self.planted is None):
            raise InputError("ratings and planted: give one of them, a file or users,items,ratings of planted data")
        if self.columns is not None and self.ratings is None:
            raise InputError(f"columns is {self.columns!r}, which is about ratings files; give --ratings too")
        if self.epsilon is not None and not takes_epsilon(self.mechanism):
            raise InputError(f"epsilon is {as_float(self.epsilon):g}, but {self.mechanism} has none; leave it out")
        if "epsilon" in self.model_fields_set and self.epsilon is None:
            bare = next(name for name, half in found().items() if not half.private)
            raise InputError(f"epsilon is inf for {self.mechanism}; give a finite one, or ask for {bare}")
        if self.mechanism not in RIVALS:  # refuses an epsilon that devices could not answer with
            check_mechanism(self.mechanism, self.asked_epsilon)
        if self.round_ratings and self.scale is None:
            raise InputError("round_ratings is True, but no scale is declared; give --scale")
        return self

    @property
    def asked_epsilon(self) -> Epsilon:
        """The epsilon that devices are asked with."""
        return (self.epsilon or parse_epsilon(DEFAULT_EPSILON)) if takes_epsilon(self.mechanism) else None

    @property
    def weight_set(self) -> float | None:
        """The weight of a release against a public user's row: as given, or the mechanism's; None: to be validated."""
        if self.weight is not None:
            return self.weight
        return HALF if self.mechanism in RIVALS else mechanisms.half_of(self.mechanism).weight

    def fitting(self, rank: int, kappa: float) -> Fitting:
        """Return how features are fitted at a rank and kappa."""
        from coordinator.server.completion.fitting import Fitting  # noqa: PLC0415 (reading settings compiles nothing)

        return Fitting(rank=rank, kappa=kappa, mstep=self.m_step, weighted=self.norm == "weighted")


def two_tier_of(flags: Mapping[str, Any]) -> TwoTier:
    """Check flags; those that are None were not given.

    Raises
    ------
    InputError
        One line for the first thing that is wrong: its name, its value and the remedy.
    """
    return validated(TwoTier, None, dict(flags))
