"""Public people's likes, weighed with what private devices tell: by hand, in runs, and as the comparison does."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from runs import Command, planted_ratings, refused, write_movielens

from coordinator.server.decoding.estimates import PublicCounts
from scenarios.config.scenario import Scenario
from scenarios.data.populations import populate
from scenarios.studies.compare.comparison_settings import Comparison
from scenarios.studies.compare.row import RowRequest
from scenarios.studies.compare.rows import registered_rows
from scenarios.studies.compare.rows.local import SET
from scenarios.studies.compare.rows.public_users import split_people
from scenarios.studies.compare.worlds import world_of

FLAGS: tuple[str, ...] = ("run", "--design", "set", "--like-from", "4", "--backend", "inprocess", "--workers", "1")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write_movielens(tmp_path / "ratings.csv", planted_ratings(users=300, items=40, each=15))


def test_weights_are_inverse_variances_by_hand() -> None:
    """Ten people, of whom six like item 0 and none item 1; sets of two hold 16 of their 24 likes."""
    public = PublicCounts(counts=np.array([6, 0]), sizes=np.array([4, 4, 4, 4, 1, 1, 1, 1, 2, 2]))
    found, error = public.posterior(np.array([0.3, 0.1]), np.array([0.05, 0.2]), 2)
    scale = 24 / 16
    for place, (count, told, noise) in enumerate([(6, 0.3, 0.05), (0, 0.1, 0.2)]):
        weights = np.array([100 / (count + 1), 1 / (scale * noise) ** 2])
        mean = weights @ [(count + 1) / 10, scale * told] / weights.sum()
        assert (found[place], error[place]) == pytest.approx((mean, weights.sum() ** -0.5), rel=1e-12)
    alone, _ = public.posterior(np.array([0.3, 0.1]), np.full(2, 1e9), 2)
    assert alone == pytest.approx([0.7, 0.1])
    private, _ = public.posterior(np.array([-0.3, 0.1]), np.zeros(2), 2)
    assert private == pytest.approx([0, 0.15])


def test_public_people_are_asked_nothing_and_lift_advice(file: Path, blindrec: Command) -> None:
    plain = blindrec(*FLAGS, "--ratings", file, "--epsilon", "0.5", "--json", "-").result
    told = blindrec(*FLAGS, "--ratings", file, "--epsilon", "0.5", "--public", "0.2", "--json", "-").result
    assert (plain["asked"], told["asked"]) == (300, 240)
    assert told["rank_correlation"] > plain["rank_correlation"] + 0.2
    assert told["ndcg"] > plain["ndcg"]
    population = populate(Scenario(design="set", ratings=file, like_from=4, public=0.2))
    assert population.public is not None
    assert population.public.sizes.size == 60
    assert population.public.sizes.sum() == population.public.counts.sum()


def test_the_comparison_weighs_alike(file: Path) -> None:
    wanted = Comparison(ratings=file, like_from=4, likes=6)
    world, asked = world_of(wanted, 0), RowRequest(settings=wanted, epsilon=Fraction(2), users=300, public=0.2, seed=0)
    public, private = split_people(world, asked)
    liked = world.fold.liked.of(public)
    counts = PublicCounts(counts=liked.raters, sizes=liked.degrees)
    model = SET.model_of_answers(world.of(private), replace(asked, users=private.size))
    row = registered_rows()["two-tier: popularity with set"].advise(world, asked)
    assert row.popularity == pytest.approx(counts.weighed(model, 6).score, rel=1e-12)


@pytest.mark.parametrize("more", [("--design", "pairs"), ("--decoder", "posterior")])
def test_what_cannot_be_weighed_is_refused(more: tuple[str, str], file: Path, blindrec: Command) -> None:
    line = refused(blindrec, *FLAGS, *more, "--ratings", file, "--public", "0.2")
    assert "public is 0.2, which is weighed with popularity as design set tells it" in line
    assert "is about ratings files" in refused(blindrec, "run", "--design", "set", "--public", "0.2")
