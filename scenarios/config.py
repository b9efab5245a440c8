"""A scenario as a value: what `blindrec run` takes, from flags or a TOML file, checked before any device is asked."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from actors.absence import Absence
from coordinator.designs import MultiMaxSense, check_shape
from coordinator.protocol.budget import Epsilon, as_float, parse_epsilon
from coordinator.protocol.channels import bit_channel
from coordinator.protocol.checked import MOST_ITEMS
from coordinator.protocol.errors import InputError
from coordinator.rounds import MOST_ROUNDS, POSTERIOR
from scenarios.given import GivenPath, brief
from scenarios.kinds import DESIGNS, LOCAL, ONE_ROUND, check_kind, design_of, multi_maxsense
from scenarios.policies import check_policy
from scenarios.validation import validated

MOST_USERS = 10**12
"""Far more than a machine can run; above them not even the layout fits into memory."""
SMALLEST_EPSILON = Fraction(1, 10**9)
"""Below it 10^18 users and more would have to answer."""


def _numbers(value: Any) -> Any:
    """Read ``"0.9,0.1"`` as a tuple of numbers; leave anything else to the checks."""
    if not isinstance(value, str):
        return value
    try:
        return tuple(float(part) for part in value.split(","))
    except ValueError:
        raise ValueError(f"{brief(value)} is no list of numbers; write it like 0.9,0.1") from None


def _matrix(value: Any) -> Any:
    """Read ``"0.9,0.1;0.2,0.8"`` as rows; a single list of numbers is one row."""
    if isinstance(value, str):
        return tuple(_numbers(row) for row in value.split(";"))
    if isinstance(value, (list, tuple)) and all(isinstance(part, (int, float)) for part in value):
        return (tuple(value),)
    return value


def _whole(value: Any) -> Any:
    """Read ``"3"`` as a whole number and leave names."""
    if value in ("ceil", "auto") or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    try:
        return int(str(value))
    except ValueError:
        raise ValueError(f"{brief(value)} is neither a whole number, nor ceil or auto") from None


Probability = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Row = Annotated[tuple[Probability, ...], BeforeValidator(_numbers)]
Matrix = Annotated[tuple[tuple[Probability, ...], ...], BeforeValidator(_matrix)]
Exact = Annotated[Epsilon, BeforeValidator(lambda value: None if value is None else parse_epsilon(value))]

Questions = Annotated[Annotated[int, Field(ge=1)] | Literal["ceil", "auto"], BeforeValidator(_whole)]


class Scenario(BaseModel):
    """One run: the world, the mechanism and its privacy. Nothing here is about speed.

    Attributes
    ----------
    design : str
        What is asked, one of `scenarios.kinds.DESIGNS`.
    decoder : str
        How the server decodes, one of the design's; by default the first of them, or posterior with a policy that
        adapts.
    policy : str
        Which query comes next: one-round, fixed, eliminate, item-by-item, or ``package.module:Name`` of one's own.
    rounds : int
        Policy fixed's number of rounds.
    confidence : float
        Probability that all labels are to be right: when adaptive policies stop, and which items count as decided.
    answers_per_device : int
        Queries m that a device answers at most, each under ``epsilon / m``.
    most_rounds : int
        A policy that goes on after so many rounds is stopped.
    vectors : int
        Sign sensing's vectors that a device chooses among, a power of two; 1: one bit.
    signs : {"centred", "plain"}
        What sign sensing counts ratings from in adaptive rounds: what the server expects of each item (one vector
        only), or 0.
    questions : int, "ceil" or "auto"
        Multi-MaxSense's sets Q a device: a number, ``ceil(epsilon)`` as in the paper, or what needs the fewest users.
    agreement : {"rated-equal", "equal", "positive"}
        Pairwise-Preference's bit; see `coordinator.designs.Pairwise`.
    rated_items : {"private", "public"}
        Whether Pairwise-Preference draws pairs among the rated items, which are public then.
    answers_per_item : int
        Item query's yeses after which an item is learned.
    reveal_share : float or None
        Full reveal's probability that a user tells anything; None: ``1 / log2 N``.
    items, rated, users : int
        N, w and U. With ``ratings`` N comes from the file, ``rated`` and ``users`` default to what the file has.
    like : tuple of tuple of float
        b, one row a user class, one column an item cluster.
    class_shares, cluster_shares : tuple of float
        Shares of user classes and of item clusters; equal where not given.
    clusters : int
        Number of clusters L that the server looks for; default: the columns of ``like``, or 2 with ``ratings``.
    theta : float
        MaxSense's expected number of sensed items among those a user rated.
    epsilon : Fraction or None
        Privacy parameter of a device's whole answer, or of what the curator publishes [nats]; None (``"inf"``): no
        noise, and the default of designs that are not private.
    seed : int
        Everything random follows from it.
    dropout : float
        Probability that a device does not answer a query.
    straggler_share, straggler_delay, deadline : float
        Probability that one of the others is slow, its mean delay (exponential) and when a round ends [both simulated
        seconds]; answers after the deadline are missing. Without a deadline all are waited for.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    design: str = "maxsense"
    agreement: Literal["rated-equal", "equal", "positive"] = "rated-equal"
    rated_items: Literal["private", "public"] = "private"
    questions: Questions = "ceil"
    answers_per_item: Annotated[int, Field(ge=1)] = 1
    reveal_share: Annotated[float, Field(gt=0, le=1)] | None = None
    decoder: str = "centred"
    policy: str = ONE_ROUND
    rounds: Annotated[int, Field(ge=1)] = 2
    confidence: Annotated[float, Field(gt=0, lt=1)] = 0.95
    answers_per_device: Annotated[int, Field(ge=1)] = 1
    most_rounds: Annotated[int, Field(ge=1)] = MOST_ROUNDS
    vectors: Annotated[int, Field(ge=1)] = 1
    signs: Literal["centred", "plain"] = "centred"
    items: Annotated[int, Field(ge=2, le=MOST_ITEMS)] | None = None
    rated: Annotated[int, Field(ge=1)] | None = None
    users: Annotated[int, Field(ge=1, le=MOST_USERS)] | None = None
    clusters: Annotated[int, Field(ge=2)] | None = None
    like: Matrix = ((0.9, 0.1),)
    class_shares: Row | None = None
    cluster_shares: Row | None = None
    theta: Annotated[float, Field(ge=1e-9, allow_inf_nan=False)] = 1.0
    epsilon: Exact = Field(default=1, validate_default=True)
    seed: Annotated[int, Field(ge=0, lt=1 << 63)] = 0
    ratings: GivenPath | None = None
    columns: tuple[str, str, str] | None = None
    like_from: float | None = None
    held_out: Annotated[int, Field(ge=0)] = 1
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    straggler_share: Annotated[float, Field(ge=0, le=1)] = 0.0
    straggler_delay: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 60.0
    deadline: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None

    @property
    def absence(self) -> Absence:
        """Which devices drop out, or answer too late."""
        return Absence(
            dropout=self.dropout,
            stragglers=self.straggler_share,
            delay=self.straggler_delay,
            deadline=math.inf if self.deadline is None else self.deadline,
        )

    @model_validator(mode="before")
    @classmethod
    def _defaults_of_design(cls, values: Any) -> Any:
        """Fill in what depends on the design: policy and decoder, and no epsilon where nothing is private."""
        design = values.get("design", "maxsense") if isinstance(values, dict) else None
        if not isinstance(design, str) or (kind := DESIGNS.get(design)) is None:
            return values
        policy = values.get("policy", kind.policies[0])
        adapts = policy not in (ONE_ROUND, "fixed") and POSTERIOR in kind.decoders
        epsilon = {} if kind.private else {"epsilon": "inf"}
        return {"decoder": POSTERIOR if adapts else kind.decoders[0], "policy": policy, **epsilon, **values}

    @model_validator(mode="after")
    def _consistent(self) -> Scenario:
        check_kind(self)
        check_policy(self)
        theirs = self.model_fields_set & {"items", "like", "class_shares", "cluster_shares"}
        if self.ratings is not None and theirs:
            name = min(theirs)
            raise ValueError(f"{name} is {getattr(self, name)!r}, but {self.ratings} brings its own; give one of them")
        about_files = ("columns", "like_from", "held_out")
        files = [name for name in about_files if getattr(self, name) != type(self).model_fields[name].default]
        if self.ratings is None and files:
            name = files[0]
            raise ValueError(f"{name} is {getattr(self, name)!r}, which is about ratings files; give --ratings too")
        _check_shares("class_shares", self.class_shares, len(self.like))
        if len({len(row) for row in self.like}) != 1 or not self.like[0]:
            raise ValueError(
                f"like has rows of {', '.join(str(len(row)) for row in self.like)} numbers; give every user class one "
                "number an item cluster"
            )
        _check_shares("cluster_shares", self.cluster_shares, len(self.like[0]))
        if DESIGNS[self.design].trust_model == LOCAL and self.design != "multi-maxsense":
            _check_channel(self.epsilon)
        if self.ratings is None:
            self.complete()
        return self

    def complete(self, *, items: int = 200, rated: int = 20, users: int = 1_000_000) -> Scenario:
        """Return the scenario with items, rated, users and clusters filled in, and their ranges checked.

        Raises
        ------
        InputError
            If they contradict each other.
        """
        items = self.items or items
        clusters = self.clusters or (2 if self.ratings else len(self.like[0]))
        full = {
            "items": items,
            "rated": self.rated or min(rated, items),
            "users": self.users or users,
            "clusters": clusters,
        }
        if clusters > items:
            raise InputError(f"clusters is {clusters}; it must be at most the number of items, {items}")
        if clusters < 2:
            raise InputError(f"like has {clusters} numbers a user class; give one for each of at least 2 item clusters")
        if self.design in ("pairwise", "curator-pairs") and clusters == items:
            raise InputError(f"clusters is {clusters}; {self.design} needs fewer clusters than items, {items}")
        check_shape(items, full["rated"], self.theta)
        filled = self.model_copy(update=full)
        if self.questions == "auto":
            most = multi_maxsense(filled, 1).most_questions
            _check_channel(self.epsilon, most)
            return filled
        design = design_of(filled)
        if isinstance(design, MultiMaxSense):
            _check_channel(self.epsilon, design.questions)
        return filled


def _check_channel(epsilon: Epsilon, questions: int = 1) -> None:
    """Refuse a privacy parameter that coins cannot express, or under which they say next to nothing."""
    if epsilon is not None and epsilon < SMALLEST_EPSILON:
        raise InputError(f"epsilon is {as_float(epsilon):g}; give at least {as_float(SMALLEST_EPSILON):g}")
    bit_channel(None if epsilon is None else epsilon / questions)


def _check_shares(name: str, shares: tuple[float, ...] | None, expected: int) -> None:
    if shares is None:
        return
    if len(shares) != expected:
        raise ValueError(f"{name} has {len(shares)} numbers, like has {expected}; give as many")
    if not np.isclose(sum(shares), 1, rtol=0, atol=1e-9):
        raise ValueError(f"{name} sum to {sum(shares):g}; they must sum to 1")


def load_scenario(path: Path | None, flags: dict[str, Any]) -> Scenario:
    """Read a scenario from a TOML file and flags; flags win. See `scenarios.validation.validated`."""
    return validated(Scenario, path, flags)
