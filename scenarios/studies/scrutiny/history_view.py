"""The view of somebody who sees one person's answers of all periods: what is found out about a history.

Real devices answer the set mechanism in every period, by several practices of asking. The attacker averages answers to
tell two known histories apart, looks for one film, links reports, and asks whether a person changed. Beside what was
measured stands the exact law of the same attack; of sums, which are no device's, there is the law alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import ndtr
from scipy.stats import binom

from actors.device import Cohort
from actors.ratings import StoredRatings
from coordinator.protocol.arrays import Bools, Floats, Ints, Ints2
from coordinator.protocol.budget import as_float
from coordinator.protocol.checked import require_whole
from coordinator.protocol.composition import PERSON_HISTORY, gaussian_distance, gaussian_epsilon
from coordinator.protocol.mechanisms import subsets_of
from coordinator.protocol.messages import Query, Release
from coordinator.protocol.moments.count_moments import best_subset
from coordinator.protocol.trust_models import CURATOR, LOCAL
from coordinator.protocol.value_channels import CHOSEN, PADDED, subset_form
from scenarios.config.mechanism_settings import mechanism_kind
from scenarios.studies.scrutiny.attacks import Game, Observations, View
from scenarios.studies.scrutiny.mechanism_under_test import PUBLIC, SECRET, Size, small_run, stored
from scenarios.studies.scrutiny.shuffling import finite_epsilon
from scenarios.studies.scrutiny.verdicts import AttackResult, Audit
from scenarios.theory.bounds import log_binomial

ITEMS, LIKES, USERS = 9724, 20, 10_000  # Items N and likes w of MovieLens latest-small and its films
SHARE, DELTA = 0.1, 1e-6  # Share of people by whose film the size of a report is chosen; delta of sums
MAY = 5  # The period from which a person who changed likes other things, for good; of fewer periods the last one
MOST_PERIODS = 400
ONCE, SPLIT, WHOLE, MEMOIZED = "once", "split", "epsilon a period", "memoized"
"""Practices: the whole epsilon once, an equal share each period, the whole one each period, an answer kept by value."""
HISTORY, FILM, CHANGE, LINK = "history", "film", "change", "link"
MEANINGS = {
    HISTORY: "which of two known histories without a common film a person has",
    FILM: "whether a person likes one film, of whose other likes nothing is known",
    CHANGE: f"whether all that a person likes changed for good, in period {MAY} or the last one",
    LINK: "whether no other report of a round is the same, so that one that is repeated is recognized",
}
ATTACK_NAMES = (
    *("practice", "trust_model", "attack", "meaning", "epsilon_horizon", "delta", "right", "right_exact"),
    *("right_at_most", "belief", "advantage", "advantage_at_most", "plays"),
)
"""What JSON says of an attack: epsilon of the horizon is exact [nats], the attacker's belief in what is true a median
from even odds, and the advantage in seeing a change the rate of true alarms less that of false ones."""
_BLOCK = 1 << 11  # Devices that are looked at together


@dataclass(frozen=True)
class SetReports:
    """Reports of the set mechanism under one epsilon: queries, and the law of what they say of two disjoint sets."""

    epsilon: Fraction
    items: int
    likes: int
    subset_size: int

    @classmethod
    def of(cls, epsilon: Fraction, items: int, likes: int) -> SetReports:
        """Return reports that name as many values as are best."""
        return cls(epsilon, items, likes, best_subset(items + likes, set_size=likes, epsilon=epsilon, share=SHARE))

    @property
    def values(self) -> int:
        """Items and dummies."""
        return self.items + self.likes

    def query(self, period: int) -> Query:
        """Return what a run asks in a period."""
        settings = {PADDED: self.likes, CHOSEN: self.subset_size}
        resolved = small_run(mechanism_kind("set"), settings, Size(self.items, 2 * self.likes, 10), self.epsilon)
        return resolved.design.query(round_number=period, public_seed=PUBLIC, epsilon=self.epsilon)

    @cached_property
    def equal(self) -> float:
        """The chance that a uniform subset is a given one."""
        return math.exp(-log_binomial(self.values, self.subset_size))

    def sign_law(self) -> Floats:
        """Return the chances that a report speaks for the other set alone, for both or none, for the person's own."""
        values, named = self.values, self.subset_size
        miss_own, miss_both = (
            math.exp(log_binomial(values - sets * self.likes, named) - log_binomial(values, named)) for sets in (1, 2)
        )
        odds = math.exp(self.epsilon)
        other = (miss_own - miss_both) / (1 + (odds - 1) * (1 - miss_own))
        return np.array([other, 1 - (1 + odds) * other, odds * other])

    def sums_law(self, reports: int) -> Floats:
        """Return the law of the sum of the signs of so many reports, from ``-reports`` on."""
        law, sign = np.ones(1), self.sign_law()
        for _ in range(reports):
            law = np.convolve(law, sign)
        return law

    def distance(self, reports: int) -> float:
        """Return the total variation of so many reports of two histories without a common film."""
        law = self.sums_law(reports)
        return float(np.abs(law - law[::-1]).sum()) / 2

    def belief(self, reports: int) -> float:
        """Return the median of the belief in a person's own history."""
        law = self.sums_law(reports)
        return _belief(self.epsilon * (int(np.searchsorted(np.cumsum(law), 0.5)) - reports))

    @cached_property
    def film_rates(self) -> tuple[float, float]:
        """How often a report names a film that the person likes, and another one."""
        liked, other = subsets_of(self.query(0)).channel(self.query(0)).rates
        return float(liked), float(other)

    def film_counts(self, reports: int) -> tuple[Floats, Floats]:
        """Return the laws of how many of so many reports name a film that the person likes, and another one."""
        liked, other = (binom.pmf(np.arange(reports + 1), reports, rate) for rate in self.film_rates)
        return liked, other

    def film_distance(self, reports: int) -> float:
        """Return the total variation of how many of so many reports name a film."""
        liked, other = self.film_counts(reports)
        return float(np.abs(liked - other).sum()) / 2

    def decoded(self, release: Release) -> Ints2:
        """Return the values that each device named, shape (devices, k)."""
        parts, bits = subset_form(self.values, self.subset_size)
        unpacked = release.unpacked()
        if bits == 1:
            return np.nonzero(unpacked)[1].reshape(len(unpacked), self.subset_size)
        numbers = unpacked.reshape(len(unpacked), parts, bits).astype(np.int64)
        return np.asarray(numbers @ (1 << np.arange(bits - 1, -1, -1)))


