"""What scenarios of all experiments share: fields, and how they are read and written."""

import math
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from coordinator.protocol.errors import InputError, name_choices
from scenarios.config.files import NamedPath, brief, first_line, names_of_columns, read_values

OWN = "package.module:Name"

SEEN, TIMED = 2, 4  # Numbers of columns without ratings, and with times in the last one

_CODE, _HELPERS = ("design", "policy"), ("helpers", "with")
"""Keys of files under which code can be named, and packages that travel with it."""

M = TypeVar("M", bound=BaseModel)
# Fields that settings share, with the help of their flags.
Seed = Annotated[int, Field(ge=0, lt=1 << 63, description="Seed of all randomness [0].")]
ColumnNames = Annotated[
    tuple[str, ...] | None,
    BeforeValidator(names_of_columns),
    Field(
        description="Names of the file's columns of users, items, ratings and, if any, times; only two if every item "
        "seen is liked; numbers from 1 if the file has no header."
    ),
]
Duplicates = Annotated[
    Literal["last", "first", "mean", "sum"] | None,
    Field(description="If a user rated an item more than once: last, first, mean, or sum, as for minutes [refused]."),
]
BadLines = Annotated[
    Literal["refuse", "skip"],
    Field(description="Unreadable lines: skip leaves them out and counts them, refuse stops with an error [refuse]."),
]
Unrated = Annotated[
    Annotated[float, Field(allow_inf_nan=False)] | None,
    Field(description="A number that means no rating, such as 0 or -1; such lines are skipped and counted [none]."),
]
Malicious = Annotated[
    Annotated[float, Field(ge=0, lt=1)] | None,
    Field(description="Share of devices that lie, by each one's own coin; 0 only adds columns about liars [none]."),
]
Target = Literal["best", "popularity"]
"""The non-private reference of a target: the best list, or popularity."""


def _period(value: Any) -> Any:
    if value is None:
        return None
    name, days = str(value), str(value).removesuffix("d")
    if name not in {"month", "quarter", "year"} and not (name.endswith("d") and days.isdigit() and int(days) > 0):
        raise InputError(f"period is {brief(value)}; choose month, quarter, year, or a number of days such as 30d")
    return name


MOST_OF_FILE = 24  # Default for the most periods of a file
FilePeriod = Annotated[
    str | None,
    BeforeValidator(_period),
    Field(description="Length of a file's periods: month, quarter, year, or days such as 30d [month]."),
]
SplitBy = Annotated[
    Literal["random", "time", "global-time"],
    Field(
        description="Hold out ratings at random; if the file has times, also everybody's latest (time), or all ratings "
        "after one date (global-time) [random]."
    ),
]


def _held_out(name: str, least: float = 0) -> BeforeValidator:
    """Return what reads a share below 1, which stays a float, or a whole number."""

    def read(value: Any) -> int | float:
        try:
            number, shown = float(value), f"{float(value):g}"
        except (TypeError, ValueError):
            number, shown = -1.0, brief(value)
        if not least <= number < 2**31 or (number >= 1 and number != round(number)) or isinstance(value, bool):
            whole = f"a whole number, {math.ceil(least)} or more"
            raise InputError(f"{name} is {shown}; give a share of everybody's ratings below 1, or {whole}")
        return int(number) if number == round(number) else number

    return BeforeValidator(read)


HELD_OUT = 0.2
"""Default share of everybody's ratings to hold out, for every command that scores lists."""
HeldOut = Annotated[
    int | float,
    _held_out("held_out"),
    Field(description=f"Share of each person's ratings to hold out, as in compare, or a number of likes [{HELD_OUT}]."),
]
TestRatings = Annotated[
    int | float,
    _held_out("holdout", 1e-9),
    Field(description="Number of test ratings per person, or a share of all, as in compare [10]."),
]
LikeFrom = Annotated[
    float | None, Field(allow_inf_nan=False, description="Smallest rating of a like [above the person's mean].")
]
Features = Annotated[
    NamedPath | None,
    Field(description="Public features of items: a CSV of item ids and columns of words separated by '|'."),
]
FeatureColumns = Annotated[
    tuple[str, ...] | None,
    BeforeValidator(lambda value: None if value is None else tuple(str(part) for part in parts_of(value))),
    Field(description="Columns of --features to use, by ',' [all but numbers, dates and columns with over 500 words]."),
]


