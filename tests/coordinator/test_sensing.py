"""Sensing sets: their exact law, and the sampler tied to it, through what both sides compute."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
import worlds
from hypothesis import example, given, settings
from hypothesis import strategies as st
from reference import law_of
from scipy import stats
from statistical import binomial_bounds, chi_square_fits, normal_radius, rate_fits
from thoroughness import examples

from actors.device import Cohort
from actors.ratings import StoredRatings
from coordinator.protocol.arrays import Bools, Ints
from coordinator.protocol.errors import InputError
from coordinator.protocol.messages import Query
from coordinator.protocol.sensing import sensing_table
from coordinator.server.statistics.scores import aggregate_scores as aggregate

PROBABILITIES = st.one_of(
    st.floats(0, 1, exclude_min=True), st.floats(1e-5, 0.2), st.integers(1, 5000).map(lambda w: 1 / w)
)
ITEMS = st.sampled_from([1, 2, 30, 1000, 3706])


def inclusion(query: Query, devices: int) -> Bools:
    """Who senses what, shape (devices, items), as the private side has it: users that like one item only tell."""
    senses = np.empty((devices, query.items), np.bool_)
    for item in range(query.items):
        ratings = StoredRatings(
            rows=worlds.likes([{item: True}], query.items),
            user=np.zeros(devices, np.int32),
        )
        release = Cohort(ratings, worlds.SECRET, 0, devices, None).answer(query, 0, devices)
        senses[:, item] = release.unpacked()[:, 0]
    return senses


def sensed_counts(query: Query, devices: int) -> Ints:
    """How many of the devices sense each item, as the server regenerates it."""
    return aggregate(query, worlds.release_of(query, [0] * devices)).sensed


def unhit(sensing: float) -> Decimal:
    """The exact probability that no place hits an item."""
    return Decimal(sensing) if sensing > 0.5 else 1 - Decimal(sensing)


@settings(max_examples=examples(20))
@given(PROBABILITIES, ITEMS)
@example(1.0, 7)
@example(1 - 2.0**-53, 1000)
@example(0.5, 3706)
@example(1 / 30, 1000)
@example(1 / 100, 10_000)
@example(1e-9, 1)
@example(5e-324, 12)
def test_the_number_of_places_is_poisson_to_a_64_bit_coin(sensing: float, items: int) -> None:
    """Number m has ``exp(-mu) mu^m / m!`` within 2^-64, mu being ``-N ln(1 - p)`` and what refused halves cost."""
    law = law_of(worlds.number_table(sensing, items))
    assert sum(law.values()) == 1
    with localcontext(prec=100):
        mean = -unhit(sensing).ln() * 2**32 / (2**32 // items)
        exact, past = (-mean).exp(), 0
        for number in range(max(law) + 1):
            weight = law.get(number, 0) * 2**64
            assert weight == int(weight)
            assert abs(int(weight) - exact * 2**64) <= 1
            past, exact = past + int(weight), exact * mean / (number + 1)
        assert past == 2**64


def none_hit(sensing: float, items: int, some: int) -> Decimal:
    """The exact probability that none of ``some`` items is hit, as the table and halves of words make it."""
    share = Decimal(some * (2**32 // items)) / 2**32
    law = law_of(worlds.number_table(sensing, items))
    total = Decimal(0)
    for number, weight in law.items():
        total += int(weight * 2**64) * ((1 - share) ** number if number else Decimal(1))
    return total / 2**64


@pytest.mark.parametrize(
    ("sensing", "items"), [(1 / 30, 1000), (0.01, 10_000), (0.5, 3), (0.5, 700), (0.9, 64), (0.02, 3706)]
)
def test_items_are_sensed_independently_with_probability_p_exactly(sensing: float, items: int) -> None:
    """Any k items are all missed with probability ``(1 - p)^k``, which no other law does; twin: a p wrong by 1e-9."""
    with localcontext(prec=100):
        for some in {1, 2, 3, items // 2, items}:
            found = none_hit(sensing, items, some)
            assert abs(found - unhit(sensing) ** some) < Decimal(2) ** -54
        assert abs(none_hit(sensing, items, 1) - unhit(sensing + 1e-9)) > Decimal(2) ** -54


@pytest.mark.parametrize("sensing", [0.0, -0.1, 1.0000001, 2, math.nan, math.inf, -math.inf])
def test_impossible_probabilities_are_refused_in_one_line(sensing: float) -> None:
    with pytest.raises(InputError, match=r"\(0, 1\]") as caught:
        sensing_table(sensing, 10)
    assert str(sensing) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_table_cannot_be_changed_for_the_next_one_who_asks() -> None:
    for part in sensing_table(0.25, 10)[:2]:
        with pytest.raises(ValueError, match="read-only"):
            part[0] = 0


@pytest.mark.parametrize("sensing", [1.0, 0.5, 0.03, 1e-5])
@pytest.mark.parametrize("items", [1, 2, 255, 256, 700])
def test_both_sides_regenerate_the_oracles_sets(items: int, sensing: float) -> None:
    query = worlds.maxsense_query(items=items, sensing=sensing, round_number=4)
    sets = worlds.sensing_sets(query, range(12))
    expected = np.bincount([item for one in sets for item in one], minlength=items)
    assert sensed_counts(query, 12).tolist() == expected.tolist()
    if items <= 2:
        assert inclusion(query, 12).tolist() == [[item in one for item in range(items)] for one in sets]


def test_a_half_that_is_no_items_place_senses_nothing() -> None:
    """Of 3,000,000 items multiplication with rejection refuses one half in 2,183."""
    query = worlds.maxsense_query(items=3_000_000, sensing=0.03)
    (expected,) = worlds.sensing_sets(query, range(1))
    assert np.flatnonzero(sensed_counts(query, 1)).tolist() == expected


def test_everything_is_sensed_at_one_and_nothing_at_almost_zero() -> None:
    for items in (1, 30, 255, 256, 1000):
        assert sensed_counts(worlds.maxsense_query(items=items, sensing=1.0), 500).tolist() == [500] * items
        assert not sensed_counts(worlds.maxsense_query(items=items, sensing=1e-300), 500).any()


@pytest.mark.statistical
@pytest.mark.parametrize(("items", "sensing"), [(2000, 0.002), (300, 1 / 30), (40, 0.7)])
def test_every_item_is_sensed_at_its_probability(items: int, sensing: float) -> None:
    """Counts of each item and of all, 60,000 devices; exact bounds, false alarm 1e-6 each.

    Twin: a probability wrong by 2 % is refused.
    """
    devices = 60_000
    counts = sensed_counts(worlds.maxsense_query(items=items, sensing=sensing), devices)
    low, high = binomial_bounds(devices, sensing, comparisons=items)
    assert low <= counts.min() <= counts.max() <= high
    assert rate_fits(int(counts.sum()), devices * items, sensing)
    assert not rate_fits(int(counts.sum()), devices * items, sensing * 1.02)


def pairs_fit(senses: Bools, sensing: float) -> bool:
    """Whether every pair of items is sensed together at p^2; false alarm 1e-6 in all."""
    devices, items = senses.shape
    together = senses.T.astype(float) @ senses
    pairs = items * (items - 1) // 2
    return all(
        rate_fits(int(together[one, other]), devices, sensing**2, false_alarm=1e-6 / pairs)
        for one in range(items)
        for other in range(one)
    )


@pytest.mark.statistical
def test_items_are_sensed_independently() -> None:
    """All pairs of 16 items, and the size of the set against the binomial law; false alarm 1e-6 each.

    Twins: sets in which an item copies its neighbour in one device of thirty, and a probability wrong by 0.01.
    """
    sensing, devices = 0.3, 100_000
    senses = inclusion(worlds.maxsense_query(items=16, sensing=sensing), devices)
    assert pairs_fit(senses, sensing)
    sizes = np.bincount(senses.sum(axis=1).clip(0, 11), minlength=12)
    for law, right in ((stats.binom(16, 0.3), True), (stats.binom(16, 0.31), False)):
        assert chi_square_fits(sizes, np.append(law.pmf(np.arange(11)), law.sf(10))) is right
    assert not pairs_fit(senses, sensing + 0.01)
    senses[::30, 8] = senses[::30, 7]
    assert not pairs_fit(senses, sensing)


@pytest.mark.statistical
def test_sets_of_neighbours_and_rounds_are_unrelated() -> None:
    """Correlations of sets of devices next to each other, and of one device in two rounds; false alarm 1e-6 in all."""
    devices, items, sensing = 50_000, 8, 0.4
    first = inclusion(worlds.maxsense_query(items=items, sensing=sensing), devices) - sensing
    second = inclusion(worlds.maxsense_query(items=items, sensing=sensing, round_number=1), devices) - sensing
    radius = normal_radius(sensing * (1 - sensing) / math.sqrt(devices - 1), comparisons=3 * items**2)
    for one, other in ((first[:-1], first[1:]), (first[:-2], first[2:]), (first, second)):
        assert np.abs(one.T @ other / len(one)).max() < radius
    second[::25] = first[::25]
    assert np.abs(first.T @ second / devices).max() > radius