def _belief(nats: Fraction | float) -> float:
    return 1 / (1 + math.exp(-min(as_float(Fraction(nats)), 700.0)))


@dataclass(frozen=True, slots=True)
class WatchedPeople:
    """People of whom each has one of two histories by a fair coin, and devices that answer for them."""

    reports: SetReports
    secret: Bools  # Whether a person has the first
    films: tuple[Ints, ...]  # That only the first history has, and only the second
    ratings: StoredRatings

    @classmethod
    def disjoint(cls, plays: int, reports: SetReports, coins: np.random.Generator) -> WatchedPeople:
        """Return people whose two histories, the same two of all, have no common film."""
        films = np.sort(coins.permutation(reports.items)[: 2 * reports.likes].reshape(2, reports.likes), axis=1)
        secret = coins.random(plays) < 0.5
        return cls(reports, secret, tuple(films), _likes_of(films, ~secret, reports.items))

    @classmethod
    def one_film(cls, plays: int, reports: SetReports, coins: np.random.Generator) -> WatchedPeople:
        """Return people with random likes, among which film 0 is, or is not."""
        likes = np.stack([1 + coins.choice(reports.items - 1, reports.likes, replace=False) for _ in range(plays)])
        secret = coins.random(plays) < 0.5
        likes[secret, 0] = 0
        return cls(
            reports,
            secret,
            (np.zeros(1, np.int64),),
            _likes_of(np.sort(likes, axis=1), np.arange(plays), reports.items),
        )

    def reported(self, period: int) -> Iterator[Ints2]:
        """Yield what devices report in a period, block by block."""
        devices, query = Cohort(self.ratings, SECRET, 0, self.ratings.users, None), self.reports.query(period)
        for first in range(0, self.ratings.users, _BLOCK):
            yield self.reports.decoded(devices.answer(query, first, min(first + _BLOCK, self.ratings.users)))

    def signs(self, answers: int) -> Ints2:
        """Return whether each report names films of the first history alone, 1, of the second, -1, or of neither, 0.

        shape (answers, people), in periods from 1 on.
        """

        def meets(period: int) -> Ints:
            meetings = [[np.isin(named, films).any(axis=1) for films in self.films] for named in self.reported(period)]
            first, *rest = (np.concatenate(side).astype(np.int64) for side in zip(*meetings, strict=True))
            return first - rest[0] if rest else first

        return np.array([meets(period) for period in range(1, answers + 1)])


