"""The attack on small planted data: it finds what a release tells, and nothing where there is nothing."""

import dataclasses
import functools
import io
import json
import math
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from evidence import normal_radius, rate_fits
from rich.console import Console

from coordinator.protocol.errors import InputError
from coordinator.protocol.features import ItemFeatures, residuals
from coordinator.protocol.rating_table import Rows
from scenarios.families.two_tier import attack as guessing
from scenarios.families.two_tier.attack import Asked, attack, clustered_error, deal
from scenarios.show.picture import Picture
from scenarios.show.records import draw
from scenarios.show.sweep_figures import attack_panels
from scenarios.show.tables import attack_table, show_attack

ITEMS, RANK, EACH = 60, 2, 16
PUBLIC, PRIVATE = 40, 200


def planted(users: int, seed: int) -> Rows:
    """Whole stars, 1 to 5, from two directions of taste and noise; every user rated sixteen items."""
    vectors = np.random.default_rng(5).normal(size=(ITEMS, RANK))
    world = np.random.default_rng([6, seed])
    values = 3 + 0.8 * world.normal(size=(users, RANK)) @ vectors.T + 0.7 * world.normal(size=(users, ITEMS))
    items = np.sort(np.argsort(world.random((users, ITEMS)), axis=1)[:, :EACH], axis=1)
    told = np.clip(np.round(np.take_along_axis(values, items, axis=1)), 1, 5)
    starts = np.arange(users + 1, dtype=np.int64) * EACH
    return Rows(starts=starts, items=items.ravel().astype(np.int32), values=told.ravel(), count=ITEMS)


