"""Two servers: shares add up and say nothing alone, and what is published is the sum with each server's own noise."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import evidence
import numpy as np
import pytest
import ray
import worlds
from evidence import chi_square_fits, variance_fits
from faults import Deaf

from actors.device import Cohort
from actors.host import DeviceHost
from actors.keeper import Keeper
from actors.ratings import BlockRatings
from actors.seeds import Coins
from actors.shares import add_noise, share_permit, side_of
from coordinator.aggregators import gathering, ray_shares
from coordinator.aggregators.gathering import LocalShares, ShareServer
from coordinator.aggregators.seed_server import SeedServer
from coordinator.aggregators.word_server import WordServer
from coordinator.protocol.agreement import Agreement
from coordinator.protocol.arrays import Words32
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.coins import as_words
from coordinator.protocol.errors import AgreementError, InputError, LostError, PermitError, WithheldError
from coordinator.protocol.hashing import expansions
from coordinator.protocol.mechanism import World
from coordinator.protocol.mechanisms.totals import Totals
from coordinator.protocol.messages import Query
from coordinator.protocol.moments.blocks import BlockParameters
from coordinator.protocol.shared_vector import HONEST, noise_deviation
from coordinator.protocol.shares import (
    SEEDS_SERVER,
    WORDS_SERVER,
    PublishedSum,
    RollError,
    SeedShare,
    ShareRoll,
    WordShare,
    opened,
    require_readable,
    secret_of,
)
from coordinator.protocol.statistics.counts import CountStatistic
from coordinator.protocol.trust import BookActor, Openings
from coordinator.protocol.trust_models import TWO_SERVERS
from coordinator.server.fleet.intermediaries import SumQuerying
from coordinator.server.rounds.state import Ask

SECRET, DEVICES, ITEMS, MOST = bytes(range(16)), 200, 61, 6


def ratings_of(like: float = 0.7, items: int = ITEMS, devices: int = DEVICES) -> BlockRatings:
    """Devices that rated six items, and like so many of them."""
    return worlds.block_ratings(worlds.world(items=items, rated=MOST, like=((like, like / 2),)), devices)


def asked(items: int = ITEMS, epsilon: Epsilon = Fraction(1), **design: Any) -> Query:
    return replace(worlds.totals_query(epsilon, items=items, **{"most": MOST, **design}), public_seed=bytes(16))


def cohort_of(ratings: BlockRatings, first: int = 0, stop: int | None = None, budget: Epsilon = Fraction(1)) -> Cohort:
    return Cohort(ratings, SECRET, first, ratings.users if stop is None else stop, budget)


def vectors(ratings: BlockRatings) -> Words32:
    """What devices' vectors are, from their ratings: none has more likes than count."""
    rated = ratings.rated(as_words(SECRET), 0, ratings.users)
    rows = np.zeros((ratings.users, ratings.items), np.uint32)
    rows[rated.owners[rated.values], rated.items[rated.values]] = 1
    return rows


def servers_of(
    cohort: Cohort,
    *,
    agreement: Agreement | None = None,
    seeds: tuple[int, int] = (0, 0),
    book: Keeper | None = None,
) -> tuple[ShareServer[Any], ShareServer[Any]]:
    host = DeviceHost(lambda *_, **__: cohort, None, SECRET, [(cohort.first, cohort.stop)])
    route = LocalShares(host.share, [(cohort.first, cohort.stop)])
    return (
        WordServer(secret_of(seeds[0], WORDS_SERVER), share_permit(SECRET, WORDS_SERVER), route, agreement, book),
        SeedServer(secret_of(seeds[1], SEEDS_SERVER), share_permit(SECRET, SEEDS_SERVER), route, agreement, book),
    )


def published(query: Query, words: ShareServer[Any], seeds: ShareServer[Any], stop: int) -> tuple[PublishedSum, ...]:
    rolls = words.collect(query, 0, stop), seeds.collect(query, 0, stop)
    return words.publish(query, rolls[1]), seeds.publish(query, rolls[0])