def _likes_of(rows: Ints2, user: Ints | Bools, items: int) -> StoredRatings:
    return stored([tuple((item, True) for item in row) for row in rows.tolist()], user.astype(np.int32), items)


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryGame(Game):
    """One attack on people who are asked by one practice."""

    practice: str
    attack: str
    distance: float  # Total variation of the two laws of what is seen, from which the rate of right guesses follows
    horizon: float | None  # Epsilon of a person's history [nats]; None: the practice keeps none
    delta: float = 0.0
    reports: SetReports | None = None  # None where no device is asked
    answers: int = 1

    @classmethod
    def of(cls, practice: str, attack: str, distance: float, horizon: float | None, **about: Any) -> HistoryGame:
        """Return the attack on a practice under an epsilon of the horizon [nats]."""
        claim: dict[str, Any] = {
            "epsilon": None if horizon is None else Fraction(horizon),
            "distance": distance,
            "horizon": horizon,
        }
        name = f"{attack}, {practice}"
        return cls(name=name, meaning=MEANINGS[attack], practice=practice, attack=attack, **claim, **about)

    def facts(self, **measured: float) -> dict[str, Any]:
        """Return what is said of the attack, by JSON's names, beside what was measured."""
        change = self.attack == CHANGE
        most = None if self.horizon is None or self.delta else _belief(self.horizon)
        at_most = math.tanh(self.horizon / 2) if change and self.horizon is not None and not self.delta else None
        of: dict[str, Any] = {
            "practice": self.practice,
            "attack": self.attack,
            "trust_model": LOCAL if self.reports else CURATOR,
        }
        of |= {"epsilon_horizon": self.horizon, "delta": self.delta, "right_at_most": most, "belief": None}
        of |= {"right_exact": (1 + self.distance) / 2, "advantage_at_most": at_most}
        return {**of, "advantage": self.distance if change else None, **measured}


