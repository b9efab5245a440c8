"""What may cross between rooms, and how a mechanism is held to that."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ray import cloudpickle
from ray.actor import ActorHandle
from runs import alike, here, of_file, planted_ratings, small, write_movielens
from thoroughness import THOROUGH, sample, size

from actors.device import Cohort
from coordinator.protocol.agreement import Agreement, PlannedRound
from coordinator.protocol.budget import PrivacyParameter
from coordinator.protocol.coins import as_words, derive
from coordinator.protocol.decoding.estimates import Estimates
from coordinator.protocol.decoding.line import Curator
from coordinator.protocol.decoding.posterior import Mixture, Posterior
from coordinator.protocol.item_models import ItemToItem
from coordinator.protocol.mechanism import TWO_ROUNDS, Decoding, InWorld, Mechanism, MechanismKind, World, as_kind
from coordinator.protocol.mechanisms import mechanisms as registered_mechanisms
from coordinator.protocol.mechanisms.anchor import AnchorSensing
from coordinator.protocol.mechanisms.sets import CountedSet, LikedPairs
from coordinator.protocol.mechanisms.totals import LikedPairTotals
from coordinator.protocol.messages import Model, Query, Release
from coordinator.protocol.statistics.scores import ScoreStatistic
from coordinator.protocol.statistics.statistic import Statistic
from coordinator.protocol.trust_models import CURATOR, TWO_SERVERS
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
from scenarios.studies.scrutiny import checks
from scenarios.studies.scrutiny.checks import CHECKS, Check, log_ratio
from scenarios.studies.scrutiny.mechanism_under_test import Choice, MechanismUnderTest, choices, subjects
from scenarios.studies.scrutiny.verdicts import FAILED, HELD

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


# What every mechanism must hold, as one class of tests; nothing here names a mechanism.
@cache
def subjects_found() -> dict[str, MechanismUnderTest]:
    """Every mechanism that is found, with every choice of its settings that can be listed."""
    return {subject.label: subject for name in registered_mechanisms() for subject in subjects(name)}


@cache
def cases_found() -> dict[str, dict[str, Any]]:
    """Every mechanism with every choice of its settings, and under every policy, as a scenario's flat values."""
    return {label: case for name in registered_mechanisms() for label, case in cases_of(name).items()}


OF_RUNS = {"estimates", "prediction"}
"""Checks that repeat whole runs: by default they are made of each mechanism's first settings, thoroughly of all."""
OF_CHANNELS = {"log-ratio", "run's size", "sampler"}  # Checks that no private mechanism can do without


@cache
def first_settings() -> set[str]:
    return {subjects(name)[0].label for name in registered_mechanisms()}


def examinations() -> dict[str, tuple[MechanismUnderTest, Check]]:
    """Every check of every mechanism; see `OF_RUNS`."""
    return {
        f"{label}-{check.name}": (subject, check)
        for check in CHECKS
        for label, subject in subjects_found().items()
        if THOROUGH or label in first_settings() or check.name not in OF_RUNS
    }


def policies_of(half: MechanismKind) -> tuple[str, ...]:
    policies: tuple[str, ...] = half.policies_with(half.settings())
    return policies


def cases_of(name: str) -> dict[str, dict[str, Any]]:
    """A mechanism under each of its policies, and with each choice of its settings under the first of them."""
    half = as_kind(registered_mechanisms()[name])
    told: list[Choice] = [*choices(half), *({"policy": policy} for policy in policies_of(half)[1:])]
    return {" ".join([name, *map(str, one.values())]): {"design": name, **one} for one in told}