def test_shares_add_up_to_the_vector_and_asking_again_gives_the_same_ones_and_costs_nothing() -> None:
    ratings, query = ratings_of(), asked()
    cohort = cohort_of(ratings)
    words, seeds = (cohort.share(side, query, 0, DEVICES) for side in (WORDS_SERVER, SEEDS_SERVER))
    assert isinstance(words, WordShare)
    assert isinstance(seeds, SeedShare)
    assert ((words.rows() + expansions(seeds.keys(), ITEMS)) == vectors(ratings)).all()
    assert cohort.ledger.spent(0) == 1  # one question, though two servers asked, under the whole budget
    assert cohort.share(WORDS_SERVER, query, 0, DEVICES) == words
    parts = [cohort.share(WORDS_SERVER, query, first, first + 50) for first in range(0, DEVICES, 50)]
    assert b"".join(part.vector_bytes for part in parts if isinstance(part, WordShare)) == words.vector_bytes
    assert cohort.ledger.spent(DEVICES - 1) == 1


def test_shares_of_stored_ratings_add_up_and_who_rated_nothing_gives_shares_all_the_same() -> None:
    rows = [{}, {4: True}, {0: True, 8: False, 5: True}, dict.fromkeys(range(6), True)]
    ratings = worlds.stored_ratings(rows, [k % 4 for k in range(60)], ITEMS)
    cohort, query = Cohort(ratings, SECRET, 0, 60, None), asked()
    words, seeds = (cohort.share(side, query, 0, 60) for side in (WORDS_SERVER, SEEDS_SERVER))
    assert isinstance(words, WordShare)
    assert isinstance(seeds, SeedShare)
    assert words.heard().all()
    sums = words.rows() + expansions(seeds.keys(), ITEMS)
    assert [np.flatnonzero(row).tolist() for row in sums[:4]] == [[], [4], [0, 5], [0, 1, 2, 3, 4, 5]]
    assert uniform(words.rows())


def test_who_likes_more_than_counts_names_some_by_coins_of_its_own() -> None:
    ratings, query = ratings_of(1.0), asked(most=2)
    cohort = cohort_of(ratings)
    words, seeds = (cohort.share(side, query, 0, DEVICES) for side in (WORDS_SERVER, SEEDS_SERVER))
    assert isinstance(words, WordShare)
    assert isinstance(seeds, SeedShare)
    rows = words.rows() + expansions(seeds.keys(), ITEMS)
    likes = vectors(ratings)
    assert (rows <= likes).all()
    assert (rows.sum(axis=1) == np.minimum(likes.sum(axis=1), 2)).all()


def test_seeds_do_not_depend_on_ratings_at_all_and_words_do() -> None:
    query, kinds = asked(), (ratings_of(0.9), ratings_of(0.2))
    seeds = [cohort_of(ratings).share(SEEDS_SERVER, query, 0, DEVICES) for ratings in kinds]
    words = [cohort_of(ratings).share(WORDS_SERVER, query, 0, DEVICES) for ratings in kinds]
    assert seeds[0] == seeds[1]
    assert words[0] != words[1]


def uniform(rows: Words32) -> bool:
    """Whether the bytes of words look uniform; false alarm 1e-6."""
    return chi_square_fits(np.bincount(rows.astype("<u4").view(np.uint8).ravel(), minlength=256), np.ones(256))


@pytest.mark.statistical
def test_words_are_uniform_alone_and_those_of_an_expansion_that_repeats_are_not() -> None:
    """False alarm 1e-6. The twins: an expansion that repeats every four words, and a seed that all devices share."""
    ratings = ratings_of()
    words = cohort_of(ratings).share(WORDS_SERVER, asked(), 0, DEVICES)
    assert isinstance(words, WordShare)
    assert uniform(words.rows())
    keys = Coins(as_words(SECRET), 0, DEVICES, asked().words).share_keys()
    keys.flags.writeable = False  # as a share's own, for which the kernel is compiled
    hidden = vectors(ratings)[:, :60]
    assert not uniform(hidden - np.tile(expansions(keys, 4), 15))
    assert not uniform(hidden - expansions(keys[:1], 60))


