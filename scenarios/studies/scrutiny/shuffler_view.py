"""Audits of shuffled reports: rounds of real devices behind the real shuffler, and what a server infers of one of them.

The attacker sees what the shuffler hands on, knows what all other devices hold, and which two inputs the victim has by
a fair coin. What is measured is held against the central epsilon that is claimed at the audit's delta.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import permutations, product
from typing import Any, NamedTuple, Protocol

import numpy as np

from actors.ratings import RatingsBlock
from actors.seeds import Coins
from coordinator.protocol.agreement import Agreement
from coordinator.protocol.amplification import KnownOthers, ShufflerBound, largest_local_epsilon, shuffled_epsilon
from coordinator.protocol.arrays import Bits, Bits2, Bools, Floats, Floats2, Ints, Words, Words2
from coordinator.protocol.budget import as_float
from coordinator.protocol.coins import as_words, derive
from coordinator.protocol.custom import Mechanism
from coordinator.protocol.errors import InputError
from coordinator.protocol.hashing import device_streams
from coordinator.protocol.messages import Query, Release, pack
from coordinator.protocol.randomizers import Randomizer, randomizer_of
from coordinator.protocol.trust import ShuffledRound
from coordinator.protocol.trust_models import SHUFFLED
from coordinator.shuffler import Shuffler
from scenarios.config.mechanism_settings import designs as local_mechanisms
from scenarios.studies.scrutiny.attacks import Game, Observations, View, central_audit, require_game
from scenarios.studies.scrutiny.mechanism_under_test import (
    PLAIN,
    TINY,
    Choice,
    Rated,
    Size,
    inputs,
    stored,
)
from scenarios.studies.scrutiny.release_laws import MOST_BITS, PILOTS, ClaimedLaw, floats, patterns_of
from scenarios.studies.scrutiny.shuffling import finite_epsilon, shuffled_subject
from scenarios.studies.scrutiny.verdicts import AttackResult, Audit

USERS, DELTA = 200, 1e-3
FEWEST_ROUNDS = 1500  # of an attack, at least
BLOCK = 1 << 18  # reports that are drawn at once
QUESTIONS, THIRDS = 1 << 14, 6  # Questions of devices' own that are tried, and inputs of all others
MOST_SKETCHES = 24  # sketches of which every three are compared, to find the worst
SIMULATIONS = 16  # reports of the victim that an attacker draws itself, with coins of its own, for either input
TRUST = 4.0  # simulated reports that the stated channel counts for, beside those
WIDE = 64  # different reports of which a learner counts every one
PRESENT = 4  # other devices that answer in short rounds, on average
LONGER = 8  # bits by which one report is longer than others where lengths are told apart
ABSENT = -1  # stands for a report that is not there


class RoundShuffler(Protocol):
    """What is audited besides the mechanism: a shuffler of one round."""

    def take(self, release: Release) -> None:
        """Take a block's release."""
        ...

    def close(self) -> ShuffledRound:
        """Return what the server gets of the round."""
        ...


MakeShuffler = Callable[[Query, Agreement], RoundShuffler]


class ReportNumbers:
    """Numbers of reports: their bits, or where devices draw questions, what these say of three inputs, and the bits."""

    def __init__(self, law: ClaimedLaw, rows: Sequence[Rated] = ()) -> None:
        self._law, self._rows = law, rows
        self._kinds = dict[bytes, int]()  # Of sketches that three inputs have under one question
        if rows:
            question_words = _questions(law, QUESTIONS)
            kinds, where, often = np.unique(
                self._sketches(question_words), axis=0, return_index=True, return_counts=True
            )
            self._kinds = {kind.tobytes(): number for number, kind in enumerate(kinds)}
            self.chances = np.concatenate(
                [
                    share * self._of_question(question_words[index])
                    for share, index in zip(often / question_words.size, where, strict=True)
                ],
                axis=1,
            )

    def numbers(self, bits: Bits2, questions: Words | None) -> Ints:
        """Return the number of each report; one whose question says what no question that was tried said is absent."""
        patterns = patterns_of(bits)
        if questions is None:
            return patterns
        places = np.array([self._kinds.get(sketch.tobytes(), ABSENT) for sketch in self._sketches(questions)], np.int64)
        return np.asarray(np.where(places < 0, ABSENT, (np.maximum(places, 0) << self._law.query.bits) + patterns))

    def _sketches(self, questions: Words) -> Ints:
        """Return the sketches of the three inputs under each question, side by side, shape (questions, columns)."""
        return np.concatenate([sketches_under(self._law, row, questions) for row in self._rows], axis=1)

    def _of_question(self, word: np.uint64) -> Floats2:
        """Return the chances of all answers to one question, shape (3, answers)."""
        question = np.array([word])
        sketches = [sketches_under(self._law, row, question)[0] for row in self._rows]
        return np.array([floats(self._law.chances(sketch, np.uint64(0))) for sketch in sketches])


