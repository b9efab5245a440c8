"""A scenario as a value: what `blindrec run` takes, from flags or a TOML file, checked before any device is asked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, PlainSerializer, SerializeAsAny, model_validator

from actors.absence import Absence
from coordinator.protocol.budget import DELTA_IN_WORDS, as_json, default_delta
from coordinator.protocol.checked import MOST_ITEMS
from coordinator.protocol.custom import Mechanism
from coordinator.protocol.errors import InputError
from coordinator.protocol.mechanism import ANCHOR, ONE_ROUND, Settings, World, check_shape
from coordinator.protocol.schedule import COUNTER, MEMOIZE, MOST_PERIODS, NAMES
from coordinator.protocol.trust_models import TWO_SERVERS
from coordinator.server.design import AGEING, MOST_ROUNDS
from scenarios.config.custom_kinds import MechanismKind, kind_of
from scenarios.config.files import Exact, Matrix, NamedPath, Row, brief, check_shares
from scenarios.config.mechanism_settings import all_settings, designs, gathered
from scenarios.config.settings import (
    HELD_OUT,
    OWN,
    BadLines,
    ColumnNames,
    Duplicates,
    ExperimentScenario,
    FeatureColumns,
    Features,
    FilePeriod,
    HeldOut,
    LikeFrom,
    Malicious,
    Seed,
    SplitBy,
    Unrated,
    like_bar,
    without_features,
)

if TYPE_CHECKING:
    import pandas as pd


EXPECTED = 0.9  # Default share of devices that are expected to answer
SMALLEST = 10  # By default a round of an adaptive policy may ask as few as one device in so many
WITHHOLD, TELL = "withhold", "tell"
EXACT, ADDED = "exact", "added"
"""Ways to compose a device's answers behind a shuffler."""


class TrustSettings(ExperimentScenario):
    """Who stands between devices and server, and what that promises."""

    trust: Literal["local", "shuffled", "two-servers"] = Field(
        default="local",
        description="Whom devices trust: local, nobody; shuffled, a shuffler that hides who sent what (epsilon is then "
        "central); two-servers, at least one of two servers that add up shares [local].",
    )
    delta: Annotated[float, Field(ge=0, lt=1)] | None = Field(
        default=None,
        description="Shuffled, or two servers: what chances may exceed e^epsilon times the neighbours' by, at most 1 / "
        f"answers [{DELTA_IN_WORDS}].",
    )
    expected_answers: Annotated[float, Field(gt=0, le=1)] | None = Field(
        default=None,
        description="Shuffled, or two servers whose devices add the noise: epsilon is computed for at least this share "
        f"of answers in a round [{EXPECTED:g}].",
    )
    short_rounds: Literal["withhold", "tell"] | None = Field(
        default=None,
        description="Shuffled: withhold a round with fewer answers, or tell its result with the larger epsilon "
        "[withhold].",
    )
    smallest_round: Annotated[int, Field(ge=1)] | None = Field(
        default=None,
        description="Shuffled, adaptive policies: smallest number of devices in a round; it determines the local "
        f"epsilon [eliminate, anchor: predicted to need the fewest users; at most a {SMALLEST}th of the users].",
    )
    composition: Literal["exact", "added"] | None = Field(
        default=None,
        description="Shuffled, several answers per device: exact certifies them together, added splits epsilon and "
        "delta over them [exact; added where short rounds are told].",
    )
    own_questions: bool = Field(
        default=False,
        description="Devices draw their sensing sets, signs or hashes from private coins and report them too; a "
        "shuffler then hides who got which question [no].",
    )

    @property
    def terms_of_servers(self) -> tuple[float, float, float]:
        """Under two servers: delta, the share of devices that answer, and the share of liars; else 0, 1 and 0."""
        if self.trust != TWO_SERVERS:
            return 0.0, 1.0, 0.0
        liars: float | None = getattr(self, "assume_malicious", None)  # of all scenarios that have liars
        return self.failure_chance, EXPECTED if self.expected_answers is None else self.expected_answers, liars or 0.0

    @property
    def failure_chance(self) -> float:
        """The delta of the promise; if none is set, the default for this number of users."""
        users: int | None = getattr(self, "users", None)  # a file says how many where nothing else does
        return default_delta(users) if self.delta is None else self.delta


