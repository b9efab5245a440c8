"""Two tiers as an experiment, `blindrec two-tier`: its settings, and the set S of possible ratings."""

from __future__ import annotations

import itertools
import math
import pkgutil
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import BeforeValidator, Field, model_validator

from coordinator.protocol.arrays import Floats
from coordinator.protocol.budget import Epsilon, as_float, parse_epsilon
from coordinator.protocol.errors import InputError, name_choices
from coordinator.protocol.second_order import (
    A_RELEASE,
    check_mechanism,
    two_tier_mechanism,
    two_tier_mechanisms,
)
from coordinator.protocol.second_order.pmc import OWN_H
from scenarios.config.files import Exact, NamedPath, brief
from scenarios.config.scenario import POISON
from scenarios.config.settings import (
    SEEN,
    BadLines,
    ColumnNames,
    Duplicates,
    ExperimentScenario,
    LikeFrom,
    Malicious,
    Seed,
    SplitBy,
    TestRatings,
    Unrated,
)
from scenarios.experiment.experiment import Experiment
from scenarios.store.manifest import TWO_TIER
from scenarios.store.whole_files import size_of

if TYPE_CHECKING:
    from coordinator.server.completion.fitting import Fitting
    from scenarios.data.datasets import RatingTable


MOST_UNDECLARED = 32  # With more different ratings than this, a scale must be declared
MOST_DECLARED = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Range and levels of ratings."""

    lowest: float
    highest: float
    levels: tuple[float, ...] | None  # S, ascending; None where ratings are continuous


def read_scale(value: Any) -> Any:
    """Read ``"1,2,3,4,5"`` or ``"0.5:5:0.5"`` (lowest, highest, step) as ascending levels."""
    if not isinstance(value, str):
        return value
    try:
        if ":" in value:
            low, high, step = (float(part) for part in value.split(":"))
            count = min(round((high - low) / step), MOST_DECLARED)  # one more than that is refused below
            levels = tuple(low + k * step for k in range(count + 1))
        else:
            levels = tuple(float(part) for part in value.split(","))
    except (ValueError, ZeroDivisionError, OverflowError):
        raise ValueError(f"scale is {brief(value)}; write it like 1,2,3,4,5 or 0.5:5:0.5") from None
    if not np.isfinite(levels).all() or any(b <= a for a, b in itertools.pairwise(levels)):
        raise ValueError(f"scale is {brief(value)}; give finite ratings, ascending")
    if not 1 <= len(levels) <= MOST_DECLARED:
        raise ValueError(f"scale is {brief(value)}; give 1 to {MOST_DECLARED} ratings")
    return levels


HALF_STARS = tuple(k / 2 for k in range(1, 11))
PUBLISHED = {"planted": HALF_STARS, "MovieLens CSV": HALF_STARS}  # Known scales, by the name of the source


def scale_of(declared: tuple[float, ...] | None, public: Floats) -> Scale:
    """Return the declared scale, or the one that public users' ratings show."""
    if declared is not None:
        return Scale(lowest=declared[0], highest=declared[-1], levels=declared)
    levels = np.unique(public)
    if not levels.size:
        raise InputError("public users rated nothing; raise --public, or give --scale")
    few = tuple(float(level) for level in levels) if levels.size <= MOST_UNDECLARED else None
    return Scale(lowest=float(levels[0]), highest=float(levels[-1]), levels=few)


def onto_scale(table: RatingTable, levels: tuple[float, ...]) -> RatingTable:
    """Return the table with every rating moved to the nearest level, the lower one of two."""
    sorted_levels = np.array(levels)
    middles = (sorted_levels[1:] + sorted_levels[:-1]) / 2
    return replace(table, values=sorted_levels[np.searchsorted(middles, table.values)])


def check_levels(table: RatingTable, levels: tuple[float, ...] | None, mechanism: str, *, declared: bool) -> None:
    """Refuse a scale that is too small for the mechanism, or ratings that are not on the scale."""
    if levels is None:
        raise InputError(
            f"scale is not declared and ratings have more than {MOST_UNDECLARED} different values; "
            f"{mechanism} needs a scale S, give --scale, and --round-ratings if ratings are continuous"
        )
    if len(levels) < 2:
        raise InputError(
            f"scale has K = {len(levels)} rating, {levels[0]:g}; {mechanism} needs at least 2 to choose from"
        )
    name = "declared scale" if declared else "scale of public ratings"
    off = ~np.isin(table.values, levels)
    if off.any():
        at = int(np.argmax(off))
        raise InputError(
            f"{table.describe(at)} with {table.values[at]:g}, which is not on the {name}; "
            "give --scale, and --round-ratings to move ratings onto it"
        )