def without_features(columns: tuple[str, ...]) -> str:
    """Return the error about feature columns without a file of features."""
    return f"feature_columns is {brief(','.join(columns))}, but no file has them; give --features too"


def parts_of(value: Any) -> list[Any]:
    """Return the parts of a list, whether it is a text with commas, a list, or a single value."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",")]
    return list(value) if isinstance(value, (list, tuple)) else [value]


def names_among(value: Any, choices: Iterable[str], what: str) -> tuple[str, ...]:
    """Return the names in a list in the order of all choices, and refuse an unknown name."""
    names, ordered = parts_of(value), tuple(choices)
    for name in names:
        if name not in ordered:
            raise InputError(f"{what} {brief(name)} is unknown; {name_choices(name, ordered)}")
    return tuple(name for name in ordered if name in names)


def like_bar(columns: tuple[str, ...] | None, like_from: float | None) -> float | None:
    """Return the smallest rating of a like, or None for above a person's mean; without ratings every item is liked."""
    return 1.0 if like_from is None and columns is not None and len(columns) == SEEN else like_from


class ExperimentScenario(BaseModel):
    """A scenario: flat values, each with a description that is also the help of its flag."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    if not TYPE_CHECKING:

        def __init__(self, **values: Any) -> None:
            try:
                super().__init__(**values)
            except ValidationError as error:
                raise InputError(first_line(error, type(self))) from None

    brought: ClassVar[dict[str, tuple[str, ...]]] = {}
    """Fields that a file brings itself, by the field that names the file."""

    def refuse_without_file(self, *names: str) -> None:
        """Refuse values about files of ratings."""
        for name in names:
            if (value := getattr(self, name)) != type(self).model_fields[name].default:
                raise InputError(f"{name} is {brief(value)}, which is about ratings files; give --ratings too")

    def flat(self) -> dict[str, Any]:
        """Return the values as JSON, as a file of a scenario has them."""
        values: dict[str, Any] = self.model_dump(mode="json")
        return values

    def again(self) -> dict[str, Any]:
        """Return the values that run this scenario again, as `flat` has them: paths are absolute, nothing is None."""
        values = {name: value for name, value in self.flat().items() if value is not None}
        for name, theirs in self.brought.items():
            if name in values:
                values[name] = str(getattr(self, name).absolute())
                values = {key: value for key, value in values.items() if key not in theirs}
        return values


def validated(kind: type[M], path: Path | None, flags: dict[str, Any], *, allow_code: bool = False) -> M:
    """Read a scenario from a TOML file and flags; flags win."""
    values = read_values(path, "scenario file") if path else {}
    if "settings" in values:
        raise InputError("key 'settings' is unknown: write a mechanism's settings beside the other keys")
    flags = {name: value for name, value in flags.items() if value is not None}
    if path is not None and not allow_code:
        refuse_code({name: value for name, value in values.items() if name not in flags}, f"scenario file {path}")
    try:
        return kind.model_validate(values | flags)
    except ValidationError as error:
        raise InputError(first_line(error, kind)) from None


def refuse_code(value: Any, what: str, key: str = "") -> None:
    """Refuse a file that names code or packages; they would run with the user's own rights."""
    if isinstance(value, dict):
        for name, inner in value.items():
            refuse_code(inner, what, str(name))
    elif isinstance(value, (list, tuple)):
        for inner in value:
            refuse_code(inner, what, key)
    elif isinstance(value, str) and (key in _HELPERS or (key in _CODE and ":" in value)):
        remedy = "read that code, then give --allow-code, or name it by a flag"
        raise InputError(f"{what} names code, {key} = {brief(value)}, which would run with your rights; {remedy}")
