"""The settings of a comparison: a file, its split, privacy, numbers of people, and public constants."""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, model_validator

from coordinator.protocol.budget import DELTA_IN_WORDS, REPLACE, Epsilon, default_delta, parse_epsilon
from coordinator.protocol.errors import InputError
from coordinator.protocol.mechanism import Settings
from coordinator.protocol.mechanisms.sets import MOST_ITEMS, MOST_LIKES
from coordinator.protocol.trust_models import LADDER, PUBLIC_RATES, TRUST
from scenarios.config.files import NamedPath, brief, file_sha256, named_path
from scenarios.config.mechanism_settings import custom_designs
from scenarios.config.settings import (
    OWN,
    BadLines,
    ColumnNames,
    Duplicates,
    FeatureColumns,
    Features,
    LikeFrom,
    Seed,
    SplitBy,
    Target,
    Unrated,
    like_bar,
    names_among,
    parts_of,
    without_features,
)

ACTIVITY, RARITY = "activity", "rarity"
"""Groupings of people that need no extra file: by number of ratings, and by how rare their likes are."""
TRUST_MODELS = tuple(name for name in TRUST if name != PUBLIC_RATES)
LADDER_NAME = "ladder"  # Stands for these in lists of trust models
COORDINATOR = "coordinator"  # A panel beside these, with a metric of its own
EVERY_ROW = "all"  # Stands for all mechanisms in lists of them
LADDER_ROWS = (
    *("chance", "popularity", "item kNN", "SVD", "EASE", "popularity (Gaussian)", "pairs with EASE"),
    *("set", "set (few likes)", "MaxSense", "pairs"),
)
"""Default mechanisms: on each rung those that are best for some number of people, for volunteers those that learn from
public ratings alone, and the lists without privacy."""
EARLIER_NAMES = {
    "pairs, EASE": "pairs with EASE",
    "popularity, set": "popularity with set",
    "lifts, set": "lifts with set",
}
"""Rows whose names once held commas: a Python list may still use those names, comma-separated text cannot."""
EVERY_MODEL = (*TRUST_MODELS, PUBLIC_RATES, COORDINATOR)
DECADES = tuple(10.0**power for power in range(-9, 11))
"""Multiples of a file's people that a comparison without ``--scale`` chooses from."""
SEEDS = 3  # With fewer splits an interval is useless: Student's factor for two is 12.7
PUBLIC = (
    *("likes", "counted", "sensed", "neighbours", "rank", "ridge"),
    *("curated", "top", "co_liked", "lift_items", "paired"),
)
"""Constants that are fixed in advance and never taken from a file."""


def _epsilons(value: Any) -> Any:
    epsilons = [None if part is None else parse_epsilon(part) for part in parts_of(value)]
    if len(set(epsilons)) < len(epsilons) or not epsilons:
        raise InputError(f"epsilon is {brief(value)}; name each value once")
    return tuple(sorted(epsilons, key=lambda epsilon: (epsilon is None, epsilon)))


def _numbers(name: str, number: type[float], most: float, what: str) -> BeforeValidator:
    """Return a validator of lists of numbers above 0 and below ``most``."""

    def read(value: Any) -> tuple[float, ...]:
        try:
            numbers = {number(part) for part in parts_of(value)}
        except (TypeError, ValueError):
            numbers = set()
        if not numbers or not all(0 < share < most for share in numbers):
            raise InputError(f"{name} is {brief(value)}, no list of {what}")
        return tuple(sorted(numbers))

    return BeforeValidator(read)


_SCALES = _numbers("scale", float, 1e9, "numbers above 0; write it like 0.1,1,10")
_SHARES = _numbers("public", float, 1, "shares between 0 and 1; write it like 0.01,0.05")


def _seeds(number: Any) -> Any:
    if number is not None and not isinstance(number, bool) and str(number).isdigit() and int(number) < SEEDS:
        raise InputError(
            f"seeds is {int(number)}; an interval over splits takes {SEEDS} or more of them; raise --seeds"
        )
    return number


def _trust_models(value: Any) -> tuple[str, ...]:
    """Return trust models in the order of tables, with `ladder` expanded."""
    named = (LADDER if part == LADDER_NAME else (part,) for part in parts_of(value))
    return names_among([model for models in named for model in models], EVERY_MODEL, "trust model")


def _held_out(value: Any, info: ValidationInfo) -> Any:
    """Return a share, or the name of a file of pairs."""
    try:
        share = float(value)
    except (TypeError, ValueError):
        return named_path(value, info)
    if not 0 < share < 1 or isinstance(value, bool):
        raise InputError(f"held_out is {brief(value)}; give a share between 0 and 1, or a file of pairs user,item")
    return share


def _by(value: Any) -> tuple[str, ...]:
    return tuple(dict.fromkeys(str(part) for part in parts_of(value)))


def _names(value: Any) -> Any:
    return None if value is None else tuple(EARLIER_NAMES.get(name, name) for name in parts_of(value))


