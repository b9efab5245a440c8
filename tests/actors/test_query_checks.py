"""What devices refuse to be asked, of every design: in one line, before anything is charged. And who stays silent."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import worlds
from forging import forged
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.device import Cohort
from actors.questions import check
from actors.sketches import SKETCHES
from coordinator.aggregation import AGGREGATIONS, aggregate, no_release
from coordinator.designs import Design, MultiMaxSense, Pairwise
from coordinator.open_designs import ItemQuery, Reveal
from coordinator.pool_designs import MaxSense, SignSensing
from coordinator.protocol.errors import InputError
from coordinator.protocol.messages import Query
from coordinator.protocol.questions import KINDS

ITEMS = 12
DESIGNS: list[Design] = [
    MaxSense(items=ITEMS, rated=4),
    SignSensing(items=ITEMS, rated=4, vectors=2),
    MultiMaxSense(items=ITEMS, rated=4, questions=3),
    *(
        Pairwise(items=ITEMS, agreement=name, rated_public=public)
        for name in ("rated-equal", "equal", "positive")
        for public in (False, True)
    ),
    ItemQuery(items=ITEMS),
    *(Reveal(name=name, items=ITEMS, most=4) for name in ("full-reveal", "curator-items", "curator-pairs")),
]
OPEN = ("item-query", "full-reveal", "curator-items", "curator-pairs")
RATINGS = worlds.block_ratings(worlds.world(items=ITEMS, rated=4))
USERS = st.lists(st.dictionaries(st.integers(0, ITEMS - 1), st.booleans(), max_size=ITEMS), min_size=1, max_size=8)


def asked(design: Design) -> Query:
    query = design.query(round_number=0, public_seed=worlds.PUBLIC, epsilon=None)
    return query if query.design in OPEN else forged(query, epsilon=Fraction(1))


QUERIES = {query.design: query for query in map(asked, DESIGNS)}


def test_every_design_is_known_on_both_sides_and_asked_here() -> None:
    assert set(QUERIES) == set(SKETCHES) == set(AGGREGATIONS) == set(KINDS)


def test_a_server_cannot_have_private_rated_items_named() -> None:
    """Sixty questions at next to no epsilon would tell all that a device rated; nothing is charged for refusing."""
    ratings = forged(worlds.block_ratings(worlds.world(items=20, rated=5)), rated_public=False)
    cohort = Cohort(ratings, bytes(16), 0, 8, Fraction(1))
    for agreement in ("rated-equal", "equal", "positive"):
        design = Pairwise(items=20, agreement=agreement, rated_public=True)
        with pytest.raises(InputError, match="private here"):
            cohort.answer(design.query(round_number=0, public_seed=bytes(16), epsilon=Fraction(1, 10**6)), 0, 8)
    assert cohort.ledger.spent(0) == 0


@pytest.mark.parametrize("name", QUERIES)
def test_every_design_is_answered_and_added_up(name: str) -> None:
    query, cohort = QUERIES[name], Cohort(RATINGS, worlds.SECRET, 0, 50, None)
    statistic = aggregate(query, cohort.answer(query, 0, 50))
    assert (statistic.asked, statistic.answered, statistic.refused, statistic.missing) == (50, 50, 0, 0)
    nobody = aggregate(query, no_release(query))
    assert (nobody.asked, nobody.answered, nobody.ones) == (0, 0, 0)
    assert cohort.answer(query, 9, 9).count == 0


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


UNFIT_POOLS = {"item-query": None, "sign": None, "maxsense": np.array([1, 0], np.int32)}
"""Designs that must name a pool, and one that may; all others must not."""


@pytest.mark.parametrize("name", QUERIES)
def test_what_no_design_is_asked(name: str) -> None:
    query = QUERIES[name]
    for change in (
        {"design": name + "x"},
        {"items": ITEMS + 1},
        {"epsilon": Fraction(0)},
        {"epsilon": Fraction(-1)},
        {"questions": 0},
        {"questions": -1},
        {"questions": query.questions + (10 if name == "multi-maxsense" else 1)},
        {"parameters": {**query.parameters, "more": 1.0}},
        {"answer_bits": query.answer_bits + 1},
        {"answer_bits": query.answer_bits - 1},
        {"pool": UNFIT_POOLS.get(name, np.array([0, 1], np.int32))},
    ):
        refused(forged(query, **change))
    for missing in query.parameters:
        refused(forged(query, parameters={key: value for key, value in query.parameters.items() if key != missing}))


@pytest.mark.parametrize("name", OPEN)
@pytest.mark.parametrize("epsilon", [Fraction(1), Fraction(1, 10**9), Fraction(10**400)])
def test_what_is_not_private_promises_no_epsilon(name: str, epsilon: Fraction) -> None:
    assert "not private" in refused(forged(QUERIES[name], epsilon=epsilon))


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


@pytest.mark.parametrize("name", POOLS)
def test_pools_that_are_none(name: str) -> None:
    """Compiled code checks no bounds: a server may send anything, and must get a line, no other memory."""
    with pytest.raises(InputError) as caught:
        check(forged(QUERIES["item-query"], pool=POOLS[name]), RATINGS)
    assert "pool" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "parameter", "value"),
    [
        ("maxsense", "sensing", 0.0),
        ("maxsense", "sensing", 1.5),
        ("multi-maxsense", "set_size", 0),
        ("multi-maxsense", "set_size", -3),
        ("multi-maxsense", "set_size", ITEMS + 1),
        ("multi-maxsense", "set_size", 2.5),
        ("multi-maxsense", "set_size", float("nan")),
        ("multi-maxsense", "set_size", float("inf")),
        ("full-reveal", "share", 0.0),
        ("full-reveal", "share", 1.5),
        ("full-reveal", "share", float("nan")),
        ("curator-items", "most", 0),
        ("curator-items", "most", ITEMS + 1),
        ("curator-pairs", "most", 1.5),
        ("curator-pairs", "most", float("nan")),
        ("sign", "vectors", 0),
        ("sign", "vectors", 3),
        ("sign", "vectors", 2.5),
        ("sign", "vectors", -2),
        ("sign", "vectors", 128),
        ("sign", "vectors", float("nan")),
        ("sign", "vectors", float("inf")),
        ("sign", "kept", 0),
        ("sign", "kept", 3),
        ("sign", "kept", 1.5),
        ("sign", "kept", -1),
        ("sign", "kept", float("nan")),
        ("sign", "kept", float("inf")),
    ],
)
def test_numbers_outside_their_ranges_are_refused_by_name(name: str, parameter: str, value: float) -> None:
    query = QUERIES[name]
    line = refused(forged(query, parameters={**query.parameters, parameter: float(value)}))
    assert parameter.replace("_", " ") in line or {"kept": "keeps"}.get(parameter, parameter) in line
    assert f"{value:g}" in line or str(value) in line


@pytest.mark.parametrize("vectors", [1, 2, 4, 8, 16, 32, 64])
def test_bits_of_an_answer_name_a_signed_vector(vectors: int) -> None:
    """As many as name one of ``2 m``, no more and no less; any number up to all of the vectors may be kept."""
    query = forged(
        QUERIES["sign"],
        parameters={"vectors": float(vectors), "kept": float(vectors)},
        answer_bits=vectors.bit_length(),
    )
    release = Cohort(RATINGS, worlds.SECRET, 0, 5, None).answer(query, 0, 5)
    assert release.width == query.bits == 1 + int(np.log2(vectors))
    for bits in (0, -1, query.answer_bits - 1, query.answer_bits + 1):
        line = refused(forged(query, answer_bits=bits))
        assert f"{bits} bits" in line or f"bits of an answer is {bits}" in line
    for kept in (0, vectors + 1):
        assert f"keeps {kept}" in refused(forged(query, parameters={"vectors": float(vectors), "kept": float(kept)}))


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


@pytest.mark.parametrize("name", sorted(set(QUERIES) - {"sign"}))
def test_designs_that_count_nothing_bring_no_centres(name: str) -> None:
    query = QUERIES[name]
    size = ITEMS if query.pool is None else query.pool.size
    assert "centres" in refused(forged(query, centres=np.zeros(size, np.int32)))


@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("name", ["maxsense", "sign"])
def test_no_pool_reaches_compiled_code_unchecked(name: str, pool: str) -> None:
    assert "pool" in refused(forged(QUERIES[name], pool=POOLS[pool]))


@pytest.mark.parametrize("size", [1, 5, 12])
def test_no_more_sets_than_there_are(size: int) -> None:
    query = forged(QUERIES["multi-maxsense"], parameters={"set_size": float(size)}, questions=-(-ITEMS // size))
    cohort = Cohort(RATINGS, worlds.SECRET, 0, 5, None)
    assert cohort.answer(query, 0, 5).width == query.questions
    refused(forged(query, questions=query.questions + 1))


@pytest.mark.parametrize("name", sorted(name for name in QUERIES if name.startswith("pairwise")))
def test_a_catalogue_of_one_item_has_no_pair(name: str) -> None:
    refused(forged(QUERIES[name], items=1), items=1)


@settings(max_examples=30, deadline=None)
@given(users=USERS, name=st.sampled_from(sorted(name for name in QUERIES if not name.endswith("-of-rated"))))
def test_where_rated_items_are_private_nobody_is_silent(users: list[dict[int, bool]], name: str) -> None:
    """Whatever was rated, or nothing at all: every device answers, and all but the bits is the same for everybody."""
    query, count = QUERIES[name], len(users)
    release = Cohort(
        worlds.stored_ratings([*users, {0: True}], range(count), ITEMS), worlds.SECRET, 0, count, None
    ).answer(query, 0, count)
    everybody = Cohort(RATINGS, worlds.SECRET, 0, count, None).answer(query, 0, count)
    assert forged(release, bits=b"") == forged(everybody, bits=b"")
    assert len(release.bits) == len(everybody.bits)
    assert (release.answered, release.refused, release.pairs) == (None, 0, None)


@pytest.mark.parametrize("name", [name for name in QUERIES if not name.endswith("-of-rated")])
def test_devices_without_any_rating_answer_all_the_same(name: str) -> None:
    """A whole block of them; without noise their bits are those of nothing rated, or, of signs, a fair coin's."""
    query = forged(QUERIES[name], epsilon=None)
    release = Cohort(worlds.stored_ratings([{}, {}], [0, 1, 1, 0], ITEMS), worlds.SECRET, 0, 4, None).answer(
        query, 0, 4
    )
    assert release.answered is None
    if name != "sign":
        assert release.unpacked().all() == (name == "pairwise-equal")
        assert release.unpacked().any() == (name == "pairwise-equal")
