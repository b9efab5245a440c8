"""Devices, a shuffler and two servers were promised something, and each refuses by itself what exceeds it."""

import json
import zlib
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import cache, partial
from typing import Any

import numpy as np
import pytest
import worlds
from evidence import size
from messages import forged
from runs import complains, here, line_of, present, small
from worlds import in_world

from actors.device import Cohort
from actors.host import DeviceHost
from actors.keeper import Keeper, refusals_of
from actors.shares import share_permit
from coordinator.aggregators.gathering import LocalShares, ShareServer
from coordinator.aggregators.seed_server import SeedServer
from coordinator.aggregators.word_server import WordServer
from coordinator.protocol import noise
from coordinator.protocol.agreement import Agreement, PlannedRound
from coordinator.protocol.amplification import AnyRandomizer
from coordinator.protocol.budget import Epsilon, as_float
from coordinator.protocol.errors import (
    AgreementError,
    BlindrecError,
    LedgerError,
    WithheldError,
)
from coordinator.protocol.mechanisms import mechanism_of
from coordinator.protocol.mechanisms.maxsense import MaxSense, MultiMaxSense
from coordinator.protocol.mechanisms.oracles import Grr, Hadamard, Oue, Subset
from coordinator.protocol.mechanisms.pairwise import Pairwise
from coordinator.protocol.mechanisms.sign import Sign
from coordinator.protocol.mechanisms.totals import Totals
from coordinator.protocol.messages import Query, Release
from coordinator.protocol.randomizers import randomizer_of
from coordinator.protocol.shared_vector import CHANGES, DEVIATION, HONEST
from coordinator.protocol.shares import SIDES, RollError, secret_of
from coordinator.protocol.trust import OPENER, ShuffledRound
from coordinator.protocol.trust_models import SHUFFLED, TWO_SERVERS
from coordinator.shuffler import Shuffler
from scenarios.backends.selection import InProcess
from scenarios.backends.session import InMemoryRounds
from scenarios.config.resolve import ResolvedRun, resolve
from scenarios.config.scenario import Scenario
from scenarios.families.main.main_columns import record
from scenarios.families.main.run import run

ITEMS, RATED = 40, 5


@cache
def spec_of(**settings: Any) -> ResolvedRun:
    scenario = {"design": "grr", "trust": "shuffled", "items": ITEMS, "rated": RATED, **settings}
    return resolve(Scenario.model_validate(scenario))


def query_of(design: Any, epsilon: Epsilon, number: int = 0, **changes: Any) -> Query:
    query: Query = design.query(round_number=number, public_seed=worlds.PUBLIC, epsilon=epsilon)
    return replace(query, **changes) if changes else query


def cohort_of(agreement: Agreement, users: int, keeper: Keeper | None = None, items: int = ITEMS) -> Cohort:
    ratings = worlds.block_ratings(worlds.world(items=items, rated=RATED), users)
    return Cohort(ratings, worlds.SECRET, 0, users, agreement.budget, keeper=keeper, agreement=agreement)


def silent_release(cohort: Cohort, query: Query, first: int, stop: int) -> Release:
    """What devices release that check and charge a query, and then say nothing but who answers."""
    booked = cohort.book(query, first, stop)
    questions = np.zeros(stop - first, np.uint64) if query.own_questions else None
    return booked.release(np.zeros((stop - first, query.bits), np.uint8), questions=questions)


def shuffled(agreement: Agreement, query: Query, release: Release, book: Keeper | None = None) -> ShuffledRound:
    """What an honest shuffler makes of a block's release."""
    agreement.require_amplified(query, release.count)  # before anybody is asked
    shuffler = Shuffler(query, agreement, agreement.openings(OPENER, book))
    shuffler.take(release)
    return shuffler.close()


# Refused behind a shuffler: each line of what a server might ask, by devices and by the shuffler.


