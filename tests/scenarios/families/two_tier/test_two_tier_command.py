"""`blindrec two-tier` as a user meets it: a result, the same on every layout, and one line where something is wrong."""

from pathlib import Path

import numpy as np
import pytest
from runs import Command, refused

PLANTED = ["two-tier", "--backend", "inprocess", "--workers", "1", "--planted", "120,60,4000"]


def test_all_users_may_be_public(blindrec: Command) -> None:
    flags = ["--public", "120", "--private", "0", "--mechanism", "none", "--rank", "3", "--regularisation", "2"]
    result = blindrec(*PLANTED, *flags, "--iterations", "3", "--json", "-").result
    assert (result["public"], result["private"], result["unseen_items"]) == (120, 0, 0)
    assert 100 < result["evaluated"] <= 120  # public people rank items on their devices, too


BAD: dict[str, list[str]] = {
    "--public 0": ["public", "0", "whole number"],
    "--public 200%": ["public", "'200%'", "less than 100%"],
    "--public 200": ["public is 200", "120 users"],
    "--public 120 --private 1": ["private is 1", "120 users"],
    "--public 2 --rank 3": ["rank is 3", "public users, 2"],
    "--public 1 --private 2": ["public is 1", "--rank"],
    "--mechanism pmx": ["mechanism is 'pmx'", "pmd"],
    "--mechanism pmc --epsilon 1": ["epsilon is 1", "pmc has none"],
    "--mechanism laplace --epsilon 0": ["epsilon", "0", "above 0"],
    "--mechanism pmd --scale 3": ["K = 1", "at least 2"],
    "--mechanism pmd --scale 1,2,3": ["not on the declared scale", "--scale"],
    "--scale 3,2": ["scale", "ascending"],
    "--round-ratings": ["round_ratings", "--scale"],
    "--holdout 2000": ["fewer than the 2000"],
    "--holdout 0": ["holdout is 0"],
    "--weight -1": ["weight is -1"],
    "--norm trace": ["norm is 'trace'", "weighted"],
    "--public-by age": ["public_by is 'age'", "most"],
    "--planted 3,4": ["planted", "users,items,ratings"],
    "--ratings x.csv": ["give one of them"],
    "--columns a,b,c": ["columns", "ratings files"],
    "--attack poison-features": ["nobody lies; give --malicious too"],
    "--malicious 0.1 --mechanism none": ["no device answers with none"],
    "--own-h --mechanism laplace": ["own_h is True, which is about pmc and pmc-rr"],
    "--clip": ["one size without own_h"],
    "--malicious 0.1 --attack promote:3": ["attack is 'promote:3'", "poison-features"],
}


@pytest.mark.parametrize("flags", BAD)
def test_flags_that_are_wrong(flags: str, blindrec: Command) -> None:
    line = refused(blindrec, *PLANTED, *flags.split())
    for word in BAD[flags]:
        assert word in line, line


def written(path: Path, lines: list[str]) -> Path:
    path.write_text("user,item,rating\n" + "\n".join(lines) + "\n")
    return path


def test_users_with_fewer_ratings_than_are_held_out_and_odd_ratings_are_refused(
    blindrec: Command, tmp_path: Path
) -> None:
    run = ["two-tier", "--backend", "inprocess", "--holdout", "2", "--public", "2", "--private", "1", "--rank", "1"]
    lines = [f"{user},{item},{1 + (user * item) % 5}" for user in range(4) for item in range(6)]
    poor = written(tmp_path / "poor.csv", [*lines, "poor,0,3"])
    assert all(word in refused(blindrec, *run, "--ratings", poor) for word in ("'poor'", "1 ratings", "held out"))
    for odd in ("nan", "inf"):
        bad = written(tmp_path / "bad.csv", [*lines, f"9,0,{odd}", "9,1,2", "9,2,2"])
        assert odd in refused(blindrec, *run, "--ratings", bad)
    wide = written(
        tmp_path / "wide.csv", [f"{user},{item},{user + item / 50}" for user in range(4) for item in range(40)]
    )
    assert "--round-ratings" in refused(blindrec, *run, "--ratings", wide, "--mechanism", "pmd")
    off = ["--ratings", wide, "--mechanism", "pmd", "--scale", "0,1,2,3"]
    assert "not on the declared scale" in refused(blindrec, *run, *off)
    rounded = blindrec(*run, *off, "--round-ratings", "--regularisation", "1", "--weight", "0.5", "--json", "-")
    assert rounded.code == 0, rounded.err


def test_items_that_no_public_user_rated_are_counted_and_get_the_overall_mean(
    blindrec: Command, tmp_path: Path
) -> None:
    coins = np.random.default_rng(0)
    lines = [f"{user},{item},{coins.integers(1, 6)}" for user in range(10) for item in range(12)]
    lines += [f"{user},{item},{coins.integers(1, 6)}" for user in range(20, 40) for item in range(6, 16)]
    file = written(tmp_path / "two.csv", lines)
    flags = ["--public", "10", "--private", "8", "--rank", "2", "--regularisation", "1", "--weight", "0.5"]
    run = ["two-tier", "--backend", "inprocess", "--ratings", file, "--holdout", "2", *flags, "--json", "-"]
    result = blindrec(*run, "--mechanism", "pmc").result
    assert result["unseen_items"] == 4
    assert int(str(result["test_ratings_of_unseen_items"])) > 0


def test_planted_ratings_are_rounded_onto_a_declared_scale(blindrec: Command) -> None:
    """They are half stars: a scale of three whole stars refused them, and named the flag that was given."""
    run = ["two-tier", "--backend", "inprocess", "--planted", "60,30,1500", "--mechanism", "pmd", "--scale", "1,3,5"]
    run += ["--public", "40", "--private", "10", "--rank", "2", "--regularisation", "1", "--weight", "0.5"]
    assert "--round-ratings" in refused(blindrec, *run)
    rounded = blindrec(*run, "--round-ratings", "--json", "-")
    assert rounded.code == 0, rounded.err
