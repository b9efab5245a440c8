"""Devices and cohorts release the oracle's bits, bit for bit, however the population is cut."""

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import evidence
import numpy as np
import pytest
import worlds
from evidence import World
from messages import forged
from worlds import in_world

from actors.absence import Absence
from actors.device import Cohort
from actors.ratings import Ratings
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.errors import InputError
from coordinator.protocol.mechanisms import by_query, mechanisms
from coordinator.protocol.mechanisms.maxsense import MaxSense
from coordinator.protocol.mechanisms.oracles import Frequencies
from coordinator.protocol.mechanisms.pairwise import Pairwise
from coordinator.protocol.messages import Query
from coordinator.protocol.pools import AGREEMENTS
from scenarios.studies.scrutiny.mechanism_under_test import Size, subjects

MANY = ((0.9, 0.1, 0.5), (0.0, 1.0, 0.25))

CASES: dict[str, tuple[World, float, Epsilon]] = {
    "one item": (worlds.world(items=1, rated=1), 0.4, Fraction(1)),
    "two items, one rated": (worlds.world(items=2, rated=1), 0.5, Fraction(1)),
    "two items, both rated and sensed": (worlds.world(items=2, rated=2), 2.0, None),
    "few rated": (worlds.world(items=40, rated=3, like=MANY, shares=(0.3, 0.7)), 1.0, Fraction(1, 2)),
    "half rated": (worlds.world(items=40, rated=20, like=MANY, shares=(0.5, 0.5)), 1.0, None),
    "just above half rated": (worlds.world(items=41, rated=21, like=MANY, shares=(0.0, 1.0)), 1.0, Fraction(3)),
    "most rated": (worlds.world(items=30, rated=29), 0.7, None),
    "all rated": (worlds.world(items=30, rated=30), 1.0, Fraction(1)),
    "rated and sensed are one set": (worlds.world(items=30, rated=4), 4.0, None),
    "long gaps": (worlds.world(items=1500, rated=5), 0.01, Fraction(1)),
    "many sensed": (worlds.world(items=200, rated=80, like=((0.02, 0.01),)), 60.0, None),
    "tiny epsilon": (worlds.world(items=40, rated=3), 1.0, Fraction(1, 10**6)),
    "largest epsilon": (worlds.world(items=40, rated=3), 1.0, Fraction(30)),
    "nobody likes anything": (worlds.world(items=20, rated=9, like=((0.0, 0.0),)), 3.0, None),
    "everybody likes everything": (worlds.world(items=20, rated=9, like=((1.0, 1.0),)), 3.0, Fraction(2)),
}


def released(ratings: Ratings, query: Query, first: int, stop: int, secret: bytes = worlds.SECRET) -> list[int]:
    release = Cohort(ratings, secret, first, stop, None).answer(query, first, stop)
    assert (release.query_id, release.first, release.count, release.width) == (query.id, first, stop - first, 1)
    assert (release.answered, release.refused) == (None, 0)
    return [int(bit) for bit in release.unpacked()[:, 0]]


@pytest.mark.parametrize("name", CASES)
def test_cohort_and_devices_release_the_oracles_bits(name: str) -> None:
    world, theta, epsilon = CASES[name]
    ratings, devices, sensing = worlds.block_ratings(world), range(10**6, 10**6 + 40), theta / world.rated
    for pool in (None, *worlds.pools(world.items).values()):
        query = worlds.maxsense_query(items=world.items, sensing=sensing, epsilon=epsilon, pool=pool)
        expected = worlds.expected_bits(world, query, devices)
        assert released(ratings, query, devices.start, devices.stop) == expected
        for device in (devices[0], devices[7], devices[-1]):
            alone = Cohort(ratings, world.secret, device, device + 1, epsilon).answer(query, device, device + 1)
            assert (alone.first, alone.count) == (device, 1)
            assert alone.unpacked().tolist() == [[expected[device - devices.start]]]


# What devices refuse to be asked, of every design: in one line, before anything is charged. And who stays silent.
ITEMS = 12
OPEN = tuple(name for name, half in by_query().items() if not half.randomizes)
RATINGS = worlds.block_ratings(worlds.world(items=ITEMS, rated=4))


SUBJECTS = [subject for name in mechanisms() for subject in subjects(name) if subject.run_of]
QUERIES = {
    one.design: one
    for one in (subject.query(Size(ITEMS, 4, 1000), Fraction(1)) for subject in SUBJECTS)
    if not by_query()[one.design].shares
}
"""One of every design that a mechanism which is found asks; tests/coordinator/test_shares.py asks those in shares."""
SHARED = {name: subjects(name)[0].query(Size(ITEMS, 4, 1000), Fraction(1)) for name in ("totals", "pair-totals")}


