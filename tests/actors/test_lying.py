"""Devices that lie: who does, that the others do not notice, and what they answer to a mechanism of one's own."""

from typing import Any

import mechanisms
import numpy as np
import pytest
from evidence import chi_square_fits, rate_fits

from actors.device import Cohort
from actors.lies import ANSWERS, RATINGS, Collusion, liars_among, lie_about
from actors.lying import LyingCohort
from actors.ratings import BlockRatings
from coordinator.protocol.coins import derive
from coordinator.protocol.errors import InputError
from coordinator.protocol.mechanisms import by_query
from coordinator.protocol.messages import Query
from scenarios.config.resolve import resolve
from scenarios.config.scenario import Scenario
from scenarios.data.populations import populate

ITEMS, DEVICES = 24, 600
DESIGNS = (
    *("sign", "maxsense", "multi-maxsense", "item-query", "set", "subset", "oue", "olh", "grr", "hadamard", "pairs"),
    *("pairwise", "full-reveal", "anchor"),
)


def asked_of(design: Any, **given: Any) -> tuple[Query, BlockRatings]:
    scenario = resolve(Scenario(design=design, items=ITEMS, rated=8, users=DEVICES, **given)).scenario
    spec = resolve(scenario)
    _ = spec.custom  # admits it
    ratings = populate(scenario).ratings
    assert isinstance(ratings, BlockRatings)
    return spec.design.query(round_number=0, public_seed=derive(0, "public"), epsilon=scenario.epsilon), ratings


def plot_of(share: float = 0.3, makes_up: str = ANSWERS, **more: Any) -> Collusion:
    wishes = np.zeros(ITEMS, np.int32)
    wishes[[3, 5, 11]] = 1
    truth = np.where(np.arange(ITEMS) < 12, -1, 1).astype(np.int32)
    return Collusion(share=share, wishes=wishes, truth=truth, makes_up=makes_up, rated=8, **more)


def cohort_of(plot: Collusion | None, ratings: BlockRatings, first: int = 0, stop: int = DEVICES) -> Cohort:
    if plot is None:
        return Cohort(ratings, derive(0, "devices"), first, stop, None)
    return LyingCohort(ratings, derive(0, "devices"), first, stop, None, collusion=plot)


def lies_in(query: Query, plot: Collusion, cohort: Cohort) -> np.ndarray[Any, Any]:
    chosen = np.zeros(DEVICES, bool)
    chosen[liars_among(cohort._coins(query, 0, DEVICES), plot.share)] = True
    return chosen


@pytest.mark.few(3)
@pytest.mark.parametrize("makes_up", [ANSWERS, RATINGS])
@pytest.mark.parametrize("design", DESIGNS)
def test_honest_devices_answer_the_same_bits_and_liars_others_on_every_layout(design: str, makes_up: str) -> None:
    query, ratings = asked_of(design)
    plot = plot_of(makes_up=makes_up)
    honest, lying = cohort_of(None, ratings).answer(query, 0, DEVICES), cohort_of(plot, ratings)
    release = lying.answer(query, 0, DEVICES)
    chosen, same = lies_in(query, plot, lying), (honest.unpacked() == release.unpacked()).all(axis=1)
    assert same[~chosen].all()
    assert not same[chosen].all()
    parts = [cohort_of(plot, ratings, first, first + 60).answer(query, first, first + 60) for first in (0, 60, 540)]
    for part in parts:
        assert (part.unpacked() == release.unpacked()[part.first : part.first + 60]).all()
        assert (part.answered_mask() == release.answered_mask()[part.first : part.first + 60]).all()
    assert lying.answer(query, 0, DEVICES) == release


def test_every_private_mechanism_has_a_lie_of_its_own() -> None:
    without = {name for name in by_query() if lie_about(name) is None}
    # of the last its liars only make up their ratings; see `actors.lying`
    assert without == {"full-reveal", "curator-items", "curator-pairs", "totals", "pair-totals", "rappor"}


@pytest.mark.statistical
def test_as_many_lie_as_said_and_those_of_a_smaller_share_are_among_those_of_a_larger_one() -> None:
    """False alarm 1e-6; the twin: a share larger by a tenth is told apart."""
    query, ratings = asked_of("sign")
    many = 200_000
    coins = cohort_of(None, ratings)._coins(query, 0, many)
    few, more = (set(liars_among(coins, share).tolist()) for share in (0.05, 0.3))
    assert few < more
    assert rate_fits(len(few), many, 0.05)
    assert not rate_fits(len(few), many, 0.055)


def test_a_plot_that_fits_nothing_is_refused() -> None:
    wishes = plot_of().wishes
    with pytest.raises(InputError, match=r"share of liars is 1\.5"):
        Collusion(share=1.5, wishes=wishes, truth=wishes)
    with pytest.raises(InputError, match="choose answers or ratings"):
        plot_of(makes_up="nothing")


def test_liars_who_answer_one_of_many_outputs_promote_one_of_the_wished_items_each() -> None:
    """Randomized response of one's own, output i for liked item i. False alarm 1e-6; the twin has an item too often."""
    query, ratings = asked_of(mechanisms.GRR())
    bits, wished = cohort_of(plot_of(1.0), ratings).answer(query, 0, DEVICES).unpacked(), [3, 5, 11]
    told = np.bincount(bits @ (1 << np.arange(bits.shape[1])[::-1]), minlength=2 * ITEMS + 1)
    assert told[wished].sum() == DEVICES
    assert chi_square_fits(told[wished], np.ones(3))
    assert not chi_square_fits(told[wished], np.array([1, 1, 1.9]))
