"""A scenario as a value: what `blindrec run` takes, from flags or a TOML file, checked before any device is asked."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from coordinator.decoders import DECODERS
from coordinator.designs import MaxSense, Pairwise
from coordinator.protocol.budget import Epsilon, parse_epsilon
from coordinator.protocol.channels import bit_channel
from coordinator.protocol.errors import InputError

MOST_ITEMS = 10**8
MOST_USERS = 10**12
"""Far more than a machine can run; above them not even the layout fits into memory."""


def _numbers(value: Any) -> Any:
    """Read ``"0.9,0.1"`` as a tuple of numbers; leave anything else to the checks."""
    if not isinstance(value, str):
        return value
    try:
        return tuple(float(part) for part in value.split(","))
    except ValueError:
        raise ValueError(f"{value!r} is no list of numbers; write it like 0.9,0.1") from None


def _matrix(value: Any) -> Any:
    """Read ``"0.9,0.1;0.2,0.8"`` as rows; a single list of numbers is one row."""
    if isinstance(value, str):
        return tuple(_numbers(row) for row in value.split(";"))
    if isinstance(value, (list, tuple)) and all(isinstance(part, (int, float)) for part in value):
        return (tuple(value),)
    return value


Probability = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Row = Annotated[tuple[Probability, ...], BeforeValidator(_numbers)]
Matrix = Annotated[tuple[tuple[Probability, ...], ...], BeforeValidator(_matrix)]
Exact = Annotated[Epsilon, BeforeValidator(parse_epsilon)]


class Scenario(BaseModel):
    """One run: the world, the mechanism and its privacy. Nothing here is about speed.

    Attributes
    ----------
    design : {"maxsense", "pairwise"}
        What is asked.
    agreement : {"rated-equal", "equal", "positive"}
        Pairwise-Preference's bit; see `coordinator.designs.Pairwise`.
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
        Privacy parameter of a device's answer [nats]; None (``"inf"``): no noise.
    seed : int
        Everything random follows from it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    design: Literal["maxsense", "pairwise"] = "maxsense"
    agreement: Literal["rated-equal", "equal", "positive"] = "rated-equal"
    decoder: str = "centred"
    items: Annotated[int, Field(ge=2, le=MOST_ITEMS)] | None = None
    rated: Annotated[int, Field(ge=1)] | None = None
    users: Annotated[int, Field(ge=1, le=MOST_USERS)] | None = None
    clusters: Annotated[int, Field(ge=2)] | None = None
    like: Matrix = ((0.9, 0.1),)
    class_shares: Row | None = None
    cluster_shares: Row | None = None
    theta: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    epsilon: Exact = Field(default=1, validate_default=True)
    seed: Annotated[int, Field(ge=0, lt=1 << 63)] = 0
    ratings: Path | None = None
    columns: tuple[str, str, str] | None = None
    like_from: float | None = None
    held_out: Annotated[int, Field(ge=0)] = 1

    @model_validator(mode="after")
    def _consistent(self) -> Scenario:
        if self.decoder not in DECODERS:
            raise ValueError(f"decoder is {self.decoder!r}; choose one of {', '.join(DECODERS)}")
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
        bit_channel(self.epsilon)
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
        if self.design == "pairwise":
            Pairwise(items=items, agreement=self.agreement)
            if clusters == items:
                raise InputError(f"clusters is {clusters}; pairwise needs fewer clusters than items, {items}")
        MaxSense(items=items, rated=full["rated"], theta=self.theta)
        return self.model_copy(update=full)


def _check_shares(name: str, shares: tuple[float, ...] | None, expected: int) -> None:
    if shares is None:
        return
    if len(shares) != expected:
        raise ValueError(f"{name} has {len(shares)} numbers, like has {expected}; give as many")
    if not np.isclose(sum(shares), 1, rtol=0, atol=1e-9):
        raise ValueError(f"{name} sum to {sum(shares):g}; they must sum to 1")


def load_scenario(path: Path | None, flags: dict[str, Any]) -> Scenario:
    """Read a scenario from a TOML file and flags; flags win.

    Parameters
    ----------
    path : Path or None
        TOML file whose keys are the attributes of `Scenario`.
    flags : dict
        What the command line set; None where it did not.

    Returns
    -------
    Scenario

    Raises
    ------
    InputError
        One line for the first thing that is wrong: the key, its value and the remedy.
    """
    values = _read_toml(path) if path else {}
    values |= {name: value for name, value in flags.items() if value is not None}
    try:
        return Scenario.model_validate(values)
    except ValidationError as error:
        raise InputError(_first_line(error)) from None


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"scenario file {path} cannot be read ({error.strerror}); name a TOML file") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"scenario file {path} is no TOML: {error}") from None


def _first_line(error: ValidationError) -> str:
    first = error.errors()[0]
    name = ".".join(str(part) for part in first["loc"]) or "scenario"
    if first["type"] == "extra_forbidden":
        return f"key {name!r} is unknown; known are {', '.join(Scenario.model_fields)}"
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "value_error":
        return message if message.startswith(name) or not first["loc"] else f"{name}: {message}"
    return f"{name} is {first['input']!r}: {message[0].lower()}{message[1:]}"
