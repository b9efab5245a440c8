"""Questions that devices draw from private coins: the same at each asking, uniform, and read as addressed ones are."""

import itertools
import math
import pickle
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import evidence
import numpy as np
import pytest
import worlds
from scipy.stats import chi2

import actors.seeds
from actors.device import Cohort
from actors.ratings import RatingsBlock
from actors.seeds import QUESTION, Coins, private_coins
from coordinator.protocol.amplification import FiniteChannel, TwoLevels
from coordinator.protocol.arrays import Words
from coordinator.protocol.channels import ExactChannel
from coordinator.protocol.coins import as_words
from coordinator.protocol.errors import InputError
from coordinator.protocol.hashing import device_streams
from coordinator.protocol.mechanisms import by_query, check_question, mechanism_of
from coordinator.protocol.messages import Query, Release, pack
from coordinator.protocol.statistics.statistic import Statistic, merge
from coordinator.server.aggregation import aggregate, no_release
from coordinator.server.rounds.transcript import digest
from scenarios.config.mechanism_settings import mechanism_kind
from scenarios.studies.scrutiny.mechanism_under_test import Size, every_rating, stored, subject_of

SIZE = Size(items=6, rated=3, users=1000)
FIRST, DEVICES = 77, 301
CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "maxsense": ("maxsense", {}, {}),
    "maxsense of a pool": ("maxsense", {}, {"pooled": True}),
    "multi-maxsense": ("multi-maxsense", {"questions": 3}, {}),
    "sign": ("sign", {}, {}),
    "sign of centred ratings": ("sign", {}, {"pooled": True}),
    "pairs' signs": ("anchor", {}, {}),
    "turned signs": ("anchor", {}, {"of": "turned"}),
    "pairwise": ("pairwise", {"agreement": "equal"}, {}),
    "olh": ("olh", {}, {}),
    "olh of rated items": ("olh", {"told": "rated"}, {"pooled": True}),
    "hadamard": ("hadamard", {}, {}),
    "hadamard of two rows": ("hadamard", {"rows": 2}, {}),
}
"""Mechanism, settings and what is asked, of every design in which devices can draw their questions."""


def query_of(case: str, epsilon: Fraction | None = Fraction(1), size: Size = SIZE) -> Query:
    name, settings, what = CASES[case]
    subject = subject_of(mechanism_kind(name), settings, size=size, **what)
    return replace(subject.query(size, epsilon), own_questions=True)


def cohort(devices: int = DEVICES, *, synthetic: bool = True, users: int = 0) -> Cohort:
    """Devices from `FIRST` on, of a block model or with ratings of their own."""
    if synthetic:
        world = worlds.world(items=SIZE.items, rated=SIZE.rated, like=((0.9, 0.2), (0.1, 0.6)), shares=(0.4, 0.6))
        ratings: Any = worlds.block_ratings(world)
    else:
        rows = list(every_rating(SIZE))[users:]
        ratings = stored(rows, [device % len(rows) for device in range(FIRST + devices)], SIZE.items)
    return Cohort(ratings, worlds.SECRET, FIRST, FIRST + devices, None)


def as_values(statistic: Statistic) -> dict[str, Any]:
    values = {name: getattr(statistic, name) for name in statistic.__dataclass_fields__}
    return {name: one.tolist() if isinstance(one, np.ndarray) else one for name, one in values.items()}


def test_all_designs_by_address_are_cases_or_refused() -> None:
    designs = {query_of(case).design for case in CASES}
    by_address = {name for name, half in by_query().items() if half.by_address}
    assert {name for name in by_address if not name.startswith("pairwise")} <= designs
    several = query_of("multi-maxsense", Fraction(2))
    assert mechanism_of(several.design).levels(several) is None, "of several bits no levels are known"


@pytest.mark.parametrize("case", CASES)
def test_asked_twice_question_and_answer_are_the_same(case: str) -> None:
    """On another layout, too; and another query draws another question."""
    query = query_of(case)
    devices = cohort()
    once = devices.answer(query, FIRST, FIRST + DEVICES)
    assert devices.answer(query, FIRST, FIRST + DEVICES) == once
    parts = [devices.answer(query, *ends) for ends in ((FIRST, FIRST + 40), (FIRST + 40, FIRST + DEVICES))]
    assert b"".join(part.questions or b"" for part in parts) == once.questions
    assert np.concatenate([part.unpacked() for part in parts]).tolist() == once.unpacked().tolist()
    assert digest(parts) == digest([once])
    assert as_values(merge(*(aggregate(query, part) for part in parts))) == as_values(aggregate(query, once))
    other = devices.answer(replace(query, round=query.round + 1), FIRST, FIRST + DEVICES)
    assert not set(np.frombuffer(other.questions or b"", "<u8")) & set(np.frombuffer(once.questions or b"", "<u8"))