class HistoryView(View[HistoryGame]):
    """Somebody who puts together what people report over periods, and whoever reads all sums.

    ``rated`` is the number of likes, all of which count, and ``users`` that of people whose reports are linked.
    """

    flag, seed, releases, fewest, most = "--periods", 20261129, 4000, 100, 1 << 20
    label = "set"

    def __init__(
        self,
        *,
        periods: int = 12,
        epsilon: Fraction | float | str = 1,
        items: int = ITEMS,
        rated: int = LIKES,
        users: int = USERS,
    ) -> None:
        require_whole("periods", periods, 2, MOST_PERIODS)
        require_whole("users", users, 2, 1 << 20)
        require_whole("rated", rated, 1, 1000)
        require_whole("items", items, 4 * rated, 1 << 20)
        self._epsilon, self._periods, self._users = finite_epsilon(epsilon), periods, users
        self._items, self._rated = items, rated
        self._later = periods - min(MAY, periods) + 1  # Periods in which a person who changed likes other things

    @staticmethod
    def designs() -> list[str]:
        """See `View.designs`."""
        return ["set"]

    def games(self, releases: int, coins: np.random.Generator) -> list[HistoryGame]:  # noqa: ARG002 (nothing is drawn)
        """Return attacks on answers by each practice, on answers that are kept, and on sums; see `View.games`."""
        epsilon, periods, later, games = self._epsilon, self._periods, self._later, list[HistoryGame]()
        for practice, share, count in (
            (ONCE, epsilon, 1),
            (SPLIT, epsilon / periods, periods),
            (WHOLE, epsilon, periods),
        ):
            reports = SetReports.of(share, self._items, self._rated)
            # Of who answers once the period is a public coin: before May its answer says nothing of a change
            change = reports.distance(1) * later / periods if practice == ONCE else reports.distance(later)
            laws = {HISTORY: reports.distance(count), FILM: reports.film_distance(count), CHANGE: change}
            about: dict[str, Any] = {"horizon": as_float(share * count), "reports": reports, "answers": count}
            games += [HistoryGame.of(practice, attack, distance, **about) for attack, distance in laws.items()]
        reports = SetReports.of(epsilon, self._items, self._rated)
        games.append(HistoryGame.of(MEMOIZED, CHANGE, 1 - reports.equal, None, reports=reports))
        for size in (reports.subset_size, 1):
            few = SetReports(epsilon, self._items, self._rated, size)
            others = -math.expm1((self._users - 1) * math.log1p(-few.equal))
            games.append(HistoryGame.of(f"{MEMOIZED}, {size} named", LINK, 2 * (1 - others) - 1, None, reports=few))
        return games + list(self.sums_games())

    def sums_games(self) -> Iterator[HistoryGame]:
        """Yield the same attacks on sums with Gaussian noise, by their law: whoever reads them, all others known."""
        distance = gaussian_distance(self._epsilon, DELTA)
        for practice, of in ((SPLIT, distance), (WHOLE, distance * math.sqrt(self._periods))):
            horizon = as_float(self._epsilon) if practice == SPLIT else gaussian_epsilon(of, DELTA)
            for attack, seen in ((HISTORY, of), (CHANGE, of * math.sqrt(self._later / self._periods))):
                yield HistoryGame.of(practice, attack, float(2 * ndtr(seen / 2) - 1), horizon, delta=DELTA)

    def observe(self, game: HistoryGame, releases: int, coins: np.random.Generator) -> Observations:
        """Let devices answer in all periods, and guess by the best test; see `View.observe`."""
        reports = game.reports
        if reports is None:
            nobody = np.zeros(0, np.bool_)
            return Observations(nobody, guess=nobody, facts=game.facts())
        if game.practice.startswith(MEMOIZED):
            return self._of_memoized(game, reports, releases, coins)
        if game.attack == FILM:
            people = WatchedPeople.one_film(releases, reports, coins)
            liked, other = reports.film_counts(game.answers)
            # Reports that name a film from which on it is rather liked
            scores = people.signs(game.answers).sum(axis=0) - (float(np.argmax(liked > other)) - 0.5)
            return Observations(people.secret, guess=_guess(scores, coins), facts=game.facts())
        if game.attack == HISTORY:
            people = WatchedPeople.disjoint(releases, reports, coins)
            self._people, self._signs = people, people.signs(game.answers)  # The next game is about them, too
            scores = self._signs.sum(axis=0)
            belief = _belief(float(reports.epsilon) * float(np.median(np.where(people.secret, scores, -scores))))
            return Observations(people.secret, guess=_guess(scores, coins), facts=game.facts(belief=belief))
        secret = self._people.secret
        if game.practice == ONCE:
            scores = self._signs.sum(axis=0) * (coins.random(secret.size) < self._later / self._periods)
        else:
            scores = self._signs[-self._later :].sum(axis=0)
        facts = game.facts(advantage=_advantage(scores > 0, secret))
        return Observations(secret, guess=_guess(scores, coins), facts=facts)

    def _of_memoized(
        self, game: HistoryGame, reports: SetReports, releases: int, coins: np.random.Generator
    ) -> Observations:
        """Let people answer whose answer is kept as long as what they like: it is repeated, and new by change."""
        if game.attack == LINK:
            people = WatchedPeople.one_film(self._users, reports, coins)
            named = np.sort(np.concatenate(list(people.reported(1))), axis=1)
            _, inverse, counts = np.unique(named, axis=0, return_inverse=True, return_counts=True)
            everybody = np.ones(self._users, np.bool_)
            return Observations(everybody, guess=counts[inverse.ravel()] == 1, facts=game.facts())
        people = WatchedPeople.disjoint(releases, reports, coins)
        # Who has the first history keeps it; who has the second changes to it in May, and so does the answer
        reports_of_both = zip(people.reported(1), people.reported(2), strict=True)
        differs = [(np.sort(before, axis=1) != np.sort(after, axis=1)).any(axis=1) for before, after in reports_of_both]
        changed = ~people.secret
        alarm = changed & np.concatenate(differs)
        return Observations(changed, guess=alarm, facts=game.facts(advantage=_advantage(alarm, changed)))

    def verdict(self, attacks: tuple[AttackResult, ...], confidence: float) -> Audit:
        """See `View.verdict`."""
        return Audit(
            view="periods",
            design=self.label,
            epsilon=self._epsilon,
            confidence=confidence,
            attacks=attacks,
            facts={"epsilon": as_float(self._epsilon), "periods": self._periods, "unit": PERSON_HISTORY},
            names=("held", "epsilon", "periods", "unit", "confidence"),
            attack_names=ATTACK_NAMES,
        )


def _guess(scores: Floats | Ints, coins: np.random.Generator) -> Bools:
    """Return the history for which a score speaks; where it says nothing, by a coin."""
    return np.where(scores == 0, coins.random(scores.size) < 0.5, scores > 0)


def _advantage(alarm: Bools, changed: Bools) -> float:
    """Return the rate of alarms of those who changed less that of the others."""
    return float(alarm[changed].mean() - alarm[~changed].mean())