class Comparison(BaseModel):
    """The settings of a comparison. The constants w, p, k and M are public, so their defaults depend on no file."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    ratings: NamedPath = Field(description="The file of ratings.")
    columns: ColumnNames = None
    duplicates: Duplicates = None
    bad_lines: BadLines = "refuse"
    unrated: Unrated = None
    min_ratings: Annotated[int, Field(ge=1)] = Field(default=1, description="Leave out people with fewer ratings [1].")
    split_by: SplitBy = "random"
    like_from: LikeFrom = None
    features: Features = None
    feature_columns: FeatureColumns = None
    held_out: Annotated[float | Path, BeforeValidator(_held_out)] = Field(
        default=0.2,
        description="Share of each person's likes and dislikes to hold out, or your own split: a file of pairs "
        "user,item to hold out [0.2].",
    )
    epsilon: Annotated[tuple[Epsilon, ...], BeforeValidator(_epsilons)] = Field(
        default="1", validate_default=True, description="Epsilon in nats, several by ',' [1]."
    )
    delta: Annotated[float, Field(ge=0, lt=1)] | None = Field(
        default=None,
        description="Delta of rows with Gaussian noise or a shuffler, at most 1 / people; with 0 the noise is "
        f"Laplace's and nothing is shuffled [{DELTA_IN_WORDS}].",
    )
    relation: Literal["replace", "add-remove"] = Field(
        default="replace",
        description="Neighbours of curator and two servers: replace one person's ratings, as in all other rows, or add "
        "or remove a person [replace].",
    )
    worth: Annotated[float, Field(gt=0, le=2)] = Field(
        default=0.9, description="The target: reach this share of the quality of --of [0.9]."
    )
    of: Target = Field(
        default="best",
        description="Non-private reference of the target: best (the best list), or popularity [best].",
    )
    scale: Annotated[tuple[float, ...], _SCALES] = Field(
        default=(),
        description="Numbers of people as multiples of the file's, drawn with replacement, such as 0.1,1,10 [on each "
        "rung steps of ten until some reach the target and some miss it].",
    )
    people: Annotated[int, Field(ge=1, le=10**10)] | None = Field(
        default=None, description="Size of the population that the file is a sample of [the file's people]."
    )
    trust_models: Annotated[tuple[str, ...], BeforeValidator(_trust_models)] = Field(
        default=(*LADDER, "two-tier"),
        description=f"Some of {', '.join(EVERY_MODEL)}, by ','; {LADDER_NAME} for {', '.join(LADDER)} "
        f"[{LADDER_NAME},two-tier].",
    )
    mechanisms: Annotated[tuple[str, ...] | None, BeforeValidator(_names)] = Field(
        default=None,
        description=f"Rows to measure, by ',', such as set or EASE; {EVERY_ROW} for all [the best of each rung].",
    )
    design: Annotated[tuple[Settings, ...], BeforeValidator(lambda value: custom_designs(parts_of(value)))] = Field(
        default=(),
        description=f"Add rows for these mechanisms, under each trust model that they support: oue, or {OWN}, by ','.",
    )
    public: Annotated[tuple[float, ...], _SHARES] = Field(
        default=(0.01,), description="Two-tier: shares of people whose ratings are public [0.01]."
    )
    by: Annotated[tuple[str, ...], BeforeValidator(_by)] = Field(
        default=(),
        description=f"Show quality by group: {ACTIVITY}, {RARITY} or a column of --people-file, by ',' [none].",
    )
    people_file: NamedPath | None = Field(
        default=None, description="Groups for --by: a CSV with people's ids in its first column, and other columns."
    )
    seeds: Annotated[int, Field(ge=SEEDS), BeforeValidator(_seeds)] = Field(
        default=SEEDS, description=f"Splits, each with its own coins; at least {SEEDS} [{SEEDS}]."
    )
    seed: Seed = 0
    devices: Annotated[int, Field(ge=0)] = Field(
        default=100_000,
        description="Simulate up to this many devices one by one; above that, sample their sum from its law [100000].",
    )
    clients: Annotated[int, Field(ge=2)] = Field(
        default=20, description="Coordinator: number of the file's people to serve as clients in each seed [20]."
    )
    likes: Annotated[int, Field(ge=1)] = Field(
        default=50,
        description="Public: pad or cut each set to w likes; Gaussian counts use at most w of a person [50].",
    )
    counted: Annotated[float, Field(ge=0, lt=0.3)] = Field(
        default=0.0,
        description="Local set and pairs: share of devices that spend their epsilon on reporting how many items they "
        "like; this determines w instead of --likes [0].",
    )
    sensed: Annotated[float, Field(gt=0)] = Field(
        default=0.5, description="Public: MaxSense senses an item with this probability divided by --likes [0.5]."
    )
    neighbours: Annotated[int, Field(ge=1)] = Field(default=100, description="Item kNN: neighbours of an item [100].")
    rank: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="Truncated SVD: rank [chosen on a fifth of its training likes]."
    )
    ridge: Annotated[float, Field(gt=0)] | None = Field(
        default=None, description="EASE: ridge [chosen on a fifth of its training likes]."
    )
    curated: Annotated[int, Field(ge=1)] = Field(
        default=10, description="Public: likes per person that a curator counts with discrete Laplace noise [10]."
    )
    top: Annotated[int, Field(ge=11, le=MOST_ITEMS)] = Field(
        default=200, description="Public: number M of items whose pairs a curator or local devices count [200]."
    )
    lift_items: Annotated[int, Field(ge=11)] = Field(
        default=800, description="Public: most liked items, whose lifts are estimated from public ratings [800]."
    )
    co_liked: Annotated[int, Field(ge=0, le=MOST_LIKES)] = Field(
        default=0,
        description="Public: likes w per person whose pairs a curator or local devices count, 2 to 20; 0 for half of "
        "--likes [0].",
    )
    paired: Annotated[int, Field(ge=2, le=1024)] = Field(
        default=70, description="Public: devices report signs of pairs among the M most liked items [70]."
    )

    @model_validator(mode="after")
    def _consistent(self) -> "Comparison":
        if self.features is None and self.feature_columns is not None:
            raise ValueError(without_features(self.feature_columns))
        if (path := self.pairs_held_out) is not None and (self.split_by != "random" or self.min_ratings > 1):
            name = "split_by" if self.split_by != "random" else "min_ratings"
            value = getattr(self, name)
            raise ValueError(f"{name} is {value}, but {path.name} says what is held out; give one of them")
        if self.people is not None and self.scale:
            raise ValueError(f"people is {self.people}, and scale names numbers of people, too; give one of them")
        return self

    @property
    def pairs_held_out(self) -> Path | None:
        """The file of pairs that are held out; None where a share is."""
        return self.held_out if isinstance(self.held_out, Path) else None

    @property
    def share_held_out(self) -> float:
        """The share that is held out, if no file names the pairs."""
        assert not isinstance(self.held_out, Path)  # callers ask for a file first
        return self.held_out

    @property
    def held_out_name(self) -> float | str:
        """The share that is held out, or the name of the file of pairs, for results."""
        return self.held_out.name if isinstance(self.held_out, Path) else self.held_out

    @property
    def liked_from(self) -> float | None:
        """The least rating of a liked item, or None for above a person's mean; without ratings all is liked."""
        return like_bar(self.columns, self.like_from)

    def users_at(self, people: int, scale: float) -> int:
        """Return this multiple of the population, or of the file's ``people``, at least one."""
        return max(1, round((self.people or people) * scale))

    def grid(self, people: int) -> list[int]:
        """Return the numbers of people that are measured first."""
        return [self.users_at(people, scale) for scale in self.scale or (1,)]

    def is_on_grid(self, people: int, users: int) -> bool:
        """Return whether tables show rows with so many people; other rows only help to locate a number."""
        return users == people or users in {self.users_at(people, scale) for scale in self.scale or DECADES}

    def delta_of(self, people: int) -> float:
        """Return the delta of guarantees to so many people: the setting, else the default."""
        return default_delta(people) if self.delta is None else self.delta

    def content(self) -> dict[str, Any]:
        """Return the settings that every row depends on, as JSON values, but not which rows to measure."""
        names = ("like_from", "held_out", "duplicates", "bad_lines", "min_ratings", "split_by", "devices", "clients")
        shared = {name: getattr(self, name) for name in (*names, *PUBLIC)}
        if (pairs := self.pairs_held_out) is not None:
            shared["held_out"] = file_sha256(pairs, "held-out file")
        files = {"ratings": self.ratings, "features": self.features}
        digests = {f"{name}_sha256": path and file_sha256(path, f"{name} file") for name, path in files.items()}
        columns = None if self.columns is None else list(self.columns)
        # Defaults are left out, so that folders written before these settings existed can be resumed
        named = None if self.feature_columns is None else list(self.feature_columns)
        changes: dict[str, tuple[Any, Any]] = {"delta": (self.delta, None), "relation": (self.relation, REPLACE)}
        changes |= {"unrated": (self.unrated, None), "feature_columns": (named, None)}
        other: dict[str, Any] = {name: value for name, (value, ever) in changes.items() if value != ever}
        if self.by:
            people = self.people_file and file_sha256(self.people_file, "people file")
            other |= {"by": list(self.by), "people_sha256": people}
        return {"sweep": "compare", "columns": columns, **digests, **shared, **other}

    def includes(self, trust_model: str, mechanism: str) -> bool:
        """Return whether a row is to be measured."""
        if trust_model not in self.trust_models:
            return False
        named = LADDER_ROWS if self.mechanisms is None else self.mechanisms
        return mechanism in named or EVERY_ROW in named
