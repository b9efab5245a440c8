"""`blindrec audit` on blindrec's own mechanisms: what it measures, its table and JSON, and what it refuses."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from runs import Command, refused
from scipy.stats import binom

from actors.coins import Coins
from actors.device import Cohort
from actors.ratings import Ratings
from coordinator.protocol.arrays import Words
from scenarios.audit import stated
from scenarios.audit.audits import audit, every_name
from scenarios.audit.bounds import at_least, best_event, parts_of
from scenarios.conformance.finding import subjects
from scenarios.conformance.subject import SECRET, TINY, cohort, stored

KEYS = {"design", "guarantee", "claimed", "exact", "measured", "confidence", "held", "failures", "attacks"}


@pytest.mark.statistical
def test_one_bit_is_measured_near_its_claim(blindrec: Command, tmp_path: Path) -> None:
    """False alarm: 1e-3."""
    ended = blindrec(
        "audit", "--design", "pairwise", "--epsilon", "1", "--releases", "40000", "--json", tmp_path / "one.json"
    )
    assert (ended.code, ended.err) == (0, "")
    assert "nothing contradicts the claim" in ended.out
    found = json.loads((tmp_path / "one.json").read_text(encoding="utf-8"))
    assert set(found) == KEYS | {"provenance"}
    assert found["claimed"] == found["exact"] == 1
    assert 0.85 < found["measured"] <= 1
    attacks = {one["name"]: one for one in found["attacks"]}
    assert attacks["attribute"]["claimed"] == attacks["rounds"]["claimed"] == 4
    assert 1 < attacks["rounds"]["measured"] <= 4
    assert attacks["worst"]["right"] == pytest.approx(math.e / (1 + math.e), abs=0.02)


@pytest.mark.statistical
def test_what_is_not_private_says_so_and_is_told_apart() -> None:
    found = audit("item-query", releases=5000)
    assert (found.claimed, found.exact, found.held) == (None, math.inf, True)
    assert found.measured > 4
    assert found.as_json()["exact"] == "inf"


@pytest.mark.statistical
@pytest.mark.parametrize(("name", "least"), [("sslp", 0.5), ("laplace", 0.5), ("pmc", 4)])
def test_two_tiers_are_attacked_alike(name: str, least: float) -> None:
    """False alarm: 1e-3 each."""
    found = audit(name, releases=8000)
    assert found.held
    assert found.measured > least
    assert (found.claimed is None) == (name == "pmc")
    if found.claimed is not None:
        assert found.measured <= 1
        assert {one.claimed for one in found.attacks} == ({1.0} if name == "sslp" else {1.0, 8.0})


def test_a_device_that_flips_with_the_same_coin_in_all_rounds_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The coins of blindrec's own devices are then keyed by the device alone."""
    honest = Coins.release

    def same(self: Coins, question: int) -> Words:
        return honest(self._replace(query_id=np.zeros(2, np.uint64)), question)

    assert audit("pairwise", releases=20_000).held
    monkeypatch.setattr(Coins, "release", same)
    found = audit("pairwise", releases=20_000)
    assert any("rounds" in line for line in found.failures), found


def test_a_bound_holds_as_often_as_it_says_and_is_near_the_truth() -> None:
    """Of 300 honest games at epsilon 1 at most 10 are measured above it, where each may with 1 %; see `at_least`.

    False alarm below 1e-3, by the binomial law; the twin's bounds, which may be wrong in half of the games, are told.
    """
    coins, above, told = np.random.default_rng(0), np.zeros(2, int), []
    for _ in range(300):
        secret = coins.random(4000) < 0.5
        score = (secret ^ (coins.random(4000) < 1 / (1 + math.e))).astype(float)
        found, twin = (best_event({"bit": score}, secret, parts_of(4000, coins), doubt).nats for doubt in (0.01, 0.5))
        above += np.array([found, twin]) > 1
        told.append(found)
    assert binom.sf(10, 300, 0.01) < 1e-3
    assert above[0] <= 10 < above[1]
    assert 0.7 < np.mean(told) < 0.9
    assert at_least(np.array([0]), np.array([5]), 100, 0.01)[0] == -math.inf


def test_inputs_are_searched_for_among_devices_whose_noise_measures_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bytes] = []

    def noted(ratings: Ratings, first: int, stop: int, *, secret: bytes = SECRET) -> Cohort:
        asked.append(secret)
        return cohort(ratings, first, stop, secret=secret)

    monkeypatch.setattr(stated, "cohort", noted)
    attacks = audit("grr", releases=1000).attacks
    assert asked[0] != SECRET  # the search
    assert asked[1:] == [SECRET] * len(attacks)
    query = subjects("grr", {})[0].query(TINY, Fraction(1))
    ratings, asking = stored([()], [0] * 1000, TINY.items), stated.Asking()
    one, other = (asking.answers([query], ratings, secret)[0].bits for secret in (SECRET, asked[0]))
    assert 0 < (one == other).all(axis=1).mean() < 0.9


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--design", "nonsense"], ["design is 'nonsense'", "maxsense"]),
        (["--design", "grr", "--epsilon", "inf"], ["epsilon is inf", "finite"]),
        (["--design", "grr", "--releases", "5"], ["releases is 5"]),
        (["--design", "grr", "--rated", "9"], ["rated is 9"]),
        (["--design", "grr", "--confidence", "1"], ["confidence is 1"]),
        (["--design", "sslp", "--setting", "theta=2"], ["two tiers", "leave them out"]),
    ],
)
def test_what_cannot_be_audited_ends_with_one_line(arguments: list[str], told: list[str], blindrec: Command) -> None:
    line = refused(blindrec, "audit", *arguments)
    assert all(part in line for part in told), line


def test_all_is_every_mechanism_that_is_found() -> None:
    assert {"maxsense", "set", "pairs", "privunit", "pmd"} <= set(every_name())
    assert len(every_name()) == len(set(every_name()))