def test_a_server_cannot_have_private_rated_items_named() -> None:
    """Sixty questions at next to no epsilon would tell all that a device rated; nothing is charged for refusing."""
    ratings = forged(worlds.block_ratings(worlds.world(items=20, rated=5)), rated_public=False)
    cohort = Cohort(ratings, bytes(16), 0, 8, Fraction(1))
    for agreement in AGREEMENTS:
        design = in_world(Pairwise, items=20, agreement=agreement, rated_items="public")
        with pytest.raises(InputError, match="private here"):
            cohort.answer(design.query(round_number=0, public_seed=bytes(16), epsilon=Fraction(1, 10**6)), 0, 8)
    assert cohort.ledger.spent(0) == 0


def refused(query: Query, *, items: int = ITEMS) -> str:
    """The one line that a cohort refuses a query with; nothing is charged."""
    ratings = RATINGS if items == ITEMS else worlds.block_ratings(worlds.world(items=items, rated=1))
    cohort = Cohort(ratings, worlds.SECRET, 0, 5, None)
    with pytest.raises(InputError) as caught:
        cohort.answer(query, 0, 5)
    assert cohort.ledger.spent(0) == 0
    line = str(caught.value)
    assert "\n" not in line
    return line


@pytest.mark.parametrize("name", sorted(set(QUERIES) - set(OPEN)))
def test_an_epsilon_that_coins_cannot_express_is_refused(name: str) -> None:
    query = QUERIES[name]
    assert "30" in refused(forged(query, epsilon=Fraction(31 * query.questions)))


POOLS: dict[str, object] = {
    "empty": np.array([], np.int32),
    "twice the same": np.array([1, 1], np.int32),
    "falling": np.array([3, 1], np.int32),
    "unsorted behind": np.array([0, 5, 4, 11], np.int32),
    "below 0": np.array([-1, 2], np.int32),
    "beyond the catalogue": np.array([0, ITEMS], np.int32),
    "beyond 32 bits": np.array([1 << 32, (1 << 32) + 1]),
    "fractions": np.array([0.25, 0.75]),
    "no numbers": np.array([0.0, np.nan, 5.0]),
    "truths": np.array([True]),
}


OUTSIDE: dict[tuple[str, str], tuple[float, ...]] = {
    ("maxsense", "sensing"): (0.0, 1.5),
    ("multi-maxsense", "set_size"): (0, -3, ITEMS + 1, 2.5, math.nan, math.inf),
    ("full-reveal", "share"): (0.0, 1.5, math.nan),
    ("curator-items", "most"): (0, ITEMS + 1),
    ("curator-pairs", "most"): (1.5, math.nan),
    ("sign", "vectors"): (0, 3, 2.5, -2, 128, math.nan, math.inf),
    ("sign", "kept"): (0, 3, 1.5, -1, math.nan, math.inf),
}


@pytest.mark.parametrize(("name", "parameter"), OUTSIDE)
def test_numbers_outside_their_ranges_are_refused_by_name(name: str, parameter: str) -> None:
    query = QUERIES[name]
    for value in OUTSIDE[name, parameter]:
        line = refused(forged(query, parameters={**query.parameters, parameter: float(value)}))
        assert parameter.replace("_", " ") in line or {"kept": "keeps"}.get(parameter, parameter) in line
        assert f"{value:g}" in line or str(value) in line


CENTRES: dict[str, object] = {
    "too few": np.zeros(ITEMS - 1, np.int32),
    "too many": np.zeros(ITEMS + 1, np.int32),
    "a table": np.zeros((ITEMS, 1), np.int32),
    "beyond a like": np.full(ITEMS, 33, np.int32),
    "beyond a dislike": np.full(ITEMS, -33, np.int32),
    "as low as 32 bits go": np.full(ITEMS, -(1 << 31), np.int32),
    "64 bits": np.zeros(ITEMS, np.int64),
    "fractions": np.full(ITEMS, 0.5),
    "no numbers": np.full(ITEMS, np.nan),
}


@pytest.mark.parametrize("name", CENTRES)
def test_centres_that_do_not_fit_are_refused(name: str) -> None:
    query = forged(QUERIES["sign"], pool=np.arange(ITEMS, dtype=np.int32))
    assert "centres" in refused(forged(query, centres=CENTRES[name]))
    for most in (-32, 32):
        asked_from = forged(query, centres=np.full(ITEMS, most, np.int32))
        assert Cohort(RATINGS, worlds.SECRET, 0, 5, None).answer(asked_from, 0, 5).refused == 0


