"""Messages, values and files that nobody should send."""

import dataclasses
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, NoReturn, TypeAlias, TypeVar

import numpy as np
import pytest
import worlds
from runs import Command, Ended
from worlds import in_world

from coordinator.protocol.budget import PrivacyParameter
from coordinator.protocol.errors import InputError
from coordinator.protocol.mechanisms.maxsense import MaxSense, MultiMaxSense
from coordinator.protocol.mechanisms.pairwise import Pairwise
from coordinator.protocol.mechanisms.sign import Sign
from coordinator.protocol.mechanisms.toys import CuratorPairs, FullReveal, ItemQuery
from coordinator.protocol.messages import Model, Query

# A small world, and every kind of query in it.
ITEMS, USERS = 12, 10
BOUNDS = [(0, 4), (4, USERS)]
WORLD = worlds.world(items=ITEMS, rated=4)


def queries() -> list[Query]:
    closed: list[Any] = [
        in_world(MaxSense, items=ITEMS, rated=4),
        in_world(Sign, items=ITEMS, rated=4, vectors=4),
        in_world(MultiMaxSense, items=ITEMS, rated=4, questions=3),
        in_world(Pairwise, items=ITEMS),
        in_world(Pairwise, items=ITEMS, agreement="positive", rated_items="public"),
    ]
    shown: list[Any] = [in_world(kind, items=ITEMS, rated=4) for kind in (ItemQuery, FullReveal, CuratorPairs)]
    first: dict[str, Any] = {"round_number": 0, "public_seed": worlds.PUBLIC}
    return [
        *(one.query(**first, epsilon=Fraction(1, 2)) for one in closed),
        *(one.query(**first, epsilon=None) for one in shown),
        worlds.maxsense_query(items=ITEMS, sensing=0.4, epsilon=Fraction(1, 3), pool=[0, 3, 4, 11]),
        in_world(Sign, items=ITEMS, rated=4).query(**first, epsilon=Fraction(1), expected=np.full(ITEMS, 0.3)),
    ]


QUERIES = queries()
MODEL = Model(cluster=np.arange(ITEMS, dtype=np.int32) % 3, score=np.arange(12.0), error=np.ones(ITEMS), clusters=3)
FEATURES = worlds.features(items=ITEMS, rank=2)
OF = worlds.rated(devices=USERS, items=ITEMS, each=5)


# Values that nobody means, and how a good message becomes a bad one: a field is replaced, as unpickling takes it.
def forged_fraction(kind: type[Fraction], above: object, below: object) -> Fraction:
    """A fraction that no constructor has seen."""
    made: Any = object.__new__(kind)
    made._numerator, made._denominator = above, below
    return made  # type: ignore[no-any-return] # of this kind


class Generous(Fraction):
    """A cost that is above 0 when it is compared, and gives back when it is added."""

    def __gt__(self, other: object) -> bool:
        return True

    def __le__(self, other: object) -> bool:
        return False

    def __radd__(self, other: Any) -> Any:
        return other - 100


class Fickle(Query):
    """A query with another id at every look."""

    __slots__ = ()
    looks = 0

    @property
    def id(self) -> bytes:
        Fickle.looks += 1
        return Fickle.looks.to_bytes(16, "big")


class Number(int):
    def __lt__(self, other: object) -> bool:
        raise RuntimeError("a comparison that fails")


class Text(str):
    __slots__ = ()


