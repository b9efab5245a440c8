"""What may cross between rooms, and how a mechanism is held to that."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from ray import cloudpickle
from ray.actor import ActorHandle

from actors.device import Cohort
from coordinator.protocol.agreement import Agreement, PlannedRound
from coordinator.protocol.budget import PrivacyParameter
from coordinator.protocol.coins import derive
from coordinator.protocol.decoding.estimates import Estimates
from coordinator.protocol.decoding.line import Curator
from coordinator.protocol.decoding.posterior import Mixture, Posterior
from coordinator.protocol.item_models import ItemToItem
from coordinator.protocol.mechanism import Decoding, InWorld, Mechanism, MechanismKind, World, as_kind
from coordinator.protocol.mechanisms import mechanisms as registered_mechanisms
from coordinator.protocol.mechanisms.anchor import AnchorSensing
from coordinator.protocol.mechanisms.sets import CountedSet, LikedPairs
from coordinator.protocol.mechanisms.totals import LikedPairTotals
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


def policies_of(half: MechanismKind) -> tuple[str, ...]:
    policies: tuple[str, ...] = half.policies_with(half.settings())
    return policies


def cases_of(name: str) -> dict[str, dict[str, Any]]:
    """A mechanism under each of its policies, and with each choice of its settings under the first of them."""
    half = as_kind(registered_mechanisms()[name])
    told: list[Choice] = [*choices(half), *({"policy": policy} for policy in policies_of(half)[1:])]
    return {" ".join([name, *map(str, one.values())]): {"design": name, **one} for one in told}