INPUT, UNTARGETED, PROMOTE = "input", "untargeted", "promote"
POISON = "poison-features"
HALVING = "halving"
FEW = 10  # Default number of items that liars with made-up ratings promote
_NUMBERED = {PROMOTE: True, INPUT: False}
"""Attacks that take a number, and whether they require one."""
ON_SIDES = (UNTARGETED, INPUT)  # Attacks that make sense where clusters have no order
WITHOUT_TRUTH = (PROMOTE, INPUT)
"""Attacks that need not know the true clusters, which a file of ratings does not contain."""
FORMS = "input:R, untargeted, promote:R"


@dataclass(frozen=True, slots=True)
class Attack:
    """An attack's name, and how many items it promotes."""

    name: str
    number: int | None = None


def parse_attack(text: str) -> Attack:
    """Read an attack as it is given.

    >>> parse_attack("promote:3")
    Attack(name='promote', number=3)
    >>> parse_attack("input").number, parse_attack("untargeted").number
    (10, None)
    """
    name, colon, number = text.partition(":")
    if name == POISON:
        raise InputError(f"attack is {POISON}, which works only in blindrec two-tier; choose another")
    if name not in (*_NUMBERED, UNTARGETED):
        raise InputError(f"attack is {brief(text)}; choose one of {FORMS}")
    if bool(colon) and name not in _NUMBERED:
        raise InputError(f"attack is {brief(text)}; {name} takes no number, leave it out")
    if not colon:
        if _NUMBERED.get(name):
            raise InputError(f"attack is {brief(text)}; say of how many items, {name}:10")
        return Attack(name, FEW if name in _NUMBERED else None)
    if not (number.isascii() and number.isdigit() and 1 <= int(number[:12]) <= 10**9):
        raise InputError(f"attack is {brief(text)}; give a whole number from 1 on, {name}:10")
    return Attack(name, int(number[:12]))


class AttackSettings(ExperimentScenario):
    """Devices that lie."""

    malicious: Malicious = None
    attack: str | None = Field(default=None, description=f"What liars do: {FORMS} [untargeted].")

    @property
    def plotted(self) -> Attack | None:
        """What liars do; None if nobody lies."""
        return None if self.malicious is None else parse_attack(self.attack or UNTARGETED)

    def refused_attack(self, design: str, policy: str, *, knows_truth: bool) -> str | None:
        """Return an error if the attack does not exist or does not fit this run, else None."""
        if self.malicious is None and self.attack is not None:
            return f"attack is {self.attack!r}, but nobody lies; give --malicious too"
        if (attack := self.plotted) is None:
            return None
        if policy == ANCHOR and attack.name == PROMOTE:
            others = ", ".join(ON_SIDES)
            return f"attack is {PROMOTE}, but no cluster of {design} is the more liked one; choose {others}"
        if policy == ANCHOR and not knows_truth:
            return f"malicious is {self.malicious:g} for {design}, but files have no clusters; leave it out"
        if not knows_truth and attack.name not in WITHOUT_TRUTH:
            others = ", ".join(WITHOUT_TRUTH)
            return f"attack is {attack.name}, but files have no clusters; choose one of {others}"
        return None


