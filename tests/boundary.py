"""What may cross the trust boundary: an allow-list of types and fields, and a search for secrets in bytes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
from ray import cloudpickle
from ray.actor import ActorHandle

from coordinator.designs import MultiMaxSense, Pairwise
from coordinator.elimination import Eliminate, ItemByItem
from coordinator.estimates import Estimates
from coordinator.hosts import Cohorts
from coordinator.layout import Layout
from coordinator.mixture import Mixture
from coordinator.open_designs import ItemQuery, Reveal
from coordinator.pair_statistics import PairStatistic
from coordinator.pool_designs import MaxSense, SignSensing
from coordinator.posterior import Posterior
from coordinator.protocol.budget import PrivacyParameter
from coordinator.protocol.coins import derive
from coordinator.protocol.messages import Model, Query, Release
from coordinator.rating_decoders import Curator
from coordinator.readings import Centred, Readings
from coordinator.remote import Limits
from coordinator.rounds import Learner, Outcome, Round
from coordinator.schedules import Fixed, OneRound, UntilLearned
from coordinator.server import Ask, Counts, ServerState
from coordinator.setting import Setting
from coordinator.statistics import ScoreStatistic

SEED = 0x1234_5678_9ABC_DEF1
"""A run's seed that no other number is likely to look like."""
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
    },
    Release: {"query_id", "first", "count", "width", "bits", "answered", "refused", "pairs"},
    Model: {"cluster", "score", "error", "clusters"},
    Ask: {"query", "first", "stop"},
    ServerState: {"devices", "asked", "counts", "merged", "estimates", "readings", "budget"},
    Counts: {"asked", "answered", "refused", "ones"},
    Readings: {"settled", "centred"},
    Centred: {"query", "inside"},
    Estimates: {"weighted", "information"},
    Posterior: {"cluster", "doubt", "expected", "mixture", "apart"},
    Mixture: {"levels", "shares", "doubts", "likelihood"},
    Round: {"ask", "statistic", "digest", "size"},
    Limits: {"budget", "most_rounds"},
    Setting: {"design", "epsilon", "public_seed", "clusters", "confidence", "answers_per_device"},
    Fixed: {"setting", "rounds"},
    Eliminate: {"setting", "share"},
    ItemByItem: {"setting"},
    SignSensing: {"items", "rated", "vectors", "centred"},
    ScoreStatistic: {"sensed", "scores", "asked", "answered", "refused", "ones", "questions"},
    PairStatistic: {"pairs", "agreed", "asked", "answered", "refused"},
    Outcome: {"state", "model", "releases_sha256", "size", "posterior", "failure"},
    OneRound: {"design", "epsilon", "public_seed"},
    UntilLearned: {"design", "rated", "answers", "public_seed"},
    MaxSense: {"items", "rated", "theta"},
    MultiMaxSense: {"items", "rated", "questions", "theta"},
    Pairwise: {"items", "agreement", "rated_public"},
    ItemQuery: {"items"},
    Reveal: {"name", "items", "most", "share"},
    Learner: {"clusters", "decoder", "curator", "design", "confidence"},
    Curator: {"epsilon", "rated", "seed"},
    Layout: {"devices", "workers", "devices_per_actor"},
    Cohorts: {"bounds", "hosts"},
}
"""What the server's side may hold, and the names of its fields; a `Curator` is a server that is trusted."""
CACHED: dict[type, set[str]] = {PairStatistic: {"ones"}}
"""What a value may keep beside its fields: what follows from them."""
ATOMS = (int, float, str, bytes, Fraction, PrivacyParameter, type(None), ActorHandle)
"""An actor's handle is an address; what lies behind it stays there."""


def leaves(value: object, items: int) -> Iterator[object]:
    """Walk through all that a value holds; fail at a type or a field that is not on the list."""
    kind = type(value)
    if kind in ALLOWED:
        held = {name: getattr(value, name) for name in ALLOWED[kind]}
        assert {part.name for part in dataclasses.fields(value)} == set(held)  # type: ignore[arg-type] # on the list
        beside = set(getattr(value, "__dict__", {})) - set(held)
        assert beside <= CACHED.get(kind, set()), "something was put beside the fields"
        for name, part in held.items():
            if is_public(kind, name, part, items):
                yield part
            else:
                yield from leaves(part, items)
    elif kind in {tuple, list}:
        for part in value:  # type: ignore[attr-defined] # tuple or list
            yield from leaves(part, items)
    elif kind is dict:
        for name, part in value.items():  # type: ignore[attr-defined] # dict
            assert type(name) is str
            assert type(part) in {float, int}
            yield part
    elif kind is np.ndarray:
        assert value.shape in {(items,), (items, items)}  # type: ignore[attr-defined] # array
        assert value.dtype.kind in "if"  # type: ignore[attr-defined] # array
        yield value
    else:
        assert kind in ATOMS, f"{kind} crossed"
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
    if (kind, name) in {(Pairwise, "rated_public"), (Posterior, "apart"), (SignSensing, "centred")}:
        assert type(part) is bool
        return True
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
    assert all(type(getattr(statistic, name)) is int for name in ALLOWED[ScoreStatistic] - {"sensed", "scores"})


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