@pytest.mark.parametrize("name", [*(name for name in QUERIES if by_query()[name].pooled is not False), *SHARED])
def test_no_pool_reaches_compiled_code_unchecked(name: str) -> None:
    """It checks no bounds: a server may send anything, and must get a line, no other memory."""
    for kind, pool in POOLS.items():
        assert "pool" in refused(forged((QUERIES | SHARED)[name], pool=pool)), kind


@pytest.mark.parametrize("name", sorted(name for name in QUERIES if name.startswith("pairwise")))
def test_a_catalogue_of_one_item_has_no_pair(name: str) -> None:
    refused(forged(QUERIES[name], items=1), items=1)


@pytest.mark.parametrize("name", [name for name in QUERIES if not by_query()[name].names_rated])
def test_devices_without_any_rating_answer_all_the_same(name: str) -> None:
    """A whole block of them; without noise their bits are those of nothing rated, or "none", or a fair coin's."""
    query = forged(QUERIES[name], epsilon=None)
    ratings = worlds.stored_ratings([{}, {}], [0, 1, 1, 0], ITEMS)
    release = Cohort(ratings, worlds.SECRET, 0, 4, None).answer(query, 0, 4)
    assert release.answered is None
    if name not in ("sign", "pair-signs", "anchor") and not isinstance(by_query()[name], Frequencies):
        assert release.unpacked().all() == (name == "pairwise-equal")
        assert release.unpacked().any() == (name == "pairwise-equal")


def test_what_is_charged_is_what_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """In one process whoever asks still holds the query's arrays, and may change them between check and use."""
    pool = np.arange(6, dtype=np.int32)
    query = replace(QUERIES["maxsense"], pool=pool)
    honest = Cohort(RATINGS, worlds.SECRET, 0, 200, None).answer(replace(query, pool=pool.copy()), 0, 200)
    cohort = Cohort(RATINGS, worlds.SECRET, 0, 200, Fraction(1))
    charge = cohort.ledger.charge

    def change(*arguments: Any) -> Any:
        pool[:] = np.arange(6, 12)
        return charge(*arguments)

    monkeypatch.setattr(cohort.ledger, "charge", change)
    answer = cohort.answer(query, 0, 200)
    assert (answer.query_id, answer.bits) == (honest.query_id, honest.bits)
    assert query.id != honest.query_id


def test_names_of_a_query_are_few() -> None:
    cohort = Cohort(RATINGS, worlds.SECRET, 0, 8, None)
    for name in ("parameters", "arrays"):
        query = forged(QUERIES["maxsense"], **{name: {f"name-{place}": 1.0 for place in range(2_000)}})
        with pytest.raises(InputError, match=f"^a query has 2,000 {name}; give at most 64$"):
            cohort.answer(query, 0, 8)


# Who is missing: as many devices as said, whatever they rated, and the same ones when asked again.
USERS = 40_000
QUERY = in_world(MaxSense, items=40, rated=5).query(round_number=0, public_seed=worlds.PUBLIC, epsilon=Fraction(1))
HALF = Absence(dropout=0.3, stragglers=0.5, delay=20, deadline=10)


def cohort(like: str, absence: Absence = HALF, first: int = 0, stop: int = USERS) -> Cohort:
    row = tuple(float(part) for part in like.split(","))
    world = worlds.world(items=40, rated=5, like=(row,))
    return Cohort(worlds.block_ratings(world, USERS), worlds.SECRET, first, stop, None, absence=absence)


@pytest.mark.statistical
def test_as_many_are_missing_as_said() -> None:
    """False-alarm probability 1e-6; the twin: a twentieth more stragglers would be noticed."""
    answered = int(cohort("0.9,0.1").answer(QUERY, 0, USERS).answered_mask().sum())
    assert evidence.rate_fits(answered, USERS, 1 - HALF.missing)
    wrong = Absence(dropout=0.3, stragglers=0.55, delay=20, deadline=10)
    assert not evidence.rate_fits(answered, USERS, 1 - wrong.missing)


def test_silence_tells_nothing_of_ratings_and_is_repeated() -> None:
    """The same devices are silent whatever they rated, in any cohort, and however often they are asked."""
    one = cohort("0.9,0.1")
    release = one.answer(QUERY, 0, USERS)
    assert one.answer(QUERY, 0, USERS) == release
    mask = release.answered_mask()
    assert np.array_equal(cohort("0.1,0.1").answer(QUERY, 0, USERS).answered_mask(), mask)
    part = cohort("0.9,0.1", first=1000, stop=3000).answer(QUERY, 1000, 3000)
    assert np.array_equal(part.answered_mask(), mask[1000:3000])
    assert np.array_equal(part.unpacked(), release.unpacked()[1000:3000])
    assert not release.unpacked()[~mask].any()