class Trio(NamedTuple):
    """Two inputs that are told apart, and what all other devices hold, with the chances of every report."""

    rows: Sequence[Rated]  # three
    chances: Floats2  # shape (3, reports)
    reports: ReportNumbers

    @property
    def bound(self) -> KnownOthers:
        """What the multiset really gives away."""
        return KnownOthers(self.chances.tolist())


def _worst_of(trios: Iterable[Trio], epsilon: float, users: int) -> Trio:
    """Return the trio whose multiset gives away most at a central epsilon."""
    return max(trios, key=lambda trio: trio.bound.delta(epsilon, 0.0, users))


def _questions(law: ClaimedLaw, count: int, purpose: str = "questions that are tried") -> Words:
    """Return questions as devices of a purpose of their own draw them."""
    return Coins(as_words(derive(0, purpose)), 0, count, law.query.words).streams(law.query)


def sketches_under(law: ClaimedLaw, row: Rated, questions: Words, secret: str = "sketches") -> Ints:
    """Return what an input says to each question, shape (questions, columns)."""

    class FixedQuestions(Coins):
        """Coins of devices that drew these questions."""

        def streams(self, _: Query) -> Words:
            return questions

    coins = FixedQuestions(as_words(derive(0, secret)), 0, questions.size, law.query.words)
    sketch = law.device.sketch(
        law.query, RatingsBlock(stored([row], np.zeros(questions.size, np.int64), law.query.items), coins), coins
    )
    return sketch.private.reshape(questions.size, -1).astype(np.int64)


def own_trio(law: ClaimedLaw, size: Size, *, epsilon: float, users: int) -> Trio:
    """Return the inputs whose answers differ to most questions, which devices draw, and of some the worst third."""
    questions, other_way = _questions(law, PILOTS * 8), "other sketches"
    every = dict[bytes, tuple[Rated, Floats2]]()
    for row in inputs(size, np.random.default_rng(0)):
        answers_of = sketches_under(law, row, questions)
        if answers_of.tobytes() in every or (answers_of != sketches_under(law, row, questions, other_way)).any():
            continue
        different, inverse = np.unique(answers_of, axis=0, return_inverse=True)
        rows = np.array([floats(law.chances(sketch, np.uint64(0))) for sketch in different])
        every[answers_of.tobytes()] = row, rows[inverse.ravel()]
    kinds = list(every.values())
    if len(kinds) < 2:
        raise InputError("no two inputs answer a question differently whatever their coins; give more items")
    tables = np.stack([table for _, table in kinds])
    far = np.abs(tables[:, None] - tables[None]).sum(axis=(2, 3))
    first, other = divmod(int(far.argmax()), len(kinds))
    thirds = np.unique(np.linspace(0, len(kinds) - 1, THIRDS).astype(int)).tolist()
    threes = [[kinds[index][0] for index in (first, other, third)] for third in dict.fromkeys([first, other, *thirds])]
    numbered = ((rows, ReportNumbers(law, rows)) for rows in threes)
    return _worst_of((Trio(rows, reports.chances, reports) for rows, reports in numbered), epsilon, users)


def worst_trio(law: ClaimedLaw, size: Size, *, epsilon: float, users: int) -> Trio:
    """Return two inputs and what others hold so that the multiset gives away most at a central epsilon."""
    # Looked at are inputs that a device sketches the same whatever its coins, or so many of them at even distances.
    sketches = dict[tuple[int, ...], tuple[Rated, Floats]]()
    rows = inputs(size, np.random.default_rng(0))
    for row, private, able in zip(rows, *law.of_inputs(rows, PILOTS), strict=True):
        sketch = tuple(private[0].tolist())
        if sketch not in sketches and able.all() and (private == private[0]).all():
            sketches[sketch] = row, floats(law.chances(private[0].copy(), np.uint64(0)))
    every = list(sketches.values())
    if len({chances.tobytes() for _, chances in every}) < 2:
        raise InputError("no two inputs have a sketch that depends on them alone; give more items or rated ones")
    every = [every[index] for index in np.unique(np.linspace(0, len(every) - 1, MOST_SKETCHES).astype(int)).tolist()]
    reports, trios = ReportNumbers(law), dict[bytes, Trio]()
    for (first, other), third in product(permutations(range(len(every)), 2), range(len(every))):
        three = [every[index] for index in (first, other, third)]
        table = np.stack([chances for _, chances in three])
        columns, counts = np.unique(np.round(table, 12), axis=1, return_counts=True)
        trios.setdefault(columns.tobytes() + counts.tobytes(), Trio([row for row, _ in three], table, reports))
    return _worst_of(trios.values(), epsilon, users)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundGame(Game):
    """Rounds in which two inputs of one device are told apart, where all others' are known."""

    share: float  # of all reports
    short: bool = False  # whether only few devices answer
    longer: bool = False  # whether the victim's report is longer than others'


