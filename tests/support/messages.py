"""Messages: what may cross between rooms, and what nobody should send."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeAlias, TypeVar

import numpy as np
import pytest
import worlds
from ray import cloudpickle
from ray.actor import ActorHandle
from worlds import in_world

from actors.device import Cohort
from coordinator.protocol.agreement import Agreement, PlannedRound
from coordinator.protocol.budget import PrivacyParameter
from coordinator.protocol.coins import derive
from coordinator.protocol.decoding.estimates import Estimates
from coordinator.protocol.decoding.line import Curator
from coordinator.protocol.decoding.posterior import Mixture, Posterior
from coordinator.protocol.item_models import ItemToItem
from coordinator.protocol.mechanism import Decoding, InWorld, Mechanism, World
from coordinator.protocol.mechanisms import mechanisms as registered_mechanisms
from coordinator.protocol.mechanisms.anchor import AnchorSensing
from coordinator.protocol.mechanisms.maxsense import MaxSense, MultiMaxSense
from coordinator.protocol.mechanisms.pairwise import Pairwise
from coordinator.protocol.mechanisms.sets import CountedSet, LikedPairs
from coordinator.protocol.mechanisms.sign import Sign
from coordinator.protocol.mechanisms.totals import LikedPairTotals
from coordinator.protocol.mechanisms.toys import CuratorPairs, FullReveal, ItemQuery
from coordinator.protocol.messages import Model, Query, Release
from coordinator.protocol.statistics.scores import ScoreStatistic
from coordinator.protocol.statistics.statistic import Statistic
from coordinator.server.aggregation import aggregate
from coordinator.server.anchor.like_tables import TableLearner
from coordinator.server.anchor.policy import AnchorPolicy, RoundLearner, TablePolicy, TwoClasses
from coordinator.server.fleet.cohorts import Cohorts, Layout
from coordinator.server.rounds.group_policies import ChoiceAndPairs, Groups, UntilLearned
from coordinator.server.rounds.learner import PosteriorLearner, SumLearner
from coordinator.server.rounds.policies import Eliminate, Fixed, ItemByItem, OneRound
from coordinator.server.rounds.rounds import Outcome, QueryPlan, Round
from coordinator.server.rounds.scheduled import AgeingLearner, Scheduled
from coordinator.server.rounds.setting import Setting
from coordinator.server.rounds.state import AnchorRound, Ask, Centred, Counts, Readings, RunProgress, ServerState
from scenarios.backends import in_process as together
from scenarios.studies.scrutiny.mechanism_under_test import Choice, choices

# What may cross the trust boundary: an allow-list of types and fields, and a search for secrets in bytes.
SEED = 0x1234_5678_9ABC_DEF1  # A run's seed that no other number is likely to look like
ALLOWED: dict[type, set[str]] = {
    Query: {
        "design",
        "items",
        "round",
        "public_seed",
        "epsilon",
        "questions",
        "parameters",
        "pool",
        "answer_bits",
        "centres",
        "arrays",
        "own_questions",
        "period",
        "agreement",
    },
    Agreement: {part.name for part in dataclasses.fields(Agreement)},
    Release: {"query_id", "first", "count", "width", "bits", "answered", "refused", "pairs", "questions"},
    Model: {"cluster", "score", "error", "clusters", "near", "tastes"},
    ItemToItem: {"pool", "liked", "weights"},
    Ask: {"query", "first", "stop"},
    ServerState: {"devices", "asked", "counts", "merged", "estimates", "readings", "budget", "by_period"},
    Counts: {"asked", "answered", "refused", "ones"},
    Readings: {"settled", "centred", "anchors"},
    AnchorRound: {"query", "statistic"},
    Centred: {"query", "inside"},
    Estimates: {"weighted", "information"},
    Posterior: {"cluster", "doubt", "expected", "mixture", "apart"},
    Mixture: {"levels", "shares", "doubts", "likelihood"},
    Round: {"ask", "statistic", "digest", "size", "transcripts"},
    QueryPlan: {"policy", "learner", "devices", "budget", "most_rounds", "agreement"},
    Setting: {
        "design",
        "epsilon",
        "public_seed",
        "clusters",
        "confidence",
        "answers_per_device",
        "pool_size",
        "assume_malicious",
        "smallest_round",
        "groups",
        "own_questions",
    },
    Fixed: {"setting", "rounds"},
    Eliminate: {"setting", "share"},
    ItemByItem: {"setting"},
    Outcome: {"state", "model", "releases_sha256", "size", "posterior", "failure", "transcripts"},
    Scheduled: {"setting", "plan", "designs"},
    AgeingLearner: {"design", "clusters", "ageing", "new_items", "own"},
    PlannedRound: {"period", "first", "stop", "epsilon", "honest", "levels"},
    OneRound: {"design", "epsilon", "public_seed", "own_questions"},
    UntilLearned: {"design", "public_seed"},
    AnchorPolicy: {"setting", "learner"},
    TwoClasses: {"design", "failure"},
    AnchorSensing: {"items", "rated", "clusters", "pool_items", "classes", "learner"},
    TablePolicy: {"setting", "learner"},
    TableLearner: {"design", "failure"},
    Groups: {"design", "epsilon", "public_seed"},
    ChoiceAndPairs: {"design", "epsilon", "public_seed"},
    LikedPairs: {
        "items",
        "rated",
        "pair_items",
        "pair_likes",
        "subset_size",
        "first_group",
        "second_group",
        "counted_group",
    },
    InWorld: {"mechanism", "world"},
    World: {part.name for part in dataclasses.fields(World)},  # with no block model
    LikedPairTotals: {"mechanism", "world", "likes", "pair_items"},
    CountedSet: {"items", "rated", "subset_size", "counted_group"},
    SumLearner: {"mechanism", "how", "custom"},
    Decoding: {"clusters", "decoder", "curator", "public", "world"},
    PosteriorLearner: {"design", "clusters", "confidence", "assume_malicious", "custom"},
    RoundLearner: {"anchors", "clusters", "custom"},
    Curator: {"epsilon", "rated", "neighbours", "seed"},
    Layout: {"devices", "workers", "devices_per_actor"},
    Cohorts: {"bounds", "hosts"},
    RunProgress: {"count", "restored", "rounds", "planned", "answers", "refused", "epsilon", "undecided"},
}
"""What the server's side may hold, and the names of its fields; a `Curator` is a server that is trusted."""
ATOMS = (bool, int, float, str, bytes, Fraction, PrivacyParameter, type(None), ActorHandle)
"""An actor's handle is an address; what lies behind it stays there."""