class MechanismContract:
    """Every check of `blindrec check`, and what can only be looked at from here."""

    @pytest.mark.statistical
    def test_what_is_checked_held(
        self, examination: tuple[MechanismUnderTest, Check], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """False alarms: 1e-6 of a sampler and 1e-5 of a prediction. By default a sampler draws a fourth as often."""
        monkeypatch.setattr(checks, "SAMPLED", size(checks.SAMPLED, checks.SAMPLED // 4))
        subject, check = examination
        row = check.of(subject)
        assert row.verdict != FAILED, row.told
        if subject.public.randomizes and not subject.public.shares and check.name in OF_CHANNELS:
            assert row.verdict == HELD, row.told

    def test_an_epsilon_at_either_end_is_held_too(self, subject: MechanismUnderTest) -> None:
        if subject.public.randomizes and not subject.public.shares:
            ends = sample([Fraction(1, 10**9), Fraction(1, 200), Fraction(29), Fraction(7)], 2)
            log_ratio(replace(subject, epsilons=tuple(ends)))

    def test_nothing_crosses_in_a_run_but_what_is_on_the_list(self, case: dict[str, Any], wire: Wire) -> None:
        """A release is as long as its questions, and tells nothing about devices; its padding is 0."""
        ran = here(small(**case, seed=SEED, like="0.9,0.2;0.1,0.7", users=601), workers=2, devices_per_actor=100)
        statistic = type(ran.statistic)
        assert issubclass(statistic, Statistic)
        if ran.resolved.mechanism.trust == TWO_SERVERS:  # to whom all crosses; see `test_shares`
            assert not wire.crossed
            assert not shows_a_secret([ran.outcome, ran.resolved.policy, ran.resolved.learner], SEED)
            return
        assert {type(value) for value in wire.crossed} == {Query, int, Release, statistic}
        learner = ran.resolved.learner
        curated = isinstance(learner, SumLearner) and learner.how.curator is not None
        assert curated == (ran.resolved.mechanism.trust == CURATOR)
        held = [*wire.crossed, ran.outcome, ran.resolved.policy, learner]
        assert sum(1 for value in held for _ in leaves(value, items=40)) > 100
        assert not shows_a_secret(held, SEED)
        for release in [value for value in wire.crossed if type(value) is Release and value.count]:
            bits = release.count * release.width
            assert len(release.bits) == -(-bits // 8)
            assert int.from_bytes(release.bits, "big") & ((1 << -bits % 8) - 1) == 0
            assert (release.answered, release.refused) == (None, 0)
            assert len(release.pairs or b"") == (8 * release.count if ran.scenario.settings.rated_public else 0)

    def test_a_run_is_the_same_on_every_layout_and_with_no_other_seed(
        self, case: dict[str, Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Cohorts of one, of an odd number and of all; calls of 64 devices, and of few where many bits come back."""
        scenario = small(**case, like="0.9,0.1;0.3,0.6", class_shares="0.3,0.7", users=size(401, 131), seed=11)
        one = here(scenario)
        monkeypatch.setattr("coordinator.server.fleet.cohorts.SMALLEST_BLOCK", 64)
        monkeypatch.setattr("coordinator.server.fleet.cohorts.MOST_BITS", 800)
        for workers, devices_per_actor in sample([(1, 1), (2, 100), (3, 7), (2, None)], 2):
            assert alike(here(scenario, workers=workers, devices_per_actor=devices_per_actor), one)
        assert not alike(here(scenario.model_copy(update={"seed": 12})), one)

    def test_it_runs_on_a_file_however_it_is_cut(self, case: dict[str, Any], tmp_path: Path) -> None:
        """Users with 1 to 11 ratings; more devices than users; one item is liked by one user only, and held out."""
        rows = planted_ratings(users=60, items=12, each=11)
        rows = [(user, item, rating) for user, item, rating in rows if item <= user]
        file = write_movielens(tmp_path / "ratings.csv", [*rows, (60, 12, 5.0)])
        scenario = of_file(file, **case, users=150)
        one, other = here(scenario), here(scenario, workers=2, devices_per_actor=13)
        assert alike(one, other)
        rated = one.population.ratings.rated(as_words(bytes(16)), 0, 150).degrees
        each = 2 if scenario.policy == TWO_ROUNDS else 1  # rounds that a device answers
        assert one.statistic.devices == one.outcome.state.answers_asked == each * one.outcome.state.fresh
        assert one.statistic.missing == (int((rated < 2).sum()) if scenario.settings.rated_public else 0)
        assert one.statistic.answered + one.statistic.missing == one.statistic.devices
        assert one.outcome.model.cluster.shape == (one.population.ratings.items,)


def every_case(metafunc: pytest.Metafunc) -> None:
    """Give a contract's tests every mechanism that is found; a module of tests names this ``pytest_generate_tests``."""
    every: dict[str, Callable[[], Mapping[str, Any]]] = {
        "subject": subjects_found,
        "case": cases_found,
        "name": lambda: {name: name for name in registered_mechanisms()},
        "examination": examinations,
    }
    for name, found_cases in every.items():  # in this order: two processes must collect the same tests
        if name in metafunc.fixturenames:
            for label, case in (cases := found_cases()).items():
                # No channel is left to chance; in `make test-thorough` other settings have these checks, too
                check = case[1].name if name == "examination" else "ends" if name == "subject" else ""
                subject = case[0].label if name == "examination" else label
                if check in {"sampler", "ends", "layouts", "merging"} and subject not in first_settings():
                    cases = {**cases, label: pytest.param(case, marks=pytest.mark.thorough)}
                elif check in OF_CHANNELS:
                    cases = {**cases, label: pytest.param(case, marks=pytest.mark.whole)}
            metafunc.parametrize(name, list(cases.values()), ids=list(cases))