def test_nobody_gets_a_vector_or_the_other_servers_share() -> None:
    cohort, query = cohort_of(ratings_of()), asked()
    host = DeviceHost(lambda *_, **__: cohort, None, SECRET, [(0, DEVICES)])
    with pytest.raises(PermitError, match="answered in shares"):
        host.ask(query, 0, DEVICES)
    for permit in (b"", bytes(16), None, "words", share_permit(bytes(16), WORDS_SERVER)):
        with pytest.raises(PermitError, match="its own permit"):
            host.share(permit, query, 0, DEVICES)  # type: ignore[arg-type] # anything may arrive
    assert cohort.ledger.spent(0) == 0
    assert type(host.share(share_permit(SECRET, WORDS_SERVER), query, 0, DEVICES)) is WordShare
    assert type(host.share(share_permit(SECRET, SEEDS_SERVER), query, 0, DEVICES)) is SeedShare


def test_what_is_published_is_the_sum_with_the_noise_of_both() -> None:
    ratings, query = ratings_of(), asked(epsilon=None)
    exact = vectors(ratings).sum(axis=0)
    bare = opened(*published(query, *servers_of(cohort_of(ratings, budget=None)), DEVICES))
    assert (bare == exact).all()
    noisy = [
        opened(*published(asked(), *servers_of(cohort_of(ratings), seeds=seeds), DEVICES)) - exact.astype(np.int64)
        for seeds in ((0, 0), (0, 1), (1, 1))
    ]
    assert len({tuple(noise) for noise in noisy}) == 3  # each server's secret counts


@pytest.mark.statistical
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_each_server_adds_a_whole_dose_of_the_stated_law(delta: float) -> None:
    """False alarm 1e-6. The twin: a dose of four fifths of the deviation."""
    items, devices = 4000, 20
    ratings, query = ratings_of(items=items, devices=devices), asked(items, delta=delta)
    exact = vectors(ratings).sum(axis=0).astype(np.int64)
    words, seeds = servers_of(cohort_of(ratings))
    sums = published(query, words, seeds, devices)
    other = seeds._noise(Totals(), query, sums[1].roll).view(np.int32)  # by its secret, which only a test knows
    noise = opened(*sums) - other - exact
    law = Totals().server_noise(query)
    assert law is not None
    values, chances = law.probabilities()
    cuts = np.searchsorted(np.cumsum(chances), np.linspace(0, 1, 21)[1:-1])
    observed = np.bincount(np.searchsorted(values[cuts], noise), minlength=20)
    expected = np.add.reduceat(chances, [0, *(cuts + 1)])
    assert chi_square_fits(observed, expected)
    less = np.rint(0.8 * noise)
    assert not chi_square_fits(np.bincount(np.searchsorted(values[cuts], less), minlength=20), expected)
    if delta:
        assert variance_fits(noise, law.deviation**2)


def world_of(**changes: Any) -> World:
    facts = {"items": ITEMS, "rated": MOST, "users": DEVICES, "clusters": 2, "epsilon": Fraction(1), "delta": 1e-6}
    return World(**{**facts, **changes})


@pytest.mark.parametrize(
    ("settings", "world", "expected"),
    [
        ({}, {}, (MOST, 0, 0)),
        ({"most_likes": 2}, {"expected_answers": 0.5, "assume_malicious": 0.5}, (2, 0, 0)),
        ({"most_likes": ITEMS + 5}, {}, (ITEMS, 0, 0)),
        ({"noise": "devices"}, {}, (MOST, DEVICES, DEVICES)),
        ({"noise": "devices"}, {"expected_answers": 0.9, "assume_malicious": 0.25}, (MOST, 135, 180)),
        ({"noise": "devices"}, {"users": 7, "expected_answers": 0.9, "assume_malicious": 0.25}, (MOST, 4, 6)),
        ({"noise": "devices"}, {"users": 1}, (MOST, 1, 1)),
    ],
)
def test_a_world_says_how_many_likes_count_and_on_whose_noise(
    settings: dict[str, Any], world: dict[str, Any], expected: tuple[int, int, int]
) -> None:
    """Of 7 devices 6.3 answer, and three fourths of these are honest, 4.7: so many as 4 are among any 6 that answer."""
    mechanism, facts = Totals(**settings), world_of(**world)
    design = mechanism.design(facts)
    assert (mechanism.likes_counted(facts), *mechanism.honest_devices(facts)) == expected
    query = design.query(round_number=0, public_seed=bytes(16), epsilon=Fraction(1))
    terms = [query.parameters[name] for name in ("padded", "changes", HONEST, "least_answers")]
    assert terms == [expected[0], 2 * expected[0], *expected[1:]]
    assert (query.parameters["delta"], query.questions, query.answer_bits) == (1e-6, ITEMS, 32)
    free = design.query(round_number=0, public_seed=bytes(16), epsilon=None)
    assert free.parameters["delta"] == free.parameters["deviation"] == 0


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_shares_of_the_honest_devices_make_one_dose(delta: float) -> None:
    """Four shares of Polya's or Skellam's law: the variance of 200,000 draws is within 4 %; six would be 50 more."""
    query = asked(honest=4, least_answers=6, delta=delta)
    law = Totals().device_noise(query)
    assert law is not None
    dose = noise_deviation(Fraction(1), 2 * MOST, query.parameters["deviation"], honest=4, answered=4) ** 2
    assert 4 * law.draw(bytes(16), 0, 200_000).var() == pytest.approx(dose, rel=0.04)