def leaves(value: object, items: int) -> Iterator[object]:
    """Walk through all that a value holds; fail at a type or a field that is not on the list."""
    kind = type(value)
    if isinstance(value, (Statistic, Mechanism)):
        yield from of_statistic(value, items) if isinstance(value, Statistic) else of_settings(value)
    elif kind in ALLOWED:
        held = {name: getattr(value, name) for name in ALLOWED[kind]}
        assert {part.name for part in dataclasses.fields(value)} == set(held)  # type: ignore[arg-type] # on the list
        assert set(getattr(value, "__dict__", {})) <= set(held), "something was put beside the fields"
        for name, part in held.items():
            if is_public(kind, name, part, items):
                yield part
            else:
                yield from leaves(part, items)
    elif kind in {tuple, list}:
        for part in value:  # type: ignore[attr-defined] # tuple or list
            yield from leaves(part, items)
    elif kind is dict:
        assert {type(name) for name in value} <= {str}  # type: ignore[attr-defined] # dict
        for part in value.values():  # type: ignore[attr-defined] # dict
            assert type(part) in {float, int, Cohorts}
            yield from leaves(part, items)
    elif kind is np.ndarray:
        assert value.shape in {(items,), (items, items)}  # type: ignore[attr-defined] # array
        assert value.dtype.kind in "if"  # type: ignore[attr-defined] # array
        yield value
    else:
        assert kind in ATOMS, f"{kind} crossed"
        yield value


def of_statistic(statistic: Statistic, items: int) -> Iterator[object]:
    """Walk through a statistic, whichever mechanism's: it holds whole numbers, and what follows from them."""
    names = {part.name for part in dataclasses.fields(statistic)}
    beside = set(getattr(statistic, "__dict__", {})) - names
    assert beside <= {"ones"}, "something was put beside the fields"
    for name in names:
        value = getattr(statistic, name)
        if name in statistic.counts:
            assert type(value) is np.ndarray
            assert value.dtype == np.int64
            assert value.size <= max(items**2, 2 * items)
            yield value
        else:
            assert type(value) is int
            yield value