RIVALS = FULL, NONE = "full", "none"
"""Baselines in which no private device answers: their ratings become public, or are not used."""
GUARANTEES = {
    FULL: "none: private users' ratings themselves are released",
    NONE: "private devices let nothing out",
    **{name: part.guarantee for name, part in two_tier_mechanisms().items()},
}
"""The guarantee of a private device, by mechanism."""
PRIVATE = 400  # Private devices that answer, as in the paper
DEFAULT_MECHANISM = "pmc"
DEFAULT_EPSILON = "1"
MOST_PLANTED = {"users": (2, 10**8), "items": (2, 10**7), "ratings": (1, 10**10)}
"""Least and most planted users, items and ratings; the most exceed any machine's memory."""


def takes_epsilon(mechanism: str) -> bool:
    """Return whether a mechanism, or rival, has an epsilon."""
    return mechanism not in RIVALS and two_tier_mechanism(mechanism).takes_epsilon


def needs_scale(mechanism: str) -> bool:
    """Return whether a mechanism, or rival, needs ratings of a finite set S."""
    return mechanism not in RIVALS and two_tier_mechanism(mechanism).needs_scale


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


Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


_WITH_EPSILON = ", ".join(
    name if part.epsilon_of == A_RELEASE else f"{name} ({part.epsilon_of})"
    for name, part in two_tier_mechanisms().items()
    if part.takes_epsilon
)


class TwoTier(ExperimentScenario):
    """One run of the two-tier model. Nothing here is about speed."""

    brought: ClassVar[dict[str, tuple[str, ...]]] = {"ratings": ()}

    ratings: NamedPath | None = Field(default=None, description="A file of ratings: MovieLens, Jester, CSV, Parquet.")
    columns: ColumnNames = None
    duplicates: Duplicates = None
    bad_lines: BadLines = "refuse"
    unrated: Unrated = None
    planted: Annotated[tuple[int, int, int] | None, BeforeValidator(_shape)] = Field(
        default=None, description="Synthetic data instead of a file: its numbers of users,items,ratings."
    )
    public: Annotated[float, BeforeValidator(_share)] = Field(
        default=100, description="Public users: a number, or a share like 0.05 or 5% [100]."
    )
    private: Annotated[int, Field(ge=0)] | None = Field(
        default=None,
        description=f"Private devices that answer, once each; other users only receive the model [{PRIVATE}, or all].",
    )
    public_by: Literal["most", "random"] = Field(
        default="most", description="Choice of public users: most (those with most ratings) or random [most]."
    )
    private_by: Literal["most", "random"] = Field(
        default="most", description="Choice of private devices: most or random [most]."
    )
    mechanism: str = Field(default=DEFAULT_MECHANISM, description=f"{', '.join(GUARANTEES)} [{DEFAULT_MECHANISM}].")
    epsilon: Exact = Field(default=None, description=f"Epsilon in nats, for {_WITH_EPSILON} [{DEFAULT_EPSILON}].")
    rank: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="Directions r of the features [validated on held-out public users]."
    )
    regularisation: Positive | None = Field(default=None, description="kappa of the trace norm [validated].")
    weight: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = Field(
        default=None, description="Weight of a release against a public user's row [0.5 as in the paper, or validated]."
    )
    norm: Literal["uniform", "weighted"] = Field(
        default="uniform", description="Trace norm: uniform or weighted [uniform]."
    )
    m_step: Literal["keep", "prox"] = Field(
        default="keep", description="M step: keep (the paper's) or prox (exact) [keep]."
    )
    scale: Annotated[tuple[float, ...] | None, BeforeValidator(read_scale)] = Field(
        default=None, description="The set S of possible ratings, 1,2,3,4,5 or 0.5:5:0.5 [those of public users]."
    )
    round_ratings: bool = Field(default=False, description="First round every rating to the nearest in S.")
    holdout: TestRatings = 10  # the paper's, whose errors a share of all ratings would weigh otherwise
    split_by: SplitBy = "random"
    like_from: LikeFrom = None
    iterations: Annotated[int, Field(ge=1)] = Field(default=20, description="EM iterations on public users alone [20].")
    batch: Annotated[int, Field(ge=1)] = Field(default=20, description="Private devices between two model fits [20].")
    batch_iterations: Annotated[int, Field(ge=1)] = Field(default=2, description="EM iterations after each batch [2].")
    own_h: bool = Field(
        default=False, description="PMC: devices reveal the magnitude of their signs; then nothing is private."
    )
    clip: bool = Field(default=False, description="With own_h: no release counts more than a public user's row.")
    malicious: Malicious = None
    attack: Literal["poison-features"] | None = Field(
        default=None, description=f"What liars do: {POISON}, where all report the same made-up vector [{POISON}]."
    )
    seed: Seed = 0

    @model_validator(mode="after")
    def _consistent(self) -> TwoTier:
        if self.mechanism not in GUARANTEES:
            raise InputError(
                f"mechanism is {brief(self.mechanism)}; {name_choices(self.mechanism, GUARANTEES, 'choose one of')}"
            )
        if (self.ratings is None) == (self.planted is None):
            raise InputError("ratings and planted: give one of them, a file or users,items,ratings of planted data")
        if self.ratings is None:
            self.refuse_without_file("columns", "duplicates", "bad_lines", "unrated", "split_by")
        if self.columns is not None and len(self.columns) == SEEN:
            raise InputError(f"columns is {','.join(self.columns)}, without ratings, which a model is for; name three")
        if self.epsilon is not None and not takes_epsilon(self.mechanism):
            raise InputError(f"epsilon is {as_float(self.epsilon):g}, but {self.mechanism} has none; leave it out")
        if "epsilon" in self.model_fields_set and self.epsilon is None:
            bare = next(name for name, part in two_tier_mechanisms().items() if not part.private)
            raise InputError(f"epsilon is inf for {self.mechanism}; give a finite one, or ask for {bare}")
        if self.mechanism not in RIVALS:  # refuses an epsilon that devices could not answer with
            check_mechanism(self.mechanism, self.asked_epsilon)
        self._check_liars()
        if self.round_ratings and self.scale is None:
            raise InputError("round_ratings is True, but no scale is declared; give --scale")
        return self

    def _check_liars(self) -> None:
        if self.attack is not None and self.malicious is None:
            raise InputError(f"attack is {self.attack}, but nobody lies; give --malicious too")
        if self.malicious is not None and self.mechanism in RIVALS:
            raise InputError(f"malicious is {self.malicious:g}, but no device answers with {self.mechanism}")
        if self.own_h and (self.mechanism in RIVALS or not two_tier_mechanism(self.mechanism).releases_own_h):
            names = " and ".join(name for name, part in two_tier_mechanisms().items() if part.releases_own_h)
            raise InputError(f"own_h is True, which is about {names}; the mechanism is {self.mechanism}, leave it out")
        if self.clip and not self.own_h:
            raise InputError("clip is True, but all releases are of one size without own_h; leave it out")

    @property
    def guarantee(self) -> dict[str, Any]:
        """A private device's guarantee and its neighbours; None as neighbours if it is not differential privacy."""
        alone = self.own_h or self.mechanism in RIVALS
        neighbours = None if alone else two_tier_mechanism(self.mechanism).neighbours
        guarantee = OWN_H if self.own_h else GUARANTEES[self.mechanism]
        # The guarantee of every mechanism here is pure: delta is 0
        return {"guarantee": guarantee, "neighbours": neighbours, "delta": None if neighbours is None else 0.0}

    @property
    def asked_epsilon(self) -> Epsilon:
        """The epsilon of a query to devices."""
        return (self.epsilon or parse_epsilon(DEFAULT_EPSILON)) if takes_epsilon(self.mechanism) else None

    def fitting(self, rank: int, kappa: float) -> Fitting:
        """Return how features are fitted at a rank and kappa."""
        from coordinator.server.completion.fitting import Fitting  # noqa: PLC0415 (reading settings compiles nothing)

        return Fitting(rank=rank, kappa=kappa, mstep=self.m_step, weighted=self.norm == "weighted")