@pytest.mark.parametrize("size", [0, 1, 2, 5, 8])
@pytest.mark.parametrize("two_sided", [False, True])
def test_every_share_of_noise_is_the_number_of_thresholds_below_its_coin(size: int, *, two_sided: bool) -> None:
    """Coins are SipHash of four lanes a word; thresholds stand at coins, beside them, and share upper halves."""
    keys, width, lowest = np.array([[3, 4], [5, 6]], np.uint64), 7, -2
    coins = [
        [[evidence.siphash_words((int(one), int(other)), 4 * place + lane) for lane in range(4)] for place in range(7)]
        for one, other in keys
    ]
    upper, lower = coins[0][2][:2]
    marks = sorted([(upper, lower - 1), (upper, lower), (upper, lower + 1), (upper, 0), (upper - 1, 7)])
    marks = sorted([*marks, (coins[1][4][2], coins[1][4][3]), (1 << 63, 0), (1 << 62, 5)][:size])
    words = np.full((3, width), 9, np.uint32)
    keys = np.array([*keys, [7, 8]], np.uint64)
    high, low = (np.array([mark[half] for mark in marks], np.uint64) for half in (0, 1))
    high.flags.writeable = low.flags.writeable = False  # as tables of a cohort are
    add_noise(high, low, lowest, keys, np.array([1, 1, 0], np.uint8), words, two_sided)

    def number(coin: list[int]) -> int:
        return sum(mark <= (coin[0], coin[1]) for mark in marks)

    exact = [
        [9 + number(lanes[:2]) - (number(lanes[2:]) if two_sided else -lowest) for lanes in device] for device in coins
    ]
    assert words.view(np.int32).tolist() == [*exact, [9] * width], "and a silent device adds none"


def test_a_server_that_was_started_anew_publishes_the_same_noise() -> None:
    cohort, query = cohort_of(ratings_of()), asked()
    first = published(query, *servers_of(cohort), DEVICES)
    words, seeds = servers_of(cohort)
    again = published(query, words, seeds, DEVICES)
    assert first == again
    fresh, _ = servers_of(cohort)
    assert fresh.publish(query, again[1].roll) == first[0]  # it collects by itself
    noise = [words._noise(Totals(), one, again[0].roll).tolist() for one in (query, replace(query, round=1))]
    assert noise[0] != noise[1]


def test_sums_of_one_query_never_differ_by_a_device() -> None:
    cohort, query, words_book = cohort_of(ratings_of()), asked(), Keeper()
    words, seeds = servers_of(cohort, book=words_book)
    published(query, words, seeds, DEVICES)
    fewer = words.collect(query, 0, DEVICES - 1), seeds.collect(query, 0, DEVICES - 1)
    for server, other in zip((words, seeds), reversed(fewer), strict=True):
        with pytest.raises(InputError, match="the difference would show"):
            server.publish(query, other)
    with pytest.raises(InputError, match="the difference would show"):
        servers_of(cohort, book=words_book)[0].publish(query, fewer[1])
    whole = words.collect(query, 0, DEVICES)
    noise = [words._noise(Totals(), query, roll).tolist() for roll in (whole, fewer[0])]
    assert noise[0] != noise[1]  # so that a server that forgot, too, shows no device bare