def test_a_group_smaller_than_its_bound_needs_is_refused() -> None:
    spec = spec_of(design="pairs", users=60_000)
    agreement, policy = spec.agreement, spec.policy
    queries = policy.rehearsal(60_000)  # type: ignore[attr-defined] # of groups
    query = agreement.stamped(max((query for query, _ in queries), key=lambda query: as_float(query.epsilon)))
    assert query.epsilon == agreement.budget
    least = next(count for group, count in queries if group.epsilon == query.epsilon) * 10 // 9
    agreement.require_amplified(query, least + 1)
    for devices in (1, 1000, least // 2, int(0.97 * least)):
        with complains(
            f"asked of {devices:,} devices", "lets out more than epsilon 1 and delta 1e-06", "ask more devices"
        ):
            agreement.require_amplified(query, devices)
    with complains("asked of 1 devices, of which 0 count"):
        shuffled(
            agreement,
            query,
            Release(query_id=query.id, first=0, count=1, width=query.bits, bits=bytes(-(-query.bits // 8))),
        )


def test_all_of_a_devices_budget_in_one_query_is_refused_by_device_and_shuffler() -> None:
    spec = spec_of(design="set", users=100_000, policy="fixed", rounds=4, answers_per_device=4)
    agreement, devices = spec.agreement, cohort_of(spec.agreement, 10)
    query = agreement.stamped(query_of(spec.design, agreement.budget))
    for refuses in (lambda: devices.answer(query, 0, 10), lambda: agreement.require_amplified(query, 100_000)):
        with complains("has a local epsilon above", "agreed for one of 4 answers; lower it"):
            refuses()
    assert devices.ledger.spent(0) == 0


def test_another_design_of_which_a_report_says_more_is_refused_and_any_other_where_designs_are_named() -> None:
    agreement = spec_of(design="set", users=100_000, items=200, rated=20).agreement
    loose = replace(agreement, designs=())
    designs: list[Any] = [in_world(MaxSense, items=200, rated=20), in_world(Sign, items=200, rated=20)]
    for query in (query_of(one, agreement.budget, own_questions=True) for one in designs):
        with complains("lets out more than epsilon 1"):
            cohort_of(loose, 10, items=200).answer(loose.stamped(query), 0, 10)
        with complains("agreed was set, ask that"):
            cohort_of(agreement, 10, items=200).answer(agreement.stamped(query), 0, 10)


def test_questions_by_address_and_what_has_no_noise_are_hidden_by_nobody() -> None:
    agreement = Agreement(trust=SHUFFLED, answers=1, epsilon=Fraction(1), delta=1e-6, devices=100_000)
    with complains("public address"):
        agreement.require_amplified(
            agreement.stamped(query_of(in_world(MaxSense, items=ITEMS, rated=RATED), Fraction(1))), 10**5
        )
    for epsilon in (None, Fraction(10**6)):
        with complains("lets out more"):
            agreement.require_amplified(
                agreement.stamped(query_of(in_world(Grr, items=ITEMS, rated=RATED), epsilon)), 10**5
            )


def test_an_answer_beyond_the_last_share_is_refused_however_cheap_it_is() -> None:
    agreement = Agreement(budget=Fraction(1), answers=4, trust=SHUFFLED, epsilon=Fraction(1), delta=1e-6)
    keeper, grr = Keeper(), in_world(Grr, items=ITEMS, rated=RATED)
    devices = cohort_of(agreement, 5, keeper)
    queries = [agreement.stamped(query_of(grr, Fraction(1, 50), number)) for number in range(5)]
    assert [devices.answer(query, 0, 5).refused for query in queries] == [0, 0, 0, 0, 5]
    assert devices.answer(queries[0], 0, 5).refused == 0  # repeated
    assert devices.ledger.spent(0) == Fraction(4, 50)
    rounds = [(query.id, query.epsilon, 0, 5, refused) for query, refused in zip(queries, [0, 0, 0, 0, 5], strict=True)]
    (refusal,) = refusals_of(keeper, 5, agreement.budget, rounds, answers=4)
    assert str(refusal) == "5 had given as many answers as were agreed; ask others, or agree on more"


def test_a_short_round_that_is_told_counts_on_nobody_who_refused() -> None:
    """A server spends the others' answers first, and then asks all of them, of whom a single one is left."""
    spec = spec_of(users=2000, short_rounds="tell")
    agreement = spec.agreement
    devices, local = cohort_of(agreement, 2000), agreement.budget
    spent = agreement.stamped(query_of(spec.design, local, 0))
    query = agreement.stamped(query_of(spec.design, local, 1))
    for first, stop in ((0, 1000), (1001, 2000)):
        silent_release(devices, spent, first, stop)
    release = silent_release(devices, query, 0, 2000)
    assert release.refused == 1999
    assert shuffled(agreement, query, release).release is None
    absent = replace(release, refused=0)  # as after a power cut, which no server brings about
    assert shuffled(agreement, query, absent).release is not None


# Refused of two servers.

PROMISE = Agreement(trust=TWO_SERVERS, budget=Fraction(1), answers=1, epsilon=Fraction(1), delta=1e-6)


def totals_of(epsilon: Epsilon = Fraction(1), number: int = 0, items: int = 8, **settings: Any) -> Query:
    return worlds.totals_query(epsilon, number=number, items=items, **{"most": 2, **settings})


def servers_of(cohort: Cohort, agreement: Agreement, book: Keeper | None = None) -> list[ShareServer[Any]]:
    host = DeviceHost(lambda *_, **__: cohort, None, worlds.SECRET, [(cohort.first, cohort.stop)])
    route = LocalShares(host.share, [(cohort.first, cohort.stop)])
    kinds: tuple[type[ShareServer[Any]], ...] = (WordServer, SeedServer)
    return [
        kind(secret_of(0, side), share_permit(worlds.SECRET, side), route, agreement, book)
        for kind, side in zip(kinds, SIDES, strict=True)
    ]


def opened(servers: Sequence[ShareServer[Any]], query: Query, first: int, stop: int) -> Any:
    rolls = [server.collect(query, first, stop) for server in servers]
    for server, other in zip(servers, rolls[::-1], strict=True):
        server.publish(query, other)
    return rolls[0]


NOISE: dict[str, tuple[Agreement, Query, str]] = {
    "neighbours": (PROMISE, totals_of(neighbours="add-remove"), "noise for neighbours add-remove; agreed was replace"),
    "pure": (
        replace(PROMISE, delta=0.0),
        totals_of(neighbours="add-remove", delta=0.0),
        "noise for neighbours add-remove; agreed was replace",
    ),
    "devices": (
        PROMISE,
        totals_of(honest=20, least_answers=25),
        "noise of so many devices (0: of servers) 20; agreed was 0",
    ),
    "servers": (replace(PROMISE, noise_of=20, least_answers=25), totals_of(), "(0: of servers) 0; agreed was 20"),
    "few": (
        replace(PROMISE, noise_of=20, least_answers=25),
        totals_of(honest=20, least_answers=20),
        "fewest answers 20; agreed was 25",
    ),
    "delta": (replace(PROMISE, answers=2), totals_of(Fraction(1, 2)), "asks for delta 1e-06; agreed was 5e-07"),
    "some delta": (replace(PROMISE, delta=0.0), totals_of(), "asks for delta 1e-06; agreed was 0"),
    "epsilon": (PROMISE, totals_of(Fraction(2)), "noise for epsilon 2; agreed was 1"),
    "none": (PROMISE, totals_of(None), "noise for epsilon inf; agreed was 1"),
    "design": (replace(PROMISE, designs=("pair-totals",)), totals_of(), "agreed was pair-totals, ask that"),
    "trust": (replace(PROMISE, trust=SHUFFLED), totals_of(), "agreed was trust shuffled"),
}


@pytest.mark.whole
@pytest.mark.parametrize("kind", NOISE)
def test_noise_that_was_not_agreed_is_refused_by_devices_and_by_each_server(kind: str) -> None:
    agreement, query, words = NOISE[kind]
    query, cohort = agreement.stamped(query), cohort_of(agreement, 30, items=8)
    for server, side in zip(servers_of(cohort, agreement), SIDES, strict=True):
        for refuses in (
            server.warm_up,
            partial(server.collect, first=0, stop=30),
            partial(cohort.share, side, first=0, stop=30),
        ):
            with pytest.raises(AgreementError) as raised:
                refuses(query)
            assert words in str(raised.value)
    assert cohort.ledger.spent(0) == 0


@pytest.mark.parametrize("held", [True, False])
def test_deltas_are_booked_fifty_rounds_of_one_in_a_million_are_not_one(held: bool) -> None:
    """Servers refuse alone, too, where devices hold no agreement, and when they were started anew."""
    ratings, book = worlds.block_ratings(worlds.world(items=8, rated=RATED), 30), Keeper()
    cohort = cohort_of(PROMISE, 30, items=8) if held else Cohort(ratings, worlds.SECRET, 0, 30, Fraction(1))
    heard, refusals = [], 0
    for number in range(size(50, 5)):
        try:
            roll = opened(servers_of(cohort, PROMISE, book), PROMISE.stamped(totals_of(Fraction(1, 50), number)), 0, 30)
            heard.append(roll.devices)
        except AgreementError as error:
            refusals += "opened 1 answers before" in str(error)
    assert heard == [30] + [0] * (size(50, 5) - 1) if held else heard == [30]
    assert refusals == (0 if held else size(50, 5) - 1)


# Refused under another agreement.

FULL = Agreement(
    trust=SHUFFLED, designs=("grr",), users=100, budget=Fraction(3), answers=2, epsilon=Fraction(6), delta=1e-6
)
CHANGES_OF: dict[str, Any] = {
    "composed": True,
    "levels": (0.1, 0.05),
    "trust": "local",
    "designs": ("grr", "oue"),
    "users": 101,
    "budget": Fraction(4),
    "answers": 3,
    "epsilon": Fraction(7),
    "delta": 2e-6,
    "neighbours": "add-remove",
    "devices": 99,
    "counted": 0.5,
    "honest": 0.5,
    "withhold": False,
    "noise_of": 1,
    "least_answers": 1,
    "memoized": True,
    "counter": 12,
    "rounds": (PlannedRound(1, 0, 100, Fraction(1)), PlannedRound(2, 0, 50, Fraction(2))),
}


def test_every_field_is_in_the_digest_and_stored_texts_come_back() -> None:
    assert CHANGES_OF.keys() == {part.name for part in fields(Agreement)}
    every = [FULL, *(replace(FULL, **{name: value}) for name, value in CHANGES_OF.items())]
    assert len({one.digest for one in every}) == len(every)
    assert all(Agreement.of_content(json.loads(json.dumps(one.content()))) == one for one in [*every, Agreement()])
    for content in (
        {},
        {**FULL.content(), "delta": "x"},
        {**FULL.content(), "more": 1},
        {**FULL.content(), "budget": 0.5},
    ):
        with complains("no agreement"):
            Agreement.of_content(content)


@pytest.mark.whole
@pytest.mark.parametrize("name", sorted(CHANGES_OF.keys() - {"rounds"}))  # which refuse a query of no period first
def test_kept_books_refuse_all_under_another_agreement_also_what_was_answered(name: str) -> None:
    ledger, book, query = Keeper(), Keeper(), query_of(in_world(Grr, items=ITEMS, rated=RATED), Fraction(1))
    release = cohort_of(FULL, 100, ledger).answer(FULL.stamped(query), 0, 100)
    assert shuffled(FULL, FULL.stamped(query), release, book).answered == 100
    other = replace(FULL, **{name: CHANGES_OF[name]})
    began = FULL.digest.hex()[:8]
    devices = cohort_of(other, 100, ledger)
    with complains(f"the ledger of devices 0 to 99 was begun under agreement {began}"):
        devices.answer(other.stamped(query), 0, 100)
    with complains(f"was asked under agreement {began}; agreed here was {other.digest.hex()[:8]}"):
        devices.answer(FULL.stamped(query), 0, 100)
    with complains(f"was asked under agreement {began}"):
        other.require_amplified(FULL.stamped(query), 100)
    with complains(f"the book of the shuffler was begun under agreement {began}"):
        other.openings(OPENER, book).mask(query, 0, 100)


def test_a_query_without_the_field_or_with_other_bytes_is_refused() -> None:
    query, devices = FULL.stamped(query_of(in_world(Grr, items=ITEMS, rated=RATED), Fraction(1))), cohort_of(FULL, 10)
    for stamp in (b"", bytes(16)):
        with complains("was asked under agreement"):
            devices.answer(replace(query, agreement=stamp), 0, 10)
    for bad in (bytes(15), "a" * 16, None, bytearray(16), 1):
        with complains("digest of the agreement"):
            devices.answer(forged(query, agreement=bad), 0, 10)
    with complains("budget is 4.0, but 3.0 was agreed"):
        Cohort(devices._ratings, worlds.SECRET, 0, 10, Fraction(4), agreement=FULL)


NOT_AGREED: dict[str, tuple[object, ...]] = {
    "trust": ("nobody",),
    "designs": (["grr"], (1,)),
    "users": (0,),
    "budget": (1.0,),
    "answers": (0, None),
    "delta": (2.0,),
    "neighbours": ("both",),
    "devices": (1 << 41,),
    "counted": (-0.1,),
    "honest": (0.0,),
    "withhold": (1,),
    "noise_of": (-1,),
    "least_answers": (1.0,),
}


def test_what_cannot_be_agreed_is_refused_in_a_line() -> None:
    for name, values in NOT_AGREED.items():
        for value in values:
            line_of(lambda name=name, value=value: replace(FULL, **{name: value}))  # type: ignore[misc]


# Read with a schema.


BAD: list[Any] = [None, -1, 1.5, [], 10**30]


def test_a_book_of_openings_with_other_content_is_refused_in_a_line_and_in_bounded_memory() -> None:
    packed, query = b64encode(zlib.compress(bytes([255]))).decode(), bytes(16).hex()
    bomb = b64encode(zlib.compress(bytes(1 << size(27, 24)))).decode()
    good = [query, 0, 8, packed, ""]
    lines: list[Any] = [
        [],
        good[:4],
        [*good, ""],
        {"a": 1},
        [query, 0, 1 << 33, bomb, ""],
        [query, 0, 8, bomb, ""],
    ]
    lines += [[*good[:at], bad, *good[at + 1 :]] for at in range(5) for bad in BAD]
    lines += [[*good[:at], "x", *good[at + 1 :]] for at in range(5)]
    for content in lines:
        book, agreement = Keeper(), replace(FULL, users=100)
        book.book(0, 100, 0, [json.dumps(content)], OPENER)
        with pytest.raises(LedgerError) as raised:
            agreement.openings(OPENER, book).mask(query_of(in_world(Grr, items=ITEMS, rated=RATED), Fraction(1)), 0, 8)
        assert "is no opening of 100 devices" in str(raised.value)
        assert "\n" not in str(raised.value)


# At random: a malicious server asks what it likes, and what is opened is held against the promise.


def refuse_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: whoever holds an agreement refuses nothing by it, and nothing is withheld."""
    for name in ("require", "require_amplified", "require_noise"):
        monkeypatch.setattr(Agreement, name, lambda *_, **__: None)
    monkeypatch.setattr(Agreement, "keeps", lambda *_: True)
    monkeypatch.setattr(Agreement, "reports", lambda *_: 0)


DESIGNS: list[tuple[Any, bool]] = [
    (in_world(Grr, items=ITEMS, rated=RATED), False),
    (in_world(Oue, items=ITEMS, rated=RATED), False),
    (in_world(Subset, items=ITEMS, rated=RATED), False),
    (in_world(Hadamard, items=ITEMS, rated=RATED), True),
    (in_world(MaxSense, items=ITEMS, rated=RATED), True),
    (in_world(MultiMaxSense, items=ITEMS, rated=RATED, questions=2), True),
    (in_world(Sign, items=ITEMS, rated=RATED, vectors=4), True),
    (in_world(Pairwise, items=ITEMS), True),
]


@dataclass
class Server:
    """A malicious server behind a shuffler, and what was opened to it: queries and answers by device."""

    agreement: Agreement
    coins: np.random.Generator
    users: int

    def __post_init__(self) -> None:
        self.ledger, self.book, self.queries = Keeper(), Keeper(), list[Query]()
        self.cohort = cohort_of(self.agreement, self.users, self.ledger)
        self.answers, self.spent = np.zeros(self.users, int), np.zeros(self.users)
        self.opened, self.worst, self.seen = 0, -np.inf, set[tuple[bytes, int]]()

    def ask(self) -> None:
        coins, agreement = self.coins, self.agreement
        if coins.random() < 0.2 and self.queries:
            query = self.queries[coins.integers(len(self.queries))]
        else:
            design, own = DESIGNS[coins.integers(len(DESIGNS))]
            share, local = present(agreement.share[0]), present(agreement.budget) / present(agreement.answers)
            epsilon = (share, share / 50, local, local * present(agreement.answers), 2 * local)[coins.integers(5)]
            query = agreement.stamped(query_of(design, epsilon, len(self.queries), own_questions=own))
            self.queries.append(query)
        first, stop = sorted(coins.integers(0, self.users + 1, 2).tolist()) if coins.random() < 0.6 else (0, self.users)
        if coins.random() < 0.2:  # devices were started anew
            self.cohort = cohort_of(agreement, self.users, self.ledger)
        try:
            release = silent_release(self.cohort, query, first, stop)
            handed = shuffled(agreement, query, release, self.book)
        except BlindrecError:
            return
        if handed.release is None or not handed.answered:
            return
        self.opened += 1
        mask = agreement.openings(OPENER, self.book).mask(query, first, stop - first)
        for device in (first + np.flatnonzero(present(mask))).tolist():
            if (query.id, device) not in self.seen:
                self.seen.add((query.id, device))
                self.answers[device] += 1
                self.spent[device] += as_float(query.epsilon)
        self.worst = max(self.worst, excess(agreement, query, handed.answered))


def excess(agreement: Agreement, query: Query, answered: int) -> float:
    """By how much of delta a report among so many exceeds an answer's share, as its bounds have it."""
    epsilon, delta = as_float(agreement.share[0]), agreement.share[1]
    honest, local = int(answered * agreement.honest), as_float(query.epsilon)
    if local <= epsilon:
        return 0.0
    bounds: list[Any] = [randomizer_of(mechanism_of(query.design), query, query.design).bound, AnyRandomizer()]
    return float(min(bound.delta(epsilon, local, max(honest, 1)) for bound in bounds)) - delta


def played(seed: int, queries: int) -> Server:
    """A random promise, and a malicious server that asks so many queries of those who hold it."""
    coins = np.random.default_rng(seed)
    users, answers = int(coins.choice([300, 2000])), int(coins.integers(1, 4))
    promise = {"answers": answers, "epsilon": Fraction(int(coins.choice([1, 4])) * answers), "delta": 1e-4 * answers}
    agreement = Agreement(
        trust=SHUFFLED,
        users=users,
        budget=present(promise["epsilon"]) + Fraction(int(coins.integers(1, 4))),  # type: ignore[operator]
        devices=users // int(coins.integers(1, 3)),
        counted=float(coins.choice([0.9, 0.5])),
        honest=float(coins.choice([1.0, 0.9])),
        withhold=bool(coins.integers(2)),
        **promise,  # type: ignore[arg-type] # as above
    )
    server = Server(agreement, coins, users)
    for _ in range(queries):
        server.ask()
    return server


def test_nothing_that_a_malicious_server_is_shown_by_a_shuffler_exceeds_an_answers_share() -> None:
    servers = [played(seed, 50) for seed in range(size(400, 8))]
    assert sum(server.opened for server in servers) > 2 * len(servers)
    assert max(server.worst for server in servers) <= 0
    for server in servers:
        assert server.answers.max() <= present(server.agreement.answers)
        assert server.spent.max() <= as_float(server.agreement.budget) * (1 + 1e-9)


def test_without_their_checks_it_would_be_shown_more(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_nothing(monkeypatch)
    assert max(played(seed, 20).worst for seed in range(3)) > 0
    assert max(max(sums(seed, 10)) for seed in range(3)) > 1e-7


def sums(seed: int, queries: int) -> tuple[float, float, float]:
    """What of two servers' promise a malicious coordinator wears out: of all devices the most of epsilon and of delta,
    and by how much some sum exceeds the delta that it says, under the neighbours that were promised."""
    coins = np.random.default_rng(seed)
    users, items, answers = 30, 8, int(coins.integers(1, 4))
    by_devices = bool(coins.integers(2))
    agreement = Agreement(
        trust=TWO_SERVERS,
        users=users,
        budget=Fraction(1),
        answers=answers,
        epsilon=Fraction(1),
        delta=1e-6 * answers,
        neighbours=str(coins.choice(["replace", "add-remove"])),
        noise_of=15 * by_devices,
        least_answers=20 * by_devices,
    )
    ledger, book, asked = Keeper(), Keeper(), list[Query]()
    cohort, spent, worst = cohort_of(agreement, users, ledger, items), np.zeros((2, users)), -np.inf
    seen = set[tuple[bytes, int]]()
    for number in range(queries):
        honest = int(coins.choice([0, 15]))
        settings = {
            "neighbours": str(coins.choice(["replace", "add-remove"])),
            "delta": float(coins.choice([0, 1e-6, 2e-6])),
        }
        settings |= {"honest": honest, "least_answers": (20 if honest else 0), "most": int(coins.integers(1, 3))}
        query = agreement.stamped(totals_of(Fraction(int(coins.integers(1, 5)), 4), number, items, **settings))
        if asked and coins.random() < 0.2:
            query = asked[coins.integers(len(asked))]
        asked.append(query)
        first, stop = sorted(coins.integers(0, users + 1, 2).tolist()) if coins.random() < 0.5 else (0, users)
        try:
            roll = opened(servers_of(cohort, agreement, book), query, first, stop)
        except (BlindrecError, RollError, WithheldError):
            continue
        delta = loss(query, agreement.neighbours, by_devices=by_devices)
        worst = max(worst, delta - query.parameters["delta"])
        for device in (first + np.flatnonzero(roll.mask())).tolist():
            if (query.id, device) not in seen:
                seen.add((query.id, device))
                spent[:, device] += as_float(query.epsilon), query.parameters["delta"]
    return spent[0].max() - 1, spent[1].max() - agreement.delta, worst


def loss(query: Query, neighbours: str, *, by_devices: bool) -> float:
    """The delta of a sum at its query's epsilon, by the law of its noise, under a relation of neighbours."""
    changes = Totals().ones(query) * (2 if neighbours == "replace" else 1)
    deviation, devices = query.parameters[DEVIATION], query.parameters[HONEST] > 0
    if devices != by_devices:
        return 1.0  # noise that whoever should have added it did not
    if deviation:
        law = noise.skellam_delta if devices else noise.gaussian_delta
        return law(deviation, changes=changes, epsilon=present(query.epsilon))
    return 0.0 if query.parameters[CHANGES] >= changes else 1.0


def test_sums_that_two_servers_open_lose_no_more_than_was_promised() -> None:
    results = [sums(seed, 30) for seed in range(size(100, 6))]
    assert all(max(one) <= 1e-12 for one in results)
    assert sum(one[2] > -np.inf for one in results) > len(results) // 2


# What runs on, and what a result states.


def test_a_results_delta_is_at_least_that_of_the_sums_that_were_opened() -> None:
    finished = here(small(design="totals", trust="two-servers", delta=1e-7))
    assert record(finished)["delta"] == 1e-7
    (ask,) = finished.outcome.state.asked
    larger = replace(ask.query, parameters={**ask.query.parameters, "delta": 3e-7})  # as nobody who checks would open
    state = replace(finished.outcome.state, asked=(replace(ask, query=larger),))
    assert record(replace(finished, outcome=replace(finished.outcome, state=state)))["delta"] == 3e-7


def test_stored_rounds_of_another_agreement_are_not_replayed() -> None:
    rounds, scenario = InMemoryRounds(), small(policy="fixed", rounds=2)
    run(scenario, InProcess(1), rounds=rounds)
    over = rounds.rounds[0]
    foreign = replace(over, ask=replace(over.ask, query=replace(over.ask.query, agreement=bytes(16))))
    with complains("query 0 (maxsense", "was asked under agreement 00000000"):
        run(scenario, InProcess(1), rounds=InMemoryRounds(foreign))