def of_settings(mechanism: Mechanism) -> Iterator[object]:
    """Walk through a mechanism, whichever it is: it holds numbers and words, its settings."""
    for name in type(mechanism).model_fields:
        value = getattr(mechanism, name)
        assert type(value) in {int, float, bool, str, type(None)}, f"{name} of {type(mechanism)} crossed"
        yield value


def is_public(kind: type, name: str, part: object, items: int) -> bool:
    """Whether a field holds what only such a field may hold; fail where it holds anything else."""
    if name == "pool" and part is not None:
        check_pool(part, items)
        return True
    if name == "centres" and part is not None:
        assert isinstance(part, np.ndarray)
        assert (part.ndim, part.dtype) == (1, np.int32)
        assert part.size <= items
        return True
    if (kind, name) in {(Posterior, "apart"), (Query, "arrays")}:
        arrays = part.items() if isinstance(part, dict) else [("", None)]
        return type(part) is bool or all(type(key) is str and isinstance(array, np.ndarray) for key, array in arrays)
    if (kind, name) == (Centred, "inside"):
        check_inside(part, items)
        return True
    if kind is Mixture and name != "likelihood":
        assert isinstance(part, np.ndarray)
        assert (part.ndim, part.dtype.kind) == (1, "f")
        assert part.size < items
        return True
    return False


def check_inside(statistic: object, items: int) -> None:
    """Fail where the counts of a pool are anything but whole numbers, one an item."""
    assert type(statistic) is ScoreStatistic
    for counts in (statistic.sensed, statistic.scores):
        assert counts.dtype.kind == "i"
        assert counts.shape <= (items,)
    numbers = {part.name for part in dataclasses.fields(statistic)} - set(statistic.counts)
    assert all(type(getattr(statistic, name)) is int for name in numbers)


def check_pool(pool: object, items: int) -> None:
    """Fail where a query's pool is no ascending list of items."""
    assert isinstance(pool, np.ndarray)
    assert (pool.ndim, pool.dtype) == (1, np.int32)
    assert pool.tolist() == sorted(set(pool.tolist()) & set(range(items)))


def secrets(seed: int) -> list[bytes]:
    """The run's seed and the devices' secret in every form that bytes could show."""
    master = derive(seed, "devices")
    return [
        *(part[::step] for part in (master, master[:8], master[8:]) for step in (1, -1)),
        master.hex().encode(),
        seed.to_bytes(8, "little"),
        seed.to_bytes(8, "big"),
        str(seed).encode(),
        f"{seed:x}".encode(),
    ]


def shows_a_secret(held: object, seed: int) -> bool:
    """Whether a pickle of ``held`` holds the seed or the secret."""
    stream: bytes = cloudpickle.dumps(held)  # type: ignore[no-untyped-call] # Ray gives it no types
    return any(secret in stream for secret in secrets(seed))


class Wire:
    """All that crossed in a run: what devices were handed and gave back, and what the server was handed."""

    def __init__(self) -> None:
        self.crossed: list[Any] = []


def tap(monkeypatch: pytest.MonkeyPatch) -> Wire:
    """Tap both sides of every run in this process, which goes message by message as on Ray."""
    wire = Wire()

    class Tapped(Cohort):
        def answer(self, query: Query, first: int, stop: int) -> Release:
            release = super().answer(query, first, stop)
            wire.crossed += [query, first, stop, release]
            return release

    def tapped(query: Query, release: Release) -> Statistic:
        statistic = aggregate(query, release)
        wire.crossed += [query, release, statistic]
        return statistic

    monkeypatch.setattr("scenarios.families.main.run.Cohort", Tapped)
    monkeypatch.setattr(together, "aggregate", tapped)
    monkeypatch.setattr("coordinator.server.fleet.cohorts.SMALLEST_BLOCK", 64)
    return wire


def policies_of(half: type[Mechanism]) -> tuple[str, ...]:
    policies: tuple[str, ...] = half.policies_with(half.settings())
    return policies


def cases_of(name: str) -> dict[str, dict[str, Any]]:
    """A mechanism under each of its policies, and with each choice of its settings under the first of them."""
    half = registered_mechanisms()[name]
    told: list[Choice] = [*choices(half), *({"policy": policy} for policy in policies_of(half)[1:])]
    return {" ".join([name, *map(str, one.values())]): {"design": name, **one} for one in told}


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