class PolicySettings(ExperimentScenario):
    """A policy, and its settings."""

    policy: str = Field(
        default=ONE_ROUND,
        description="Which query comes next: one-round, fixed, eliminate, item-by-item, or your own "
        f"{OWN} [one-round].",
    )
    rounds: Annotated[int, Field(ge=1)] = Field(default=2, description="Policy fixed: number of rounds [2].")
    confidence: Annotated[float, Field(gt=0, lt=1)] = Field(
        default=0.95,
        description="Adaptive policies stop, and count items as decided, at this P(all labels right) [0.95].",
    )
    answers_per_device: Annotated[int, Field(ge=1)] = Field(
        default=1,
        description="Most queries m that a device answers; epsilon covers all, locally at epsilon / m each [1].",
    )
    pool_size: Annotated[int, Field(ge=1)] | None = Field(
        default=None,
        description="Policies fixed and eliminate: items per query; with fewer, liars move fewer labels [all].",
    )
    assume_malicious: Annotated[float, Field(ge=0, lt=1)] | None = Field(
        default=None,
        description="Assumed share of liars: decisions of policy eliminate with sign sensing withstand it; behind a "
        "shuffler, or where devices add noise for two servers, they hide nobody [0].",
    )
    most_rounds: Annotated[int, Field(ge=1)] = Field(
        default=MOST_ROUNDS, description=f"Stop an adaptive policy after this many rounds [{MOST_ROUNDS}]."
    )


class PeriodSettings(PolicySettings):
    """Periods of time, between which tastes change; a device has one budget for all of them."""

    periods: Annotated[int, Field(ge=1, le=MOST_PERIODS)] | None = Field(
        default=None,
        description="Number of periods, such as months; ratings change only between them, and epsilon covers all of "
        "them together. A file's last ones are used [time does not count].",
    )
    period: FilePeriod = None
    schedule: str = Field(
        default="once",
        description=f"Who answers in which period, with which part of epsilon: {', '.join(NAMES)}, "
        f"{COUNTER} (two servers count each like once), {MEMOIZE} (no epsilon), or your own {OWN} [once].",
    )
    drift: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.0,
        description="Without a file: P(an item moves to another cluster from one period to the next) [0].",
    )
    item_arrivals: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.0, description="Without a file: share of items replaced by new ones in each period [0]."
    )
    churn: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.0,
        description="Without a file: share of people who leave in each period; as many others join [0].",
    )
    ageing: Annotated[float, Field(ge=0), PlainSerializer(as_json, when_used="json")] = Field(
        default=AGEING,
        description="Assumed relative drift of shares per period, by which estimates age and schedule front renews: 0 "
        f"pools all periods, inf uses only the latest [{AGEING:g}].",
    )
    ledger: NamedPath | None = Field(
        default=None,
        description="Folder for the devices' ledger, so that later runs of the same devices and plan continue it "
        "[the ledger ends with the run, or stays in its folder].",
    )


SET = "set"  # The design whose estimates can be combined with public counts


class AdviceSettings(PeriodSettings):
    """Public features and public people; see `scenarios.families.main.run`."""

    features: Features = None
    feature_columns: FeatureColumns = None
    public: Annotated[float, Field(ge=0, lt=1)] = Field(
        default=0.0,
        description="Set mechanism: share of people whose public ratings are combined with the answers [0].",
    )


MOST_USERS = 10**12  # Far more than a machine can run; above them not even the layout fits into memory.