def test_a_round_that_is_asked_again_is_opened_of_the_same_devices_by_whoever_was_started_anew() -> None:
    """Some devices cannot reach their keeper when a server collects; where servers forget, two sums differ by them."""
    query, books, deaf = asked(), (Keeper(), Keeper()), Deaf(Keeper(), below=0)
    cohort = Cohort(ratings_of(), SECRET, 0, DEVICES, Fraction(1), keeper=deaf)
    ask = Ask(query=query, first=0, stop=DEVICES)

    def totals(book: Keeper) -> Any:
        """What servers that were started anew publish, and for how many devices."""
        servers = servers_of(cohort, book=book)
        both = SumQuerying(
            lambda method, each: [getattr(one, method)(*all_) for one, all_ in zip(servers, each, strict=True)],
            report_progress=lambda _: None,
        )
        statistic, sealed = both.ask(ask)
        return statistic.answered, sealed

    assert cohort.share(WORDS_SERVER, query, 20, DEVICES).refused == 0  # they have booked it
    deaf.below = DEVICES
    some = totals(books[0])
    assert some[0] == DEVICES - 20
    deaf.below = 0
    assert totals(books[0]) == some
    assert totals(books[1])[0] == DEVICES  # the twin: servers that forget


def test_each_server_is_shown_the_other_ones_devices() -> None:
    servers, rolls, shown = servers_of(cohort_of(ratings_of())), list[Any](), list[Any]()

    def both(method: str, each: Sequence[tuple[Any, ...]]) -> Sequence[Any]:
        found = [getattr(server, method)(*arguments) for server, arguments in zip(servers, each, strict=True)]
        if method == "collect":
            rolls.extend(found)
        else:
            shown.extend(roll for _, roll in each)
        return found

    SumQuerying(both, report_progress=lambda _: None).ask(Ask(query=asked(), first=0, stop=DEVICES))
    assert shown[0] is rolls[1]
    assert shown[1] is rolls[0]


@pytest.mark.parametrize("most", [1, 2, 4])
def test_a_total_holds_what_every_rating_and_like_says(most: int) -> None:
    sizes, like, classes, shares = np.array([4, 5]), np.array([[0.9, 0.2], [0.4, 0.7]]), [0.6, 0.4], np.zeros(9)
    for chance, ratings in worlds.holdings(like.tolist(), classes, np.repeat([0, 1], sizes).tolist(), 4):
        for item, liked in ratings.items():
            shares[item] += chance * liked * min(1, most / max(sum(ratings.values()), 1))
    block = BlockParameters(rated=4, like=like, class_shares=np.array(classes), cluster_sizes=sizes)
    moments = Totals(most_likes=most).like_moments(world_of(items=9, rated=4, block=block), Fraction(1), 1e-6)
    assert moments is not None
    assert moments.level == pytest.approx(shares[[0, 4]], rel=1e-12)


def test_totals_are_read_as_shares_of_who_answered() -> None:
    sums = np.arange(ITEMS, dtype=np.int64)
    totals = CountStatistic(sums=sums, ones=0, devices=DEVICES, answered=160, refused=40)
    assert Totals().estimate(asked(), totals, world_of()).value == pytest.approx(sums / 160)


def test_two_servers_agree_on_devices_that_both_could_reach() -> None:
    query, deaf = asked(), Deaf(Keeper(), below=0)
    cohort = Cohort(ratings_of(), SECRET, 0, DEVICES, Fraction(1), keeper=deaf)
    words, seeds = servers_of(cohort)
    cohort.share(WORDS_SERVER, query, 20, DEVICES)
    deaf.below = DEVICES
    fewer = words.collect(query, 0, DEVICES)
    deaf.below = 0
    all_of_them = seeds.collect(query, 0, DEVICES)
    assert (fewer.devices, all_of_them.devices) == (DEVICES - 20, DEVICES)
    for server, other in ((words, all_of_them), (seeds, fewer)):
        with pytest.raises(RollError, match="not the same"):
            server.publish(query, other)
    common = fewer.common(all_of_them)
    rolls = [server.collect(query, 0, DEVICES, common) for server in (words, seeds)]
    assert rolls[0].same_devices(rolls[1])
    sums = words.publish(query, rolls[1]), seeds.publish(query, rolls[0])
    assert sums[0].roll.devices == DEVICES - 20
    assert words.collect(query, 0, DEVICES).same_devices(rolls[0])  # opened, and so the same again
    noise = sum(one._noise(Totals(), query, rolls[0]).view(np.int32).astype(np.int64) for one in (words, seeds))
    assert (opened(*sums) - noise == vectors(ratings_of())[20:].sum(axis=0)).all()


