"""Attacks on answers of one person over periods: what somebody finds out about a history who sees all of them.

Real devices answer the set mechanism in every period, by several practices of asking. The attacker averages answers to
tell two known histories apart, looks for one film, links reports, and asks whether a person changed. Beside what was
measured stands the exact law of the same attack; of sums, which are no device's, there is the law alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from scipy.special import gammaln, ndtr
from scipy.stats import beta, binom

from actors.device import Cohort
from actors.ratings import StoredRatings
from coordinator.protocol.arrays import Bools, Floats, Ints, Ints2
from coordinator.protocol.budget import as_float
from coordinator.protocol.checked import require_whole
from coordinator.protocol.composition import (
    PERSON_HISTORY,
    gaussian_distance,
    gaussian_epsilon,
)
from coordinator.protocol.errors import InputError
from coordinator.protocol.mechanisms import subsets_of
from coordinator.protocol.messages import Query, Release
from coordinator.protocol.moments.count_moments import best_subset
from coordinator.protocol.rating_table import RowTable
from coordinator.protocol.trust_models import CURATOR, LOCAL
from coordinator.protocol.value_channels import CHOSEN, PADDED, subset_form
from scenarios.config.mechanism_settings import mechanism_kind
from scenarios.studies.scrutiny.mechanism_under_test import PUBLIC, SECRET, Size, small_run
from scenarios.studies.scrutiny.shuffling import finite_epsilon
from scenarios.studies.scrutiny.verdicts import Scrutiny

ITEMS, LIKES, PLAYS, USERS = 9724, 20, 4000, 10_000  # Items N and likes w of MovieLens latest-small and its films
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
NO_EPSILON = "none for histories: an answer that differs from the last one shows that its value changed"
_BLOCK = 1 << 11  # Devices that are looked at together


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryAttack:
    """One attack on answers of all periods."""

    practice: str
    trust_model: str
    attack: str
    meaning: str
    epsilon_horizon: float | None  # Of a person's history, exact [nats]; None: the practice keeps none
    delta: float
    right: float | None  # Share of people of whom the attacker guesses right; None where no device was asked
    right_exact: float  # By the attack's law
    right_at_most: float | None  # That anybody can be right within epsilon: ``e**eps / (1 + e**eps)``
    belief: float | None  # Median of the attacker's belief in what is true, from even odds
    advantage: float | None  # Rate of true alarms less that of false ones, of a change
    advantage_at_most: float | None  # ``tanh(eps / 2)``
    plays: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryAudit(Scrutiny):
    """Attacks on answers over periods, a row each.

    Attributes
    ----------
    epsilon : float
        Of a person's history where it is spent once or split, and of a period where each has it [nats].
    periods : int
        How often a person is asked.
    unit : str
        ``"person-history"``: ratings of all periods of one person are replaced.
    confidence : float
        Probability that an honest practice passes.
    attacks : tuple of HistoryAttack
        Those that were made.
    """

    table = "attacks"
    epsilon: float
    periods: int
    attacks: tuple[HistoryAttack, ...]
    confidence: float
    unit: str = PERSON_HISTORY

    @property
    def failures(self) -> list[str]:
        """The attacks that surely guess right more often than epsilon allows, a line each."""
        doubt, lines = (1 - self.confidence) / max(len(self.attacks), 1), []
        for row in self.attacks:
            if row.right is None or row.right_at_most is None:
                continue
            hits = round(row.right * row.plays)
            least = float(beta.ppf(doubt, hits, row.plays - hits + 1)) if hits else 0.0
            if least > row.right_at_most:
                lines.append(f"{row.practice}: {row.attack} is right in {least:.3f}, above {row.right_at_most:.3f}")
        return lines

    def as_json(self) -> dict[str, Any]:
        """Return what `blindrec audit --periods --json` writes."""
        names = ("epsilon", "periods", "unit", "confidence")
        rows = [asdict(row) for row in self.attacks]
        return {"held": not self.failures, **{name: getattr(self, name) for name in names}, "attacks": rows}

    def __repr__(self) -> str:
        return f"<{self.periods} periods: {len(self.attacks)} attacks, {self.verdict}>"


@dataclass(frozen=True, slots=True)
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

    def sign_law(self) -> Floats:
        """Return the chances that a report speaks for the other set alone, for both or none, for the person's own."""
        values, named = self.values, self.subset_size
        miss_own, miss_both = (
            math.exp(_log_ways(values - sets * self.likes, named) - _log_ways(values, named)) for sets in (1, 2)
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
        middle = int(np.searchsorted(np.cumsum(law), 0.5)) - reports
        return _belief(self.epsilon * middle)

    def film_rates(self) -> tuple[float, float]:
        """Return how often a report names a film that the person likes, and another one."""
        liked, other = subsets_of(self.query(0)).channel(self.query(0)).rates
        return float(liked), float(other)

    def film_distance(self, reports: int) -> float:
        """Return the total variation of how many of so many reports name a film."""
        counts = np.arange(reports + 1)
        liked, other = (binom.pmf(counts, reports, rate) for rate in self.film_rates())
        return float(np.abs(liked - other).sum()) / 2

    def decoded(self, release: Release) -> Ints2:
        """Return the values that each device named, shape (devices, k)."""
        parts, bits = subset_form(self.values, self.subset_size)
        unpacked = release.unpacked()
        if bits == 1:
            return np.nonzero(unpacked)[1].reshape(len(unpacked), self.subset_size)
        numbers = unpacked.reshape(len(unpacked), parts, bits).astype(np.int64)
        return np.asarray(numbers @ (1 << np.arange(bits - 1, -1, -1)))


def _log_ways(values: int, named: int) -> float:
    return float(gammaln(values + 1) - gammaln(named + 1) - gammaln(values - named + 1))


def _belief(nats: Fraction | float) -> float:
    return 1 / (1 + math.exp(-min(as_float(Fraction(nats)), 700.0)))


@dataclass(frozen=True, slots=True)
class WatchedPeople:
    """People of whom each has one of two histories by a fair coin, and devices that answer for them."""

    secret: Bools  # Whether a person has the first
    likes: tuple[Ints2, Ints2]  # Of each person with the first history and with the second, shape (people, w)
    ratings: StoredRatings

    @classmethod
    def disjoint(cls, plays: int, reports: SetReports, coins: np.random.Generator) -> WatchedPeople:
        """Return people whose two histories, the same two of all, have no common film."""
        films = coins.permutation(reports.items)[: 2 * reports.likes].reshape(2, 1, reports.likes)
        first, second = (np.broadcast_to(row, (plays, reports.likes)) for row in films)
        return cls._of(coins.random(plays) < 0.5, first, second, reports.items)

    @classmethod
    def one_film(cls, plays: int, reports: SetReports, coins: np.random.Generator) -> WatchedPeople:
        """Return people with random likes, among which film 0 is, or is not."""
        others = np.stack([1 + coins.choice(reports.items - 1, reports.likes, replace=False) for _ in range(plays)])
        with_film = np.concatenate([np.zeros((plays, 1), np.int64), others[:, 1:]], axis=1)
        return cls._of(coins.random(plays) < 0.5, with_film, others, reports.items)

    @classmethod
    def _of(cls, secret: Bools, first: Ints2, second: Ints2, items: int) -> WatchedPeople:
        likes = np.sort(np.where(secret[:, None], first, second), axis=1)
        rows = RowTable(
            starts=np.arange(len(likes) + 1) * likes.shape[1],
            items=likes.astype(np.int32).ravel(),
            values=np.ones(likes.size, np.bool_),
            count=items,
        )
        user = np.arange(len(likes), dtype=np.int32)
        return cls(secret, (first, second), StoredRatings(rows=rows, user=user, rated_public=False))

    def reported(self, reports: SetReports, period: int) -> Iterator[tuple[slice, Ints2]]:
        """Yield what devices report in a period, block by block."""
        devices, query = Cohort(self.ratings, SECRET, 0, self.ratings.users, None), reports.query(period)
        for first in range(0, self.ratings.users, _BLOCK):
            stop = min(first + _BLOCK, self.ratings.users)
            yield slice(first, stop), reports.decoded(devices.answer(query, first, stop))

    def signs(self, reports: SetReports, period: int) -> Ints:
        """Return whether each person's report speaks for the first history alone, 1, for the second, -1, or neither."""
        signs = np.zeros(self.secret.size, np.int64)
        for block, named in self.reported(reports, period):
            meets = [np.isin(named, likes[0]).any(axis=1) for likes in self.likes]
            signs[block] = meets[0].astype(np.int64) - meets[1]
        return signs

    def film_named(self, reports: SetReports, period: int) -> Bools:
        """Return whether each person's report names film 0."""
        hits = np.zeros(self.secret.size, np.bool_)
        for block, named in self.reported(reports, period):
            hits[block] = (named == 0).any(axis=1)
        return hits


def _guessed(scores: Floats | Ints, secret: Bools, coins: np.random.Generator) -> float:
    """Return the share of people whose history is that for which a score speaks; where it says nothing, by a coin."""
    guess = np.where(scores == 0, coins.random(secret.size) < 0.5, scores > 0)
    return float((guess == secret).mean())


def history_audit(
    *,
    epsilon: Fraction | float | str = 1,
    periods: int = 12,
    items: int = ITEMS,
    rated: int = LIKES,
    releases: int = PLAYS,
    users: int = USERS,
    confidence: float = 0.999,
) -> HistoryAudit:
    """Attack what people report over periods, and hold it against the epsilon of their histories.

    Parameters
    ----------
    epsilon : Fraction, float or str
        Of a history [nats], or of each period where that is the practice.
    periods : int
        How often a person is asked.
    items, rated : int
        Items, and likes of a person, all of which count.
    releases : int
        People whom each attack is about.
    users : int
        People whose repeated reports are linked.
    confidence : float
        Probability that an honest practice passes.

    Raises
    ------
    InputError
        If the numbers are none.
    """
    nats = finite_epsilon(epsilon)
    require_whole("periods", periods, 2, MOST_PERIODS)
    require_whole("releases", releases, 100, 1 << 20)
    require_whole("users", users, 2, 1 << 20)
    require_whole("rated", rated, 1, 1000)
    require_whole("items", items, 4 * rated, 1 << 20)
    if not 0 < confidence < 1:
        raise InputError(f"confidence is {confidence}; give a probability")
    coins = np.random.default_rng(20261129)
    practices = {ONCE: (nats, 1), SPLIT: (nats / periods, periods), WHOLE: (nats, periods)}
    rows = list[HistoryAttack]()
    for practice, (share, answers) in practices.items():
        rows += _local_rows(practice, SetReports.of(share, items, rated), answers, periods, releases, coins)
    rows += _memoized_rows(SetReports.of(nats, items, rated), releases, users, coins)
    rows += _sums_rows(nats, periods)
    return HistoryAudit(epsilon=as_float(nats), periods=periods, attacks=tuple(rows), confidence=confidence)


def _row(practice: str, attack: str, distance: float, plays: int, **about: Any) -> HistoryAttack:
    """Return a row; its exact rate of right guesses follows from the total variation of the two laws."""
    values: dict[str, Any] = {
        "trust_model": LOCAL,
        "epsilon_horizon": None,
        "delta": 0.0,
        "right": None,
        "belief": None,
        "advantage": distance if attack == CHANGE else None,
        **about,
    }
    horizon, delta = values["epsilon_horizon"], values["delta"]
    most = None if horizon is None or delta else _belief(horizon)
    return HistoryAttack(
        practice=practice,
        attack=attack,
        meaning=MEANINGS[attack],
        right_exact=(1 + distance) / 2,
        right_at_most=most,
        advantage_at_most=math.tanh(horizon / 2) if attack == CHANGE and most is not None else None,
        plays=plays,
        **values,
    )


def _local_rows(
    practice: str, reports: SetReports, answers: int, periods: int, plays: int, coins: np.random.Generator
) -> Iterator[HistoryAttack]:
    """Yield attacks on people who answer one by one."""
    horizon = as_float(reports.epsilon * answers)
    people = WatchedPeople.disjoint(plays, reports, coins)
    signs = np.array([people.signs(reports, period) for period in range(1, answers + 1)])
    scores = signs.sum(axis=0)
    true_scores = np.where(people.secret, scores, -scores)
    yield _row(
        practice,
        HISTORY,
        reports.distance(answers),
        plays,
        epsilon_horizon=horizon,
        right=_guessed(scores, people.secret, coins),
        belief=_belief(float(reports.epsilon) * float(np.median(true_scores))),
    )
    films = WatchedPeople.one_film(plays, reports, coins)
    named = np.array([films.film_named(reports, period) for period in range(1, answers + 1)]).sum(axis=0)
    yield _row(
        practice,
        FILM,
        reports.film_distance(answers),
        plays,
        epsilon_horizon=horizon,
        right=_guessed(named - _film_cut(reports, answers), films.secret, coins),
    )
    # Of who answers once the period is a public coin: before May its answer says nothing of a change
    later = _periods_after(periods)
    if practice == ONCE:
        asked_later = coins.random(plays) < later / periods
        seen, distance = scores * asked_later, reports.distance(1) * later / periods
    else:
        seen, distance = signs[-later:].sum(axis=0), reports.distance(later)
    yield _row(
        practice,
        CHANGE,
        distance,
        plays,
        epsilon_horizon=horizon,
        right=_guessed(seen, people.secret, coins),
        advantage=_advantage(seen > 0, people.secret),
    )


def _film_cut(reports: SetReports, answers: int) -> float:
    """Return the number of reports that name a film from which on it is rather liked."""
    counts = np.arange(answers + 1)
    liked, other = (binom.pmf(counts, answers, rate) for rate in reports.film_rates())
    return float(np.argmax(liked > other)) - 0.5


def _periods_after(periods: int) -> int:
    """Return the number of periods in which a person who changed likes other things."""
    return periods - min(MAY, periods) + 1


def _advantage(alarm: Bools, changed: Bools) -> float:
    """Return the rate of alarms of those who changed less that of the others."""
    return float(alarm[changed].mean() - alarm[~changed].mean())


def _memoized_rows(reports: SetReports, plays: int, users: int, coins: np.random.Generator) -> Iterator[HistoryAttack]:
    """Yield attacks on people whose answer is kept as long as what they like: it is repeated, and new by change."""
    people = WatchedPeople.disjoint(plays, reports, coins)
    # Who has the first history keeps it; who has the second changes to it in May, and so does the answer
    changed = ~people.secret
    differs = np.zeros(plays, np.bool_)
    for (block, before), (_, after) in zip(people.reported(reports, 1), people.reported(reports, 2), strict=True):
        differs[block] = (np.sort(before, axis=1) != np.sort(after, axis=1)).any(axis=1)
    alarm = changed & differs
    same = math.exp(-_log_ways(reports.values, reports.subset_size))
    yield _row(
        MEMOIZED,
        CHANGE,
        1 - same,
        plays,
        right=float((alarm == changed).mean()),
        advantage=_advantage(alarm, changed),
    )
    for subset_size in (reports.subset_size, 1):
        few = SetReports(reports.epsilon, reports.items, reports.likes, subset_size)
        people_at_once = WatchedPeople.one_film(users, few, coins)
        named = np.concatenate([np.sort(values, axis=1) for _, values in people_at_once.reported(few, 1)])
        _, counts = np.unique(named, axis=0, return_counts=True)
        others = -math.expm1((users - 1) * math.log1p(-math.exp(-_log_ways(few.values, subset_size))))
        yield _row(
            f"{MEMOIZED}, {subset_size} named",
            LINK,
            2 * (1 - others) - 1,
            users,
            right=float((counts == 1).sum() / users),
        )


def _sums_rows(epsilon: Fraction, periods: int) -> Iterator[HistoryAttack]:
    """Yield the law of the same attacks on sums with Gaussian noise: whoever reads them, all others known."""
    distance = gaussian_distance(epsilon, DELTA)
    later = math.sqrt(_periods_after(periods) / periods)
    for practice, of in ((SPLIT, distance), (WHOLE, distance * math.sqrt(periods))):
        horizon = as_float(epsilon) if practice == SPLIT else gaussian_epsilon(of, DELTA)
        about: dict[str, Any] = {"trust_model": CURATOR, "epsilon_horizon": horizon, "delta": DELTA}
        for attack, seen in ((HISTORY, of), (CHANGE, of * later)):
            yield _row(practice, attack, float(2 * ndtr(seen / 2) - 1), 0, **about)


def columns_of(attacks: Sequence[HistoryAttack]) -> list[list[str]]:
    """Return the cells of a printed table, a row an attack."""

    def share(value: float | None) -> str:
        return "" if value is None else f"{value:.3f}"

    return [
        [
            row.practice if row.trust_model == LOCAL else f"{row.practice}, sums",
            row.attack,
            "none" if row.epsilon_horizon is None else f"{row.epsilon_horizon:.4g}",
            share(row.right),
            share(row.right_exact),
            share(row.right_at_most),
            share(row.belief),
            share(row.advantage),
        ]
        for row in attacks
    ]
