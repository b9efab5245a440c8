"""Devices that answer about one standing set in several periods: their mean keeps the chance of who was asked."""

from fractions import Fraction

import numpy as np
import pytest
from evidence import variance_fits

from actors.device import Cohort
from actors.ratings import StoredRatings
from coordinator.protocol.rating_table import RowTable
from scenarios.studies.scrutiny.history_view import SetReports

DEVICES, ITEMS, LIKES, GROUPS, ANSWERS = 400_000, 40, 2, 400, 3


@pytest.mark.thorough  # it takes 1.2 million reports
@pytest.mark.statistical
def test_three_answers_of_a_standing_set_average_their_noise_alone() -> None:
    """Spec I 9: ``f (1 - f) / n + noise / 3`` over 400 groups of 1,000 devices and 40 items; chi-square, 1e-6.

    The twin, a tenth less, is refused: had other people answered each time, a third of both would be left.
    """
    coins = np.random.default_rng(0)
    first = coins.integers(0, ITEMS, DEVICES)
    second = (first + coins.integers(1, ITEMS, DEVICES)) % ITEMS
    held = np.sort(np.stack([first, second], axis=1), axis=1)
    rows = RowTable(
        starts=np.arange(DEVICES + 1) * LIKES,
        items=held.astype(np.int32).ravel(),
        values=np.ones(held.size, np.bool_),
        count=ITEMS,
    )
    ratings = StoredRatings(rows=rows, user=np.arange(DEVICES, dtype=np.int32), rated_public=False)
    devices, reports = Cohort(ratings, bytes(range(32)), 0, DEVICES, None), SetReports.of(Fraction(6), ITEMS, LIKES)
    named, other = reports.film_rates
    each, values, counts = DEVICES // GROUPS, ITEMS + LIKES, np.zeros((GROUPS, ITEMS + LIKES))
    for period in range(1, ANSWERS + 1):
        reported = reports.decoded(devices.answer(reports.query(period), 0, DEVICES))
        places = np.repeat(np.arange(GROUPS), each)[:, None] * values + reported
        counts += np.bincount(places.ravel(), minlength=counts.size).reshape(counts.shape)
    estimates = (counts[:, :ITEMS] / each / ANSWERS - other) / (named - other)
    share = LIKES / ITEMS
    sample = share * (1 - share)
    noise = (share * named * (1 - named) + (1 - share) * other * (1 - other)) / (named - other) ** 2
    strays, variance = (estimates - share) * each**0.5, sample + noise / ANSWERS
    assert variance_fits(strays, variance)
    assert not variance_fits(strays, 0.9 * variance)
    assert (sample + noise) / ANSWERS < 0.8 * variance, "else nothing would be seen of it"