class Scenario(AttackSettings, TrustSettings, AdviceSettings):
    """One run: the world, the mechanism and its privacy. Nothing here is about speed.

    Values come flat, as in a TOML file; those that are a mechanism's own are gathered in ``settings``. `blindrec run
    --help` explains each.
    """

    brought: ClassVar[dict[str, tuple[str, ...]]] = {
        "ratings": ("items", "like", "class_shares", "cluster_shares", "drift", "item_arrivals", "churn"),
        "features": (),
    }

    if TYPE_CHECKING:  # fields take more than they hold, epsilon=1 and like="0.9,0.1"; a mechanism's own come flat

        def __init__(
            self,
            *,
            design: str | Mechanism = ...,
            decoder: str = ...,
            policy: str = ...,
            items: int | None = ...,
            rated: int | None = ...,
            users: int | None = ...,
            clusters: int | None = ...,
            epsilon: float | str | Fraction | None = ...,
            like: str | Sequence[float] | Sequence[Sequence[float]] = ...,
            class_shares: str | Sequence[float] | None = ...,
            cluster_shares: str | Sequence[float] | None = ...,
            seed: int = ...,
            ratings: str | Path | pd.DataFrame | None = ...,
            **others: Any,
        ) -> None: ...

    design: str = Field(
        default="maxsense", description=f"Mechanism: {', '.join(designs())}, or your own {OWN} [maxsense]."
    )
    settings: SerializeAsAny[Settings] = Settings()
    decoder: str = Field(
        default="centred", description="centred (ours), paper or posterior, if a design has several [its first]."
    )
    items: Annotated[int, Field(ge=2, le=MOST_ITEMS)] | None = Field(
        default=None, description="Items N of the catalogue [200; of a file: its items]."
    )
    rated: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="Items w that a user rated [20; of a file: the median]."
    )
    users: Annotated[int, Field(ge=1, le=MOST_USERS)] | None = Field(
        default=None, description="Users, one device each [1000000; of a file: its users]."
    )
    clusters: Annotated[int, Field(ge=2)] | None = Field(
        default=None, description="Item clusters L to look for [columns of --like, or 2]."
    )
    like: Matrix = Field(
        default=((0.9, 0.1),), description="P(like), b: item clusters by ',', user classes by ';' [0.9,0.1]."
    )
    class_shares: Row | None = Field(default=None, description="Shares of user classes [equal].")
    cluster_shares: Row | None = Field(default=None, description="Shares of item clusters [equal].")
    epsilon: Exact = Field(
        default=1,
        validate_default=True,
        description="Epsilon of a device's whole answer in nats; inf for no noise [1; inf if nothing is private].",
    )
    seed: Seed = 0
    ratings: NamedPath | None = Field(default=None, description="A file of real ratings instead of the block model.")
    columns: ColumnNames = None
    duplicates: Duplicates = None
    bad_lines: BadLines = "refuse"
    unrated: Unrated = None
    like_from: LikeFrom = None
    held_out: HeldOut = HELD_OUT
    split_by: SplitBy = "random"
    dropout: Annotated[float, Field(ge=0, lt=1)] = Field(
        default=0.0, description="P(a device does not answer a query) [0]."
    )
    straggler_share: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.0, description="P(a device that answers is slow) [0]."
    )
    straggler_delay: Annotated[float, Field(gt=0, allow_inf_nan=False)] = Field(
        default=60.0, description="Mean of a slow device's exponential delay, in simulated seconds [60]."
    )
    deadline: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = Field(
        default=None, description="Answers later than this many simulated seconds are missing [wait for all]."
    )

    @property
    def absence(self) -> Absence:
        """Which devices drop out, or answer too late."""
        return Absence(
            dropout=self.dropout,
            stragglers=self.straggler_share,
            delay=self.straggler_delay,
            deadline=math.inf if self.deadline is None else self.deadline,
        )

    @property
    def liked_from(self) -> float | None:
        """The rating from which on an item is liked; see `scenarios.config.settings.like_bar`."""
        return like_bar(self.columns, self.like_from)

    @model_validator(mode="before")
    @classmethod
    def _gathered(cls, values: Any) -> Any:
        """Gather the mechanism's own settings; see `scenarios.config.mechanism_settings.gathered`."""
        if not isinstance(values, dict) or isinstance(values.get("settings"), Settings):
            return values
        return gathered(values, cls.model_fields)

    @model_validator(mode="after")
    def _consistent(self) -> Scenario:
        theirs = self.model_fields_set & set(self.brought["ratings"])
        if self.ratings is not None and theirs:
            name = min(theirs)
            file = brief(str(self.ratings))
            raise ValueError(f"{name} is {getattr(self, name)!r}, but {file} brings its own; give one of them")
        if self.ratings is None:
            self.refuse_without_file(
                *(
                    "columns",
                    "duplicates",
                    "bad_lines",
                    "unrated",
                    "like_from",
                    "held_out",
                    "split_by",
                    "period",
                    "features",
                    "public",
                ),
            )
        if self.features is None and self.feature_columns is not None:
            raise ValueError(without_features(self.feature_columns))
        check_shares("class_shares", self.class_shares, len(self.like))
        if len({len(row) for row in self.like}) != 1 or not self.like[0]:
            raise ValueError(
                f"like has rows of {', '.join(str(len(row)) for row in self.like)} numbers; make them equally long"
            )
        check_shares("cluster_shares", self.cluster_shares, len(self.like[0]))
        if self.ratings is None:
            self._numbers(200, 20, 1_000_000)
        return self

    @property
    def mechanism(self) -> MechanismKind:
        """The kind of the mechanism that its settings are of."""
        return kind_of(self.settings)

    @property
    def world(self) -> World:
        """What the mechanism knows of the world, once the scenario is filled in."""
        delta, expected, liars = self.terms_of_servers
        return World(
            items=self.items or 0,
            rated=self.rated or 0,
            users=self.users or 0,
            clusters=self.clusters or 0,
            epsilon=self.epsilon,
            same_rated=self.ratings is None,
            delta=delta,
            expected_answers=expected,
            assume_malicious=liars,
        )

    @property
    def timed(self) -> bool:
        """Whether time counts; a file says how many periods of a kind it has."""
        return self.periods is not None or self.period is not None

    def again(self) -> dict[str, Any]:
        """Return the values that run this scenario again; a schedule says its rounds itself."""
        values, follows = super().again(), {"policy", "rounds", "answers_per_device"}
        return {key: values[key] for key in values if key not in follows} if self.timed else values

    def flat(self) -> dict[str, Any]:
        """Return the scenario as flat JSON values, as `blindrec run` takes them."""
        values = super().flat()
        settings = values.pop("settings")
        return {**values, **settings, "epsilon": "inf" if self.epsilon is None else str(self.epsilon)}

    @classmethod
    def flat_names(cls) -> list[str]:
        """Return the names of all flat values, whatever the design."""
        return [name for name in cls.model_fields if name != "settings"] + [*all_settings()]

    def value(self, name: str) -> Any:
        """Return a flat value by its name; what is about other designs has its default."""
        for holder in (self, self.settings):
            if name in type(holder).model_fields:
                return getattr(holder, name)
        return all_settings()[name].default

    def given(self) -> set[str]:
        """Return the names of the flat values that were given."""
        return set(self.model_fields_set - {"settings"}) | set(self.settings.model_fields_set)

    @property
    def filled(self) -> Scenario:
        """The scenario if its numbers are filled in, else with those of a block model."""
        whole = self.items and self.rated and self.users and self.clusters
        return self if whole else self.complete()

    def complete(self, *, items: int = 200, rated: int = 20, users: int = 1_000_000) -> Scenario:
        """Return the scenario with items, rated, users and clusters filled in, and their ranges checked."""
        return self.model_copy(update=self._numbers(items, rated, users))

    def _numbers(self, items: int, rated: int, users: int) -> dict[str, int]:
        """Return the scenario's numbers, by default these."""
        items = self.items or items
        clusters = self.clusters or (2 if self.ratings else len(self.like[0]))
        rated, users = self.rated or min(rated, items), self.users or users
        full = {"items": items, "rated": rated, "users": users, "clusters": clusters}
        if clusters >= items:
            raise InputError(f"clusters is {clusters}; give fewer than the {items} items, else any labels are right")
        if clusters < 2:
            raise InputError(f"like has {clusters} numbers a user class; give one for each of at least 2 item clusters")
        check_shape(items, full["rated"])
        return full