def test_a_question_is_the_oracles_coin_and_says_nothing_of_ratings() -> None:
    query = query_of("maxsense")
    one, other = (cohort(synthetic=False, users=users).answer(query, FIRST, FIRST + DEVICES) for users in (0, 50))
    assert one.bits != other.bits
    assert one.questions == other.questions
    words = one.words()
    assert words is not None
    key = evidence.device_secret(worlds.SECRET, FIRST + 5)
    assert int(words[5]) == evidence.siphash_words(key, int(QUESTION), *query.words.tolist(), 0)


def uniform(words: Words) -> bool:
    """Whether each of the eight bytes may be uniform: chi-square, false alarm 1e-6 in all."""
    counts = np.stack([np.bincount(column, minlength=256) for column in words.view(np.uint8).reshape(-1, 8).T])
    expected = len(words) / 256
    return bool((((counts - expected) ** 2 / expected).sum(axis=1) < chi2.isf(1e-6 / 8, 255)).all())


@pytest.mark.parametrize("synthetic", [True, False])
@pytest.mark.parametrize("case", CASES)
def test_bits_are_those_of_addressed_questions_where_the_words_are(
    case: str, synthetic: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An oracle of all kernels, on both sides: with the words of addresses nothing differs but the query's id."""
    query = query_of(case, Fraction(1))
    addressed = replace(query, own_questions=False)
    streams = device_streams(query.key, FIRST, DEVICES)
    ratings = cohort(synthetic=synthetic)._ratings
    coins = Coins(as_words(worlds.SECRET), FIRST, DEVICES, addressed.words)
    half = mechanism_of(query.design)
    expected = half.packed(half.sketch(addressed, RatingsBlock(ratings, coins), coins).private, addressed, coins)
    drawn = half.packed(half.sketch(query, RatingsBlock(ratings, coins), coins).private, query, coins)

    def instead(master: Words, first: int, count: int, purpose: np.uint64, *rest: Any) -> Words:
        return streams if purpose == QUESTION else private_coins(master, first, count, purpose, *rest)

    monkeypatch.setattr(actors.seeds, "private_coins", instead)
    found = half.packed(half.sketch(query, RatingsBlock(ratings, coins), coins).private, query, coins)
    assert found.tolist() == expected.tolist()
    assert found.tolist() != drawn.tolist()
    heard = np.arange(DEVICES) % 5 > 0
    there: dict[str, Any] = {
        "first": FIRST,
        "count": DEVICES,
        "width": query.bits,
        "bits": found.tobytes(),
        "answered": pack(heard.astype(np.uint8)),
    }
    own = Release(query_id=query.id, **there, questions=np.where(heard, streams, 0).astype("<u8").tobytes())
    plain = Release(query_id=addressed.id, **there)
    assert as_values(aggregate(query, own)) == as_values(aggregate(addressed, plain))


@pytest.mark.parametrize("case", CASES)
def test_reports_count_alike_in_any_order_with_their_questions_alone(case: str) -> None:
    """What a shuffler passes on: pairs of question and answer, sorted; the twin's answers leave their questions."""
    query = query_of(case, Fraction(20))
    release = cohort().answer(query, FIRST, FIRST + DEVICES)
    words = release.words()
    assert words is not None
    order = np.argsort(words)
    mixed = replace(release, first=0, bits=pack(release.unpacked()[order]), questions=words[order].tobytes())
    assert as_values(aggregate(query, mixed)) == as_values(aggregate(query, release))
    twin = replace(release, bits=pack(release.unpacked()[order]))
    assert as_values(aggregate(query, twin)) != as_values(aggregate(query, release))


@pytest.mark.parametrize("case", CASES)
def test_a_release_has_eight_bytes_a_device_more_and_none_of_the_silent(case: str) -> None:
    query = query_of(case)
    ratings = cohort()._ratings
    devices = Cohort(ratings, worlds.SECRET, FIRST, FIRST + 16, Fraction(1))
    release = devices.answer(query, FIRST, FIRST + 16)
    assert len(release.questions or b"") == 8 * 16
    spent = devices.answer(replace(query, round=query.round + 1), FIRST, FIRST + 16)  # beyond their budget
    assert (spent.refused, spent.questions) == (16, bytes(8 * 16))
    plain = replace(release, questions=None)
    more = len(pickle.dumps(release, protocol=5)) - len(pickle.dumps(plain, protocol=5))
    assert 8 * 16 < more < 8 * 16 + 8
    assert pickle.loads(pickle.dumps(release)) == release
    assert pickle.loads(pickle.dumps(plain)) == plain
    assert aggregate(query, no_release(query)).devices == 0


@pytest.mark.parametrize("design", ["grr", "oue", "subset", "set"])
def test_designs_that_ask_everybody_the_same_or_about_rated_items_are_refused(design: str) -> None:
    query = replace(subject_of(mechanism_kind(design), {}, size=SIZE).query(SIZE, Fraction(1)), own_questions=True)
    with pytest.raises(InputError, match="leave own questions out"):
        check_question(query)
    with pytest.raises(InputError, match="names items that its device rated"):
        check_question(replace(query, design="pairwise-equal-of-rated", parameters={}, questions=1, answer_bits=1))


def test_a_release_must_bring_questions_where_devices_draw_them_and_nowhere_else() -> None:
    query = query_of("maxsense")
    release = cohort().answer(query, FIRST, FIRST + 8)
    addressed = replace(query, own_questions=False)
    refused: dict[str, Callable[[], object]] = {
        "lacks the questions": lambda: aggregate(query, replace(release, questions=None)),
        "brings questions": lambda: aggregate(addressed, replace(release, query_id=addressed.id)),
        "it must be 64 bytes": lambda: replace(release, questions=bytes(56)),
        "own questions is 1": lambda: replace(query, own_questions=1),  # type: ignore[arg-type] # as anybody may send
    }
    for words, call in refused.items():
        with pytest.raises(InputError, match=words):
            call()


WORDS = 3000  # Questions that stand for all 2^64


def joint(query: Query, rows: list[Any]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Chances of every pair of a question among `WORDS` and an answer, a row an input."""
    channel, half = mechanism_of(query.design).channel(query), mechanism_of(query.design)
    assert isinstance(channel, ExactChannel)
    chances: dict[tuple[int, ...], list[float]] = {}
    table = []
    for row in rows:
        ratings = stored([row], [0] * WORDS, query.items)
        coins = Coins(as_words(worlds.SECRET), 0, WORDS, query.words)
        answers = []
        for sketch in half.sketch(query, RatingsBlock(ratings, coins), coins).private.reshape(WORDS, -1):
            key = tuple(sketch.tolist())
            if key not in chances:
                chances[key] = [float(one) / WORDS for one in channel.chances(sketch.astype(np.int64))]
            answers.append(chances[key])
        table.append(np.concatenate(answers))
    return np.stack(table)


@pytest.mark.few(2)
@pytest.mark.parametrize("case", [case for case in CASES if case != "multi-maxsense"])
def test_levels_are_those_of_the_channel_of_question_and_answer(case: str) -> None:
    """Every report is one of two levels, pi is every input's; kappa is not below what two inputs of a device share.

    What a device picks at random for its sketch is a coin of its own: given it the levels hold. Inputs whose sums may
    tie are left out where the channel breaks ties. Kappa over `WORDS` questions is above the true one by more than the
    slack with chance 1e-6 at most (Hoeffding's bound over all pairs of inputs). With the kappa of these questions the
    bound is not below that of three inputs' chances as a matrix.
    """
    epsilon = Fraction(2)
    query = query_of(case, epsilon)
    levels = mechanism_of(query.design).levels(query)
    assert levels is not None
    assert mechanism_of(query.design).levels(replace(query, own_questions=False)) is None
    rows = [row for row in every_rating(Size(items=4, rated=3, users=1)) if len(row) in (1, 3)]
    table = joint(query, rows)
    odds = math.exp(epsilon)
    scale = 1 + (odds - 1) * levels.pi
    answers = table.shape[1] // WORDS
    omega = np.full(table.shape[1], 1 / (WORDS * answers))
    ratio = table * scale / omega
    met = ratio > math.sqrt(odds)
    whole = np.isclose(ratio, 1, rtol=1e-9) | np.isclose(ratio, odds, rtol=1e-9)
    assert whole.all(axis=1).sum() >= 8
    met, table = met[whole.all(axis=1)], table[whole.all(axis=1)]
    np.testing.assert_allclose(met @ omega, levels.pi, rtol=1e-9)
    pairs = list(itertools.permutations(range(len(met)), 2))
    slack = math.sqrt(math.log(max(len(pairs), 1) / 1e-6) / (2 * WORDS))
    kappa = max((float((met[one] & ~met[other]) @ omega) for one, other in pairs), default=0.0)
    assert kappa <= levels.kappa * (1 + 1e-9) + slack / answers
    ours = TwoLevels(levels.pi, kappa).delta(0.3, 2.0, 300)
    theirs = FiniteChannel((table[-3:] / table[-3:].sum(axis=1, keepdims=True)).tolist()).delta(0.3, 2.0, 300)
    assert 0 < theirs <= ours * (1 + 1e-3)