TwoTierScenario = TwoTier  # Its public name


class TwoTiers(Experiment[TwoTier]):
    """Public users hand over their ratings; private devices answer once each, with one second-order vector."""

    name = TWO_TIER
    runner = "scenarios.families.two_tier.two_tier_seed:teach_seed"
    kind = TwoTier
    column_list = "scenarios.families.two_tier.two_tier_columns:COLUMNS"
    titled = "mechanism"
    named = ("users", "items", "public", "private", "repeat", "rmse", "rmse_public_only", "rmse_baseline", "seconds")
    sized = False
    help = """Public users teach item features; private devices complete their own vectors and answer once.

Unless you set them, rank, regularisation and the weights of noisy releases are chosen on held-out public users.
Speed flags (--backend, --workers) never change a result. With --out every batch of releases is stored: blindrec resume
FOLDER, or the same command, resumes a run that was killed or interrupted, and fits the models again.
"""

    def check(self, scenario: TwoTier) -> None:
        """Read the ratings, so that a file that cannot be used is refused before a backend is opened."""
        pkgutil.resolve_name("scenarios.families.two_tier.two_tier_seed:table_of")(scenario)  # loaded as the runner is

    def work(self, scenario: TwoTier) -> float:
        """Predict it from the number of private devices, a millisecond each; models are fitted here in any case."""
        users = size_of(scenario.ratings) // 256 if scenario.ratings else (scenario.planted or (0,))[0]
        return 1e-3 * (users if scenario.private is None else scenario.private)