@pytest.fixture(scope="module", autouse=True)
def few_trees() -> Iterator[None]:
    """So many are enough for this little world."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(guessing.TREES, "max_iter", 20)
        yield


@functools.cache
def world() -> tuple[ItemFeatures, Rows, Rows]:
    public, private = planted(PUBLIC, 0), planted(PRIVATE, 1)
    vectors = np.random.default_rng(5).normal(size=(ITEMS, RANK)) * 4
    bare = ItemFeatures(
        mean=np.full(ITEMS, 3.0) + np.linspace(-0.05, 0.05, ITEMS),
        vectors=vectors,
        kappa=2.0,
        lowest=1.0,
        highest=5.0,
        scale=(1.0, 2.0, 3.0, 4.0, 5.0),
        common_h=1.0,
    )
    rows = residuals(bare, public)
    return dataclasses.replace(bare, common_h=float(np.abs(rows).mean())), public, private


@functools.cache
def guessed() -> dict[tuple[str, int], dict[str, Any]]:
    """All that the tests look at: three mechanisms with more and more known ratings, three with none."""
    dial: list[Asked] = [("none", None), ("pmc", None), ("pmd", None)]
    alone: list[Asked] = [("pmc-rr", Fraction(1, 100)), ("laplace", Fraction(5)), ("exact", None)]
    rows = attack(*world(), 0, attacked=dial, known_counts=(0, 1, 8), played=200)
    rows += attack(*world(), 0, attacked=alone, known_counts=(0,), played=200)
    return {(one["mechanism"], one["known"]): one for one in rows}


@pytest.mark.thorough
def test_one_known_rating_tells_pmcs_side_and_with_it_every_sign() -> None:
    alone, told = guessed()["pmc", 0], guessed()["pmc", 1]
    assert told["flip_found"] == 1.0
    assert told["like_right"] > 0.95
    assert told["rmse"] < 0.8 * guessed()["none", 1]["rmse"]
    assert alone["flip_found"] < 0.7
    assert alone["like_right"] < 0.65


@pytest.mark.thorough
def test_pmd_tells_less_and_more_of_it_with_more_known_ratings() -> None:
    found = [guessed()["pmd", known] for known in (0, 1, 8)]
    likes = [one["like_right"] for one in found]
    assert likes == sorted(likes)
    assert guessed()["none", 8]["like_right"] + 0.05 < likes[2] < guessed()["pmc", 8]["like_right"]
    assert found[2]["flip_found"] > 0.85


@pytest.mark.statistical
def test_nothing_is_found_where_nothing_is_told() -> None:
    """No release, and bits that are all but fair: 200 sides, likes and ratings at k = 0; false alarm 1e-6 each.

    Twins: PMC's sides and likes at k = 1, and its ratings.
    """
    noise, silent, told = guessed()["pmc-rr", 0], guessed()["none", 0], guessed()["pmc", 1]
    radius = normal_radius(math.hypot(noise["like_error"], silent["like_error"]))
    for one, nothing in ((noise, True), (told, False)):
        assert rate_fits(round(one["flip_found"] * PRIVATE), PRIVATE, 0.5) == nothing
        assert (abs(one["like_right"] - silent["like_right"]) < radius) == nothing
    chance = normal_radius(0.5 / math.sqrt(silent["targets"]))
    assert abs(silent["rated_auc"] - 0.5) < chance < abs(told["rated_auc"] - 0.5)
    assert silent["flip_found"] is None


def test_what_is_not_private_is_guessed_exactly() -> None:
    exact = guessed()["exact", 0]
    assert exact["exact_right"] > 0.98
    assert exact["rated_auc"] > 0.98
    assert exact["flip_found"] is None
    laplace = guessed()["laplace", 0]
    assert guessed()["none", 0]["like_right"] + 0.1 < laplace["like_right"] < exact["like_right"]


def test_known_ratings_alone_help_a_little() -> None:
    errors = [guessed()["none", known]["rmse"] for known in (0, 1, 8)]
    assert errors == sorted(errors, reverse=True)


def test_the_same_seed_gives_the_same_guesses() -> None:
    again = attack(*world(), 0, attacked=[("pmc", None)], known_counts=(1,), played=200)
    assert again == [guessed()["pmc", 1]]
    other = attack(*world(), 1, attacked=[("pmc", None)], known_counts=(1,), played=200)
    assert other != again


def test_a_mechanism_without_a_vector_is_refused_and_so_is_nobody() -> None:
    features, public, private = world()
    with pytest.raises(InputError, match="private ones 0; an attack needs both"):
        attack(features, public, private.block(0, 0), 0)
    with pytest.raises(InputError, match="privunit releases no vector"):
        attack(*world(), 0, attacked=[("privunit", Fraction(1))])


def test_targets_and_known_ratings_are_apart_and_decoys_were_not_rated() -> None:
    rows = planted(30, 3)
    rows = rows.where(np.random.default_rng(0).random(rows.items.size) < 0.4)
    popularity = np.bincount(rows.items, minlength=ITEMS)
    dealt = deal(rows, popularity, 0, "test", targets=4)
    for user in range(30):
        own, mixed = rows.block(user, user + 1), dealt.rows.block(user, user + 1)
        assert sorted(zip(mixed.items, mixed.values, strict=True)) == list(zip(own.items, own.values, strict=True))
        targets = set(dealt.items[dealt.owner == user].tolist())
        assert len(targets) == min(4, -(-own.items.size // 2))
        for known in (0, 1, 3, 50):
            told = dealt.first(known).block(user, user + 1).items
            assert told.size == min(known, own.items.size - len(targets))
            assert not targets & set(told.tolist())
        decoys = dealt.decoys[dealt.owner == user]
        assert not set(decoys.tolist()) & set(own.items.tolist())
    near = dealt.decoys >= 0
    gaps = popularity[dealt.decoys[near]] - popularity[dealt.items[near]]
    assert near.mean() > 0.95
    assert np.abs(gaps).max() <= 3


def test_errors_are_clustered_by_user() -> None:
    right = np.repeat(np.array([True, False, True, True]), 25)
    owner = np.repeat(np.arange(4), 25)
    assert clustered_error(right, owner) == pytest.approx(np.sqrt(3 * 0.25**2 + 0.75**2) / 4)
    assert clustered_error(right, np.arange(100)) == pytest.approx(np.sqrt(0.75 * 0.25 / 100))


def test_table_and_figure_hold_every_row(tmp_path: Path) -> None:
    rows = list(guessed().values())
    assert json.loads(json.dumps(rows)) == rows
    kept = attack_table(rows)
    draw(tmp_path / "attack.png", Picture("attack", "", "", attack_panels(kept)))
    assert len(kept) == len(rows)
    assert "pmc-rr, epsilon 0.01" in set(kept["label"])
    assert (tmp_path / "attack.png").stat().st_size > 10_000
    console = Console(file=io.StringIO(), width=200)
    show_attack(console, rows)
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue().count("\n") > len(rows)