def test_servers_open_only_sums_of_the_same_devices_that_are_enough_under_a_delta_they_agreed_to() -> None:
    ratings = ratings_of()
    words, seeds = servers_of(cohort_of(ratings))
    query = asked()
    words.collect(query, 0, DEVICES)
    other = seeds.collect(query, 0, DEVICES)
    missing = bytes([other.answered[0] ^ 1]) + other.answered[1:]
    with pytest.raises(RollError, match="not the same"):
        words.publish(query, ShareRoll(query_id=query.id, first=0, count=DEVICES, answered=missing))
    strict = Agreement(trust=TWO_SERVERS, answers=1, epsilon=Fraction(1), delta=1e-9)
    with pytest.raises(AgreementError, match="asks for delta 1e-06; agreed was 1e-09"):
        servers_of(cohort_of(ratings), agreement=strict)[0].collect(strict.stamped(query), 0, DEVICES)
    many = asked(honest=DEVICES, least_answers=DEVICES + 1)
    words, seeds = servers_of(cohort_of(ratings))
    roll = seeds.collect(many, 0, DEVICES)
    with pytest.raises(WithheldError, match="nothing is opened"):
        words.publish(many, roll)


def test_queries_that_promise_more_than_their_noise_keeps_are_answered_by_nobody() -> None:
    good = asked()
    for parameters, error in (
        ({"deviation": good.parameters["deviation"] / 2}, "promises delta"),
        ({"deviation": 0.0}, "both are 0"),
        ({"changes": 7.0}, "changes 7"),
        ({HONEST: 20.0}, "noise needs 20"),
        ({HONEST: 0.5}, "whole number"),
    ):
        query = replace(good, parameters={**good.parameters, **parameters})
        cohort = cohort_of(ratings_of())
        with pytest.raises(InputError, match=error):
            cohort.share(WORDS_SERVER, query, 0, DEVICES)
        with pytest.raises(InputError, match=error):
            servers_of(cohort)[0].collect(query, 0, DEVICES)
        assert cohort.ledger.spent(0) == 0


def test_sums_whose_sign_would_be_lost_are_refused() -> None:
    query = asked()
    require_readable(query, 1 << 30, 40.0)
    for devices, deviation in ((1 << 31, 0.0), ((1 << 31) - 100, 10.0)):
        with pytest.raises(InputError, match="whose sign would be lost"):
            require_readable(query, devices, deviation)


def test_devices_beyond_their_budget_give_neither_share() -> None:
    cohort, query = cohort_of(ratings_of(), budget=Fraction(1, 2)), asked()
    for side in (WORDS_SERVER, SEEDS_SERVER):
        share = cohort.share(side, query, 0, DEVICES)
        assert share.refused == DEVICES
        assert not any(share.content)
        assert not share.heard().any()


def test_no_share_or_sum_is_in_what_an_error_or_a_log_shows() -> None:
    cohort, query = cohort_of(ratings_of()), asked()
    shares = [cohort.share(side, query, 0, DEVICES) for side in (WORDS_SERVER, SEEDS_SERVER)]
    for one in (*shares, *published(query, *servers_of(cohort), DEVICES)):
        assert len(repr(one)) < 500, "neither words nor seeds"


class Route:
    def __init__(self, *shares: Any) -> None:
        self._shares = shares

    def shares(self, *_: Any) -> Iterator[Any]:
        yield from self._shares