GAMES = (
    RoundGame(name="multiset", meaning="two inputs of one device, where all others' are known", share=0.7),
    RoundGame(name="short rounds", meaning="the same, where few of the devices answer", share=0.15, short=True),
    RoundGame(
        name="lengths", meaning="the same, where the device's report is longer than others'", share=0.15, longer=True
    ),
)


class ShufflerView(View[RoundGame]):
    """A server behind a shuffler: of rounds in which all devices but the victim, which has two, hold a third input."""

    flag, seed, releases = "--trust shuffled", 20261126, 8_000_000

    def __init__(
        self,
        design: str | Mechanism,
        *,
        users: int = USERS,
        epsilon: Fraction | float | str | None = None,
        epsilon_local: Fraction | float | str | None = None,
        delta: float | None = None,
        settings: Choice | None = None,
        items: int = TINY.items,
        rated: int = TINY.rated,
        own_questions: bool = False,
        shuffler: MakeShuffler = Shuffler,
    ) -> None:
        size = require_game(users=users, items=items, rated=rated)
        if epsilon is not None and epsilon_local is not None:
            raise InputError(f"epsilon is {epsilon} and epsilon_local {epsilon_local}; give one, the other follows")
        self.delta = min(DELTA, 1 / users) if delta is None else delta
        subject = shuffled_subject(design, settings, size, own_questions=own_questions)
        self.label, self._users, self._make = subject.label, users, shuffler

        def query_at(local: Fraction) -> Query:
            return replace(subject.query(size, local), own_questions=own_questions)

        def randomizer_at(local: Fraction | float) -> Randomizer:
            return randomizer_of(subject.public, query_at(finite_epsilon(local)), subject.label)

        local = finite_epsilon(1 if epsilon_local is None else epsilon_local)
        if epsilon_local is None:
            local = largest_local_epsilon(
                lambda nats: randomizer_at(nats).bound,
                epsilon=finite_epsilon(1 if epsilon is None else epsilon),
                devices=users,
                delta=self.delta,
                any_delta=True,
            )
        query = query_at(local)
        if query.bits > MOST_BITS:
            raise InputError(
                f"reports have {query.bits} bits, of which {MOST_BITS} at most are enumerated; lower items"
            )
        self._local, self._randomizer, self._law = (
            as_float(query.epsilon),
            randomizer_at(local),
            ClaimedLaw(subject, query),
        )
        self._claimed, find = self._smallest(self._randomizer.bound), own_trio if own_questions else worst_trio
        self._trio = find(self._law, size, epsilon=min(self._claimed, 0.9 * self._local), users=users)
        self._agreement = Agreement(trust=SHUFFLED, devices=users)  # what is central is what is measured
        self._ratios = self._trio.chances[:2] / np.where(self._trio.chances[2] > 0, self._trio.chances[2], np.inf)

    @staticmethod
    def designs(*, own_questions: bool = False) -> list[str]:
        """Return the mechanisms whose devices a shuffler can hide, or can if they draw their questions."""
        # Of the latter only those that can be attacked: where two inputs' levels are known, of reports that are
        # enumerated.
        names = []
        for name in local_mechanisms():
            with suppress(InputError):
                subject = shuffled_subject(name, None, TINY, own_questions=own_questions)
                query = replace(subject.query(TINY, PLAIN), own_questions=own_questions)
                if not own_questions or (subject.public.levels(query) is not None and query.bits <= MOST_BITS):
                    names.append(subject.server.name)
        return names

    def games(self, releases: int, coins: np.random.Generator) -> list[RoundGame]:  # noqa: ARG002 (nothing is drawn)
        """See `View.games`."""
        return [replace(game, epsilon=Fraction(self._claimed)) for game in GAMES]

    def observe(self, game: RoundGame, releases: int, coins: np.random.Generator) -> Observations:
        """Let rounds of devices answer through shufflers, block by block; see `View.observe`."""
        rounds, most = max(FEWEST_ROUNDS, int(game.share * releases) // self._users), max(1, BLOCK // self._users)
        blocks = list[Observations]()
        for number, first in enumerate(range(0, rounds, most)):
            secret = coins.random(min(most, rounds - first)) < 0.5
            blocks.append(self._block(game, secret, as_words(derive(number, f"devices of {game.name}")), coins))
        return Observations.joined(blocks)

    def verdict(self, attacks: tuple[AttackResult, ...], confidence: float) -> Audit:
        """See `View.verdict`."""
        return central_audit(
            self,
            attacks,
            confidence,
            claimed=self._claimed,
            exact=self._smallest(self._trio.bound),
            source="the multiset",
            epsilon_local=self._local,
            amplified_for=self._users,
            bound=self._randomizer.name,
            own_questions=self._law.query.own_questions,
        )

    def _smallest(self, bound: ShufflerBound) -> float:
        return shuffled_epsilon(bound, local_epsilon=self._local, devices=self._users, delta=self.delta, any_delta=True)

    def log_ratio(self, reports: Ints) -> Floats:
        """Return the log-ratio of the two inputs' chances of single reports; 0 where there is none."""
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log(self._trio.chances[0]) - np.log(self._trio.chances[1])
        return np.append(np.nan_to_num(logs), 0.0)[reports]

    def histogram(self, reports: Ints) -> Floats2:
        """Return how often each report comes in each round, shape (rounds, reports); without columns if many."""
        rounds, size = len(reports), self._trio.chances.shape[1]
        if size > WIDE:
            return np.zeros((rounds, 0), np.float32)
        keys = np.arange(rounds)[:, None] * (size + 1) + reports % (size + 1)
        counts = np.bincount(keys.ravel(), minlength=rounds * (size + 1)).reshape(rounds, size + 1)
        return counts[:, :size].astype(np.float32)

    def _block(self, game: RoundGame, secret: Bools, devices_secret: Words, coins: np.random.Generator) -> Observations:
        """Let devices answer, one round after another, and shuffle each round."""
        # The device at place j of round p has the address ``j * rounds + p``, so that victims' addresses are
        # consecutive.
        users, rounds, width = self._users, secret.size, self._law.query.bits
        victim = int(coins.integers(users))
        user = np.full((users, rounds), 2, np.int64)
        user[victim] = np.where(secret, 0, 1)
        flat, flat_questions = self._answers(user.ravel(), devices_secret, 0, user.size)
        bits = np.ascontiguousarray(flat.reshape(users, rounds, width).transpose(1, 0, 2))
        own_words = None if flat_questions is None else np.ascontiguousarray(flat_questions.reshape(users, rounds).T)
        present = np.ones((rounds, users), np.bool_)
        if game.short:
            present = coins.random(present.shape) < PRESENT / users
            present[:, victim] = True
            bits[~present] = 0
        seen, counts = np.zeros(bits.shape, np.uint8), np.zeros(rounds, np.int64)
        seen_words = None if own_words is None else np.zeros(own_words.shape, np.uint64)
        named, address = np.full(rounds, ABSENT), np.full(rounds, ABSENT)
        public = device_streams(self._law.query.key, victim * rounds, rounds)
        for number, shuffled in enumerate(self._shuffled(bits, own_words, present, victim if game.longer else None)):
            if shuffled.release is not None:
                released = shuffled.release.unpacked()[:users]
                counts[number] = len(released)
                seen[number, : len(released)] = released[:, :width]
                named[number] = _place_named(shuffled.release, victim, width)
                if seen_words is not None and (questions := shuffled.release.words()) is not None:
                    seen_words[number, : len(released)] = questions[:users]
                    places_there = np.flatnonzero(questions == public[number])
                    address[number] = places_there[0] if places_there.size else ABSENT
        flat_words = None if seen_words is None else seen_words.ravel()
        reports = self._trio.reports.numbers(seen.reshape(-1, width), flat_words).reshape(rounds, users)
        reports[np.arange(users) >= counts[:, None]] = ABSENT
        places = np.stack([named, present[:, :victim].sum(axis=1), address])
        by_place = np.where((places >= 0) & (places < counts), np.take_along_axis(reports.T, places, axis=0), ABSENT)
        weights = [np.append(row, 0.0)[reports].sum(axis=1) for row in self._ratios]  # those of `ABSENT` are 0
        scores = {
            "multiset": _log_ratio(np.stack(weights)),  # no look at it is better
            "order": self.log_ratio(by_place[1]),
            "number or length": self.log_ratio(by_place[0]),
            "question of its address": self.log_ratio(by_place[2]),
            "simulated device": _log_ratio(self._simulated(reports, victim * rounds, rounds)),
        }
        return Observations(secret, scores, features=self.histogram(reports))

    def _shuffled(
        self, bits: Bits, own_words: Words2 | None, present: Bools, longer: int | None
    ) -> Iterator[ShuffledRound]:
        """Yield what a new shuffler makes of each round, whose devices come in blocks; one report may be longer."""
        query, users = self._agreement.stamped(self._law.query), present.shape[1]
        about: dict[str, Any] = {"query_id": query.id}
        apart = present & (np.arange(users) != longer)
        every = bool(apart.all())
        for number, mask in enumerate(apart):
            shuffler = self._make(query, self._agreement)
            for first, stop in [(0, users)] if every else [(0, users // 2), (users // 2, users)]:
                shuffler.take(
                    Release(
                        **about,
                        first=first,
                        count=stop - first,
                        width=query.bits,
                        bits=pack(bits[number, first:stop] * mask[first:stop, None]),
                        answered=None if every else pack(mask[first:stop]),
                        questions=None if own_words is None else own_words[number, first:stop].astype("<u8").tobytes(),
                    )
                )
            if longer is not None:
                longer_bits = pack(np.append(bits[number, longer], np.ones(LONGER, np.uint8)))
                with suppress(InputError):  # who takes no report of another length is right
                    shuffler.take(Release(**about, first=longer, count=1, width=query.bits + LONGER, bits=longer_bits))
            yield shuffler.close()

    def _answers(self, user: Ints, secret: Words, first: int, count: int) -> tuple[Bits2, Words | None]:
        """Return bits of devices from an address on, and the questions that they drew, where they did."""
        law, query = self._law, self._law.query
        coins = Coins(secret, first, count, query.words)
        sketch = law.device.sketch(query, RatingsBlock(stored(self._trio.rows, user, query.items), coins), coins)
        packed = law.device.packed(sketch.private, query, coins)
        bits = np.unpackbits(packed, count=count * query.bits).reshape(count, query.bits)
        return bits, coins.streams(query) if query.own_questions else None

    def _simulated(self, reports: Ints, first: int, rounds: int) -> Floats2:
        """Return weights of each round's reports by what the victim's device sends with coins of the attacker's own."""
        # So an attacker learns what a report owes to the victim's address. The stated channel counts as well.
        size, weights = self._trio.chances.shape[1], []
        row = np.arange(rounds)
        for side in (0, 1):
            user = np.full(first + rounds, side, np.int64)
            laws = np.tile(TRUST * self._trio.chances[side], (rounds, 1))
            for number in range(SIMULATIONS):
                secret = as_words(derive(number, "devices that an attacker simulates"))
                numbers = self._trio.reports.numbers(*self._answers(user, secret, first, rounds))
                laws[row[numbers >= 0], numbers[numbers >= 0]] += 1
            ratio = laws / np.where(self._trio.chances[2] > 0, self._trio.chances[2], np.inf)
            padded = np.concatenate([ratio, np.zeros((rounds, 1))], axis=1)
            weights.append(np.take_along_axis(padded, reports % (size + 1), axis=1).sum(axis=1))
        return np.stack(weights)


def _place_named(release: Release, victim: int, width: int) -> int:
    """Return the place of the report that a device number, or a length of its own, says to be the victim's, if any."""
    pairs = release.public_pairs()
    if pairs is not None and (places := np.flatnonzero((pairs == victim).any(axis=1))).size:
        return int(places[0])
    if release.width > width and (places := np.flatnonzero(release.unpacked()[:, width:].any(axis=1))).size:
        return int(places[0])
    return 0 if release.first and release.first == victim else ABSENT


def _log_ratio(weights: Floats2) -> Floats:
    """Return the logarithm of a ratio of weights, shape (2, rounds); 0 where there are none."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios: Floats = np.nan_to_num(np.log(weights[0]) - np.log(weights[1]), nan=0.0)
    return ratios