class Octets(bytes):
    """Bytes that are equal to all others."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = bytes.__hash__


class Names(dict[str, float]):
    """A dictionary that says one thing, and another one."""

    def items(self) -> Any:
        return {"sensing": 0.5}.items()


class Array(np.ndarray[Any, Any]):
    """An array of a class of its own."""


Table: TypeAlias = np.ndarray[Any, Any]
SCALARS: tuple[Any, ...] = (
    *(None, True, False, 0, 1, 2, 3, -1, -2, 255, 256, 1000, 2**31 - 1, 2**31, 2**63, 2**64, -(2**63), 10**30),
    *(0.0, -0.0, 0.5, 1.0, -1.0, np.nan, np.inf, -np.inf, 1e308, -1e-300, 5e-324, 1e49),
    *("", "x", "0", "maxsense", "sign", "exact", "sslp", "x" * 10_000, "a\nb", "\udc80", Text("maxsense")),
    *(b"", bytes(15), bytes(16), bytes(17), b"\xff" * 16, Octets(bytes(16)), bytearray(16)),
    *([], (), {}, set(), [1], (1.0, 2.0), (2.0, 1.0), (1.0, np.nan), {"sensing": np.nan}, {1: 1.0}, Names()),
    *(object(), int, len, Ellipsis, 1j, Decimal(1), Decimal("nan"), Number(1), 10**5000),
    *(np.int64(1), np.float32(1), np.float64(0.5), np.float64("nan"), np.bool_(1), np.zeros(3), np.zeros(())),
)
COSTS: tuple[Any, ...] = (
    *(Fraction(-100), Fraction(0), Fraction(-1, 3), Fraction(1, 10**9), Fraction(1, 10**400), Fraction(10**400)),
    *(Fraction(31), Fraction(1, 10**5000), Generous(1), Generous(-100), -50, 0.1, "1", Decimal("0.1")),
    *(
        forged_fraction(kind, *parts)
        for kind in (Fraction, PrivacyParameter)
        for parts in ((-100, 1), (1, -1), (100, -1), (2, 2), (0, 1), (1, 0), (1.5, 1), (True, 1), (None, None))
    ),
)


def heavy(part: object) -> float:
    """How often a part is changed: what holds more is changed more often."""
    return 4.0 if dataclasses.is_dataclass(part) or isinstance(part, np.ndarray) else 1.0


def picked(weights: Sequence[float], coins: np.random.Generator) -> list[int]:
    """Places by weight: mostly one, now and then two."""
    size = min(1 + int(coins.random() < 0.15), len(weights))
    chances = np.array(weights) / sum(weights)
    return [int(place) for place in coins.choice(len(weights), size=size, replace=False, p=chances)]


def recast(good: Table, coins: np.random.Generator) -> object:
    """The same numbers as another type."""
    return good.astype(coins.choice(["i8", "f4", "f8", ">i4", ">f8", "?", "u4", "O", "i4", "c16", "S3"]))


def reshaped(good: Table, coins: np.random.Generator) -> object:
    """The same numbers in another shape, some of them only, or more of them."""
    shapes = ((-1,), (1, -1), (-1, 1), (1, *good.shape), (*good.shape, 1))
    cuts = (good[:-1], good[1:], good[:1], good[:0], np.concatenate([good, good]))
    return (
        good.reshape(shapes[coins.integers(len(shapes))]) if coins.random() < 0.5 else cuts[coins.integers(len(cuts))]
    )


def laid_out(good: Table, coins: np.random.Generator) -> object:
    """The same numbers in another order, at an odd address, in a class of its own; or read-only, which is fine."""
    read_only, odd = good.copy(), np.frombuffer(b"\0" + good.tobytes(), np.uint8)[1:].view(good.dtype)
    read_only.setflags(write=False)
    same = np.broadcast_to(good.ravel()[:1], good.shape) if good.size else good
    ways = (good[::-1], np.repeat(good, 2, 0)[::2], good.T, np.asfortranarray(good), same, read_only)
    others = (odd.reshape(good.shape), good.view(Array), np.ma.masked_array(good), good.tolist())
    return (*ways, *others)[coins.integers(len(ways) + len(others))]


def off(good: Table, coins: np.random.Generator) -> object:
    other = good.copy()
    real = good.dtype.kind == "f"
    values: tuple[float, ...] = (-1, 0, 1, 2, 255, 2**31 - 1, -(2**31), good.size)
    if real:
        values = (*values, np.nan, np.inf, -np.inf, 1e308, 1e49, -1e49, 1e30, -1e-30, 1e-300)
    for _ in range(min(int(coins.integers(1, 4)), other.size)):
        place = tuple(int(coins.integers(size)) for size in other.shape)
        value = values[coins.integers(len(values))]
        other[place] = value if real or good.dtype.kind == "b" else np.array(value).astype(good.dtype)
    return other


def bad_array(good: Table, coins: np.random.Generator) -> object:
    """An array that differs from a good one in its type, shape or order, or in some entries."""
    return (recast, reshaped, reshaped, laid_out, off, off)[coins.integers(6)](good, coins)


def bad_number(good: int, coins: np.random.Generator) -> object:
    """A number beside a good one, or far away."""
    return (good + 1, good - 1, -good, good + 2**32, 2 * good, float(good), np.int64(good), Number(good), str(good))[
        coins.integers(9)
    ]


def bad_table(good: dict[str, float], coins: np.random.Generator) -> object:
    """A dictionary with an entry more, less or changed."""
    names = [*good, "sensing", "vectors", "kept", "set_size", "share", "most", "more"]
    name = names[coins.integers(len(names))]
    if coins.random() < 0.3:
        return {key: value for key, value in good.items() if key != name}
    return {**good, name: SCALARS[coins.integers(len(SCALARS))] if coins.random() < 0.7 else good.get(name, 1) + 1}


def bad_bytes(good: bytes, coins: np.random.Generator) -> object:
    place = int(coins.integers(len(good) + 1))
    return (good[:-1], good + b"\0", good[:place] + b"\xff" + good[place + 1 :], Octets(good))[coins.integers(4)]


def bad_tuple(good: tuple[object, ...], coins: np.random.Generator) -> object:
    place = int(coins.integers(len(good)))
    return (*good[:place], bad_part(good[place], coins), *good[place + 1 :])


CHANGES: dict[type, Callable[[Any, np.random.Generator], object]] = {
    Fraction: lambda _, coins: COSTS[coins.integers(len(COSTS))],
    np.ndarray: bad_array,
    dict: bad_table,
    bytes: bad_bytes,
    int: bad_number,
    float: lambda good, coins: float(good * coins.choice([0, -1, 1e-30, 0.5, 2, 1e30, np.inf])),
    tuple: bad_tuple,
}
"""How what a message holds is changed, by its type."""


def bad_part(good: object, coins: np.random.Generator) -> object:
    if coins.random() < 0.8:
        if dataclasses.is_dataclass(good):
            return bad_message(good, coins)
        for kind, change in CHANGES.items():
            if isinstance(good, kind) and not isinstance(good, bool):
                return change(good, coins)
    return SCALARS[coins.integers(len(SCALARS))]


def bad_message(good: Any, coins: np.random.Generator) -> object:
    """A message with one or two fields replaced, or without one, or of another class; no constructor has seen it."""
    names = [field.name for field in dataclasses.fields(good)]
    if coins.random() < 0.03:
        made = object.__new__(type(good))
        for name in names[1:]:
            object.__setattr__(made, name, getattr(good, name))
        return made
    if coins.random() < 0.03:
        kind = (
            Fickle if type(good) is Query else dataclasses.make_dataclass("Sub", [], bases=(type(good),), frozen=True)
        )
        made = object.__new__(kind)
        for name in names:
            object.__setattr__(made, name, getattr(good, name))
        return made
    parts = [getattr(good, name) for name in names]
    changed = picked([heavy(part) for part in parts], coins)
    return forged(good, **{names[place]: bad_part(parts[place], coins) for place in changed})


# Input that nobody means, and what must become of it: an exit code, a few short lines, never a trace or a hang.
HANGS = 60  # Seconds after which a call hangs; calls take milliseconds
LINES, LONGEST = 3, 1200  # Of standard error: progress of a small run, or the line that says what is wrong


class HungError(BaseException):
    """A call took too long."""


@contextmanager
def bounded() -> Iterator[None]:
    """Break off what hangs."""

    def late(*_: object) -> NoReturn:
        raise HungError

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(HANGS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def fault(blindrec: Command, arguments: list[str]) -> str:
    """What is wrong with how a command ends; nothing, if it ends as it should."""
    try:
        with bounded():
            ended: Ended = blindrec(*arguments)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return f"{_told(arguments)}: {type(error).__name__}: {str(error)[:200]}"
    lines = ended.err.count("\n")
    if ended.code not in (0, 2, 3):
        return f"{_told(arguments)}: exit code {ended.code}"
    if (
        lines > LINES
        or len(ended.err) > LONGEST
        or (ended.code and not ended.err.splitlines()[-1].startswith("blindrec: "))
    ):
        return f"{_told(arguments)}: says {lines} lines, {len(ended.err)} characters: {ended.err[:200]}"
    return ""


def _told(arguments: list[str]) -> str:
    return " ".join(repr(one)[:60] for one in arguments)


def begin_no_run(patch: pytest.MonkeyPatch, scratch: Path) -> None:
    """Stop where a long computation would begin: what is fuzzed is the way there."""

    def begun(*_: object, **__: object) -> NoReturn:
        raise InputError("a run would begin")

    for name in (
        "scenarios.backends.selection.InProcess.run", "scenarios.backends.selection.InProcess.each",
        "scenarios.backends.ray_instance.on_ray",
        "scenarios.experiment.experiment.run_seeds", "scenarios.studies.planner.request.plan",
        "scenarios.commands.job_commands.head_at",
    ):  # fmt: skip
        patch.setattr(name, begun)
    patch.setattr("scenarios.studies.planner.request.learnable_of", lambda *_: [])
    patch.delenv("RAY_ADDRESS", raising=False)
    patch.chdir(scratch)


def ratings_file(folder: Path) -> Path:
    rows = [f"{user},{item},{(user * item) % 5 + 1}\n" for user in range(30) for item in range(12) if (user + item) % 2]
    (folder / "ratings.csv").write_text("user,item,rating\n" + "".join(rows), encoding="utf-8")
    return folder / "ratings.csv"


# Messages as an attacker sends them: made without their constructor, as unpickling makes them.
T = TypeVar("T")


def forged(message: T, **changes: object) -> T:
    """A copy of a message with other fields, which nothing has checked."""
    made: Any = object.__new__(type(message))
    names = {field.name for field in fields(message)}  # type: ignore[arg-type] # messages are dataclasses
    assert changes.keys() <= names
    for name in names:
        object.__setattr__(made, name, changes.get(name, getattr(message, name)))
    return made  # type: ignore[no-any-return] # of the same type