def test_servers_refuse_what_are_no_shares_of_the_query() -> None:
    cohort, query = cohort_of(ratings_of(), budget=None), asked()
    whole, part, seeds = (
        cohort.share(WORDS_SERVER, query, 0, DEVICES),
        cohort.share(WORDS_SERVER, query, 0, 50),
        cohort.share(SEEDS_SERVER, query, 0, DEVICES),
    )
    for shares, error in (
        ((part,), "sent no share"),
        ((part, part), "no share of"),
        ((whole, part), "no share of"),
        ((seeds,), "a WordShare is expected"),
        ((b"words",), "a WordShare is expected"),
    ):
        with pytest.raises(InputError, match=error):
            WordServer(bytes(16), b"", Route(*shares)).collect(query, 0, DEVICES)


WRONG: dict[str, Any] = {
    "vector_bytes": bytes(4 * 5 * ITEMS - 1),
    "answered": b"",
    "width": 0,
    "first": -1,
    "query_id": b"x",
}


@pytest.mark.parametrize("field", WRONG)
def test_shares_whose_parts_do_not_fit_are_refused(field: str) -> None:
    share: Any = cohort_of(ratings_of()).share(WORDS_SERVER, asked(), 0, 5)
    with pytest.raises(InputError):
        replace(share, **{field: WRONG[field]})


class Handle:
    """A host behind a handle; some of its answers are lost."""

    def __init__(self, cohort: Cohort, lost: int) -> None:
        self.share = self
        self.calls, self._cohort, self._lost = list[int](), cohort, lost

    def remote(self, permit: bytes, query: Query, first: int, stop: int) -> Any:
        self.calls.append(first)
        self._lost -= 1
        return None if self._lost >= 0 else self._cohort.share(side_of(permit, SECRET), query, first, stop)


def taken(answer: Any) -> Any:
    if answer is None:
        raise ray.exceptions.ActorUnavailableError("the host is gone", None)
    return answer


@pytest.mark.parametrize("lost", [0, 2, ray_shares.ATTEMPTS])
def test_a_block_whose_host_was_lost_is_asked_again_and_comes_in_its_place(
    lost: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gathering, "BLOCK_WORDS", 50 * ITEMS)
    monkeypatch.setattr(ray_shares, "PAUSE", 0.0)
    monkeypatch.setattr(ray_shares, "_result", taken)
    monkeypatch.setattr(ray, "put", lambda one: one)
    cohort, query = cohort_of(ratings_of()), asked()
    broken, good = Handle(cohort, lost), Handle(cohort, 0)
    route = ray_shares.RayShares([(0, 100), (100, DEVICES)], [broken, good])
    server = WordServer(bytes(16), share_permit(SECRET, WORDS_SERVER), route)
    if lost == ray_shares.ATTEMPTS:
        broken._lost = 1 << 10
        with pytest.raises(LostError, match="devices 0 to 49 gave no share"):
            server.collect(query, 0, DEVICES)
        return
    transcript = server.publish(query, server.collect(query, 0, DEVICES)).transcript
    whole, _ = servers_of(cohort)
    assert whole.publish(query, whole.collect(query, 0, DEVICES)).transcript == transcript
    assert len(broken.calls) == 2 + lost


def test_a_book_behind_an_actor_says_what_was_opened_and_nothing_is_opened_without_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ray_shares, "_result", taken)
    query, mask, keeper = asked(), np.arange(DEVICES) % 3 > 0, Keeper()

    def openings(opener: str, remote: Any = keeper.book) -> Openings:
        actor = SimpleNamespace(book=SimpleNamespace(remote=remote))
        return Openings(opener, BookActor(actor, ray_shares._entries))

    openings("one").note(query, 0, mask)
    assert np.array_equal(openings("one").mask(query, 0, DEVICES), mask)  # type: ignore[arg-type] # not None
    assert openings("other").mask(query, 0, DEVICES) is None
    slow = openings("one")
    assert slow.mask(query, 0, DEVICES) is not None
    openings("one").note(query, 2 * DEVICES, mask)  # a line that the slow one has not read
    slow.note(query, DEVICES, mask)
    assert len(keeper.read(0, 1 << 40, opener="one")[1]) == 3
    with pytest.raises(LostError, match="the book of what was opened was lost"):
        openings("one", lambda *_: None).note(query, 0, mask)
