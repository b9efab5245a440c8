"""Every mechanism that is found keeps what all must keep; a new one is checked without being told."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from evidence import THOROUGH, sample, size
from messages import SEED, Wire, cases_of, leaves, shows_a_secret
from runs import alike, here, of_file, planted_ratings, small, write_movielens

from coordinator.protocol.coins import as_words
from coordinator.protocol.mechanism import TWO_ROUNDS
from coordinator.protocol.mechanisms import by_query, mechanisms
from coordinator.protocol.mechanisms import mechanisms as registered_mechanisms
from coordinator.protocol.messages import Query, Release
from coordinator.protocol.statistics.statistic import Statistic
from coordinator.protocol.trust_models import CURATOR, TWO_SERVERS
from coordinator.server.rounds.learner import SumLearner
from scenarios.studies.scrutiny import checks
from scenarios.studies.scrutiny.checks import CHECKS, Check, log_ratio
from scenarios.studies.scrutiny.mechanism_under_test import PLAIN, TINY, MechanismUnderTest, subjects
from scenarios.studies.scrutiny.verdicts import FAILED, HELD


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


class TestEveryMechanism:
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
        scenario = small(**case, like="0.9,0.1;0.3,0.6", class_shares="0.3,0.7", users=size(401, 67), seed=11)
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
    """Give a contract's tests every mechanism that is found; see ``pytest_generate_tests``."""
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


pytest_generate_tests = every_case


def test_each_mechanism_is_asked() -> None:
    asked = {subject.query(TINY, PLAIN).design for subject in subjects_found().values()}
    assert asked == set(by_query()) == {name for kind in mechanisms().values() for name in kind().asks}
