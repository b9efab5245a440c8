"""Attacks on answers over periods: their laws beside the prototype's figures, and real devices beside their laws."""

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from evidence import counts_fit, normal_radius, rate_fits
from runs import Command, present, refused

import blindrec as face
from scenarios.studies.scrutiny.attacks import rate_of_guesses
from scenarios.studies.scrutiny.history_view import (
    CHANGE,
    FILM,
    HISTORY,
    ITEMS,
    LIKES,
    LINK,
    MEMOIZED,
    ONCE,
    SPLIT,
    WHOLE,
    HistoryGame,
    HistoryView,
    SetReports,
)
from scenarios.studies.scrutiny.verdicts import Audit

SMALL: dict[str, Any] = {"periods": 5, "items": 200, "rated": 5, "releases": 600, "users": 300}


def reports(epsilon: Fraction) -> SetReports:
    return SetReports.of(epsilon, ITEMS, LIKES)


Rows = dict[tuple[str, str], dict[str, Any]]


def rows_of(audit: Audit) -> Rows:
    """Rows of an audit by practice and attack; those of sums are of a curator."""
    return {
        (row["practice"] + ("" if row["trust_model"] == "local" else ", sums"), row["attack"]): row
        for row in audit.as_json()["attacks"]
    }


@pytest.fixture(scope="module")
def small() -> Audit:
    return face.audit(**SMALL)


def test_beliefs_after_a_year_are_those_of_the_prototype() -> None:
    """Two known histories, one film, a change in May: sets at epsilon 1, all within .003."""
    month, share = reports(Fraction(1)), reports(Fraction(1, 12))
    right = {
        "once": (1 + month.distance(1)) / 2,
        "split": (1 + share.distance(12)) / 2,
        "a month": (1 + month.distance(12)) / 2,
        "a day": (1 + month.distance(365)) / 2,
    }
    assert right == pytest.approx({"once": 0.610, "split": 0.541, "a month": 0.873, "a day": 1.0}, abs=3e-3)
    assert month.belief(12) == pytest.approx(0.953, abs=1e-3)
    film = [(1 + month.film_distance(count)) / 2 for count in (1, 12, 365)]
    assert film == pytest.approx([0.506, 0.56, 0.81], abs=5e-3)
    changes = [month.distance(8), month.distance(1) * 8 / 12, share.distance(8)]
    assert changes == pytest.approx([0.644, 0.147, 0.063], abs=3e-3)
    assert all(change < math.tanh(0.5) for change in changes[1:])


def test_sums_tell_what_two_normal_laws_do() -> None:
    def laws(periods: int) -> list[HistoryGame]:
        return [*HistoryView(periods=periods, items=200, rated=5, users=10).sums_games()]

    history, change, monthly, _ = (game.facts() for game in laws(12))
    assert history["right_exact"] == pytest.approx(0.547, abs=1e-3)
    assert change["advantage"] == pytest.approx(0.077, abs=1e-3)
    assert monthly["right_exact"] == pytest.approx(0.659, abs=1e-3)
    history, _, daily, _ = (game.facts() for game in laws(365))
    assert daily["right_exact"] == pytest.approx(0.988, abs=1e-3)
    assert history["epsilon_horizon"] == 1


@pytest.mark.statistical
def test_devices_are_found_out_as_often_as_the_law_says(small: Audit) -> None:
    """Of 600 people each, binomial, false alarm 1e-6 of all rows; guesses of another practice are out of it."""
    rows = {key: row for key, row in rows_of(small).items() if row["right"] is not None}
    assert {attack for _, attack in rows_of(small)} == {HISTORY, FILM, CHANGE, LINK}
    plays, right, exact = ([row[name] for row in rows.values()] for name in ("plays", "right", "right_exact"))
    assert counts_fit(np.rint(np.multiply(right, plays)), plays, exact), rows
    naive, split = rows[WHOLE, HISTORY], rows[SPLIT, HISTORY]
    assert not rate_fits(round(naive["right"] * naive["plays"]), naive["plays"], split["right_exact"])
    assert small.held
    assert [rows[practice, CHANGE]["epsilon_horizon"] for practice in (ONCE, SPLIT, WHOLE)] == [1, 1, 5]


def test_a_kept_answer_shows_that_a_person_changed_and_keeps_no_epsilon() -> None:
    """Spec I 11: in at least .99 of the people of a catalogue of films; one of ten thousand values links a third."""
    view, coins = HistoryView(periods=2, items=ITEMS, rated=LIKES, users=2000), np.random.default_rng(0)
    games = [game for game in view.games(500, coins) if game.practice.startswith(MEMOIZED)]
    change, several, single = (view.observe(game, 500, coins) for game in games)
    assert change.facts["advantage"] >= 0.99
    assert all(seen.facts["epsilon_horizon"] is seen.facts["right_at_most"] is None for seen in (change, several))
    assert present(several.guess).all()
    alone = math.exp(-2000 / (ITEMS + LIKES))  # of 2,000 who lose it in pairs: deviation .011, false alarm 1e-6
    assert present(single.guess).mean() == pytest.approx(alone, abs=normal_radius(0.011))


def test_guesses_that_epsilon_does_not_allow_break_a_claim(small: Audit) -> None:
    """Of 600 people .731 may be right, and .74 by chance."""
    first, *_ = small.attacks
    for right, held in ((0.85, False), (0.74, True)):
        guesses = rate_of_guesses(np.arange(600) < right * 600, 1e-3 / 16, name=first.name, epsilon=first.epsilon)
        audit = replace(small, attacks=(guesses,))
        assert audit.held is held
        assert held or audit.failures[0].startswith("attack history, once, measured at least 1.")


def test_the_command_prints_a_row_each_attack_and_no_epsilon_of_memoized_answers(blindrec: Command) -> None:
    flags = [part for name, value in SMALL.items() for part in (f"--{name}", value)]
    printed = blindrec("audit", *flags).out
    assert max(map(len, printed.splitlines())) <= 100
    assert all(" none " in line for line in printed.splitlines() if line.strip().startswith(MEMOIZED))
    result = blindrec("audit", *flags, "--json", "-").result
    assert {row["epsilon_horizon"] for row in result["attacks"] if row["practice"].startswith(MEMOIZED)} == {None}
    assert (result["held"], result["unit"], result["periods"]) == (True, "person-history", 5)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("--periods 1", "periods is 1"),
        ("--periods 12 --design set", "design is set, which is not about --periods"),
        ("--periods 12 --trust shuffled", "trust is shuffled, which is not about --periods"),
        ("--periods 12 --epsilon inf", "epsilon"),
        ("--periods 12 --items 30", "items is 30"),
    ],
)
def test_bad_input_is_refused_in_a_line(blindrec: Command, flags: str, words: str) -> None:
    assert words in refused(blindrec, "audit", *flags.split())
