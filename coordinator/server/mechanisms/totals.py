"""Sums by two servers on the server that reads them: which query is asked, and what noisy totals of likes say."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Unpack, cast

import numpy as np
from pydantic import Field

from coordinator.protocol.arrays import Indices, Ints
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.errors import InputError
from coordinator.protocol.mechanisms.sets import TOGETHER, together
from coordinator.protocol.mechanisms.totals import (
    CHANGES,
    DELTA,
    DEVIATION,
    HONEST,
    LEAST_ANSWERS,
    PairVector,
    Totals,
    dose,
    noise_deviation,
    with_diagonal,
)
from coordinator.protocol.messages import Model, Query, Release
from coordinator.protocol.public_half import ADD_REMOVE, REPLACE
from coordinator.protocol.shares import WORD_BYTES
from coordinator.protocol.value_channels import PADDED
from coordinator.server.design import Decoding, RoundTerms, World, query_of
from coordinator.server.mechanisms.sets import PairItems, PairLikes, ranked_first, typical_likes
from coordinator.server.mechanisms.toys import CuratorSettings
from coordinator.server.server_half import ONE_ROUND, TRUST_TWO_SERVERS, TWO_ROUNDS, ServerHalf, SumMoments

if TYPE_CHECKING:
    from coordinator.protocol.statistics.counts import CountStatistic, GroupStatistic
    from coordinator.protocol.statistics.statistic import Statistic
    from coordinator.server.rounds.policies import PolicyOptions
    from coordinator.server.rounds.setting import Setting
    from coordinator.server.rounds.state import Ask, ServerState

SERVERS, DEVICES = "servers", "devices"
CHOICE, LEAST_CHOICE = 4, 10  # One part in so many of epsilon is that of likes, which choose the items that are paired
IDEAL, NO_PROOFS = "ideal", "none"


class ServersSettings(CuratorSettings):
    """Settings of two servers."""

    noise: Literal["servers", "devices"] = Field(
        default="servers",
        description="Two servers: who adds noise to sums, each server a full dose, or devices shares of one [servers].",
    )
    proofs: Literal["ideal", "none"] = Field(
        default="ideal",
        description="Two servers: a vector of a liar is checked by an ideal proof before it is shared, or by none "
        "[ideal].",
    )


class TotalsSettings(ServersSettings):
    """Settings of two servers' sums of likes."""

    most_likes: int = Field(
        default=0, ge=0, description="Two servers: likes of a device that count at most, 0 for as many as rated [0]."
    )


class PairTotalsSettings(ServersSettings):
    """Settings of two servers' sums of pairs."""

    pair_items: PairItems = 200
    pair_likes: PairLikes = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedTotals:
    """Sums that two servers publish together, and the noise in them."""

    items: int  # Number of items N
    delta: float  # Chance that the promise fails; 0 for discrete Laplace noise
    neighbours: str  # "replace" or "add-remove"
    honest: int = 0  # Devices whose shares of noise make a dose; 0 where each server adds a dose of its own
    least_answers: int = 0  # Fewest answers that the servers open

    def changes(self, ones: int) -> int:
        """Return how many coordinates of the sums one person changes by one, whose vector has so many ones at most."""
        return ones if self.neighbours == ADD_REMOVE else 2 * ones

    def noise_terms(self, epsilon: Epsilon, ones: int, delta: float) -> dict[str, float]:
        """Return the parameters of a query that say which noise its sums get."""
        changes = self.changes(ones)
        return {
            DELTA: 0.0 if epsilon is None else delta,
            CHANGES: float(changes),
            DEVIATION: dose(epsilon, delta, changes, devices=self.honest > 0),
            HONEST: float(self.honest),
            LEAST_ANSWERS: float(self.least_answers),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class LikeTotals(SharedTotals):
    """Sums of likes of all items; a device's most likes bound its share."""

    most: int  # Most likes w of a device that count

    def __post_init__(self) -> None:
        if not 1 <= self.most <= self.items:
            raise InputError(f"most_likes is {self.most}; it must lie between 1 and the number of items, {self.items}")

    def query(self, **terms: Unpack[RoundTerms]) -> Query:
        """Return the query of the round."""
        parameters = {PADDED: float(self.most), **self.noise_terms(terms["epsilon"], self.most, self.delta)}
        return query_of(
            "totals", self.items, terms, questions=self.items, answer_bits=8 * WORD_BYTES, parameters=parameters
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LikedPairTotals(SharedTotals):
    """Sums of likes of all items, and then of pairs of the items liked most and of these items by themselves."""

    likes: int  # Most likes w of a device that count, of all items as of those that are paired
    pair_items: int  # Items M that are paired

    def __post_init__(self) -> None:
        if self.items < 2:
            raise InputError(f"items is {self.items}; pairs needs at least 2")
        if not 1 <= self.likes <= self.pair_items:
            raise InputError(
                f"pair_likes is {self.likes}; it must lie between 1 and {self.pair_items}, the items that are paired"
            )

    def parts(self, epsilon: Epsilon) -> tuple[Epsilon, Epsilon]:
        """Return the epsilon of the round about likes, and that of the round about pairs."""
        return parts_of(epsilon, self.delta, choice=self.items > self.pair_items)

    def of_items(self, **terms: Unpack[RoundTerms]) -> Query:
        """Return the query about likes of all items."""
        return self._query(terms, None, 1, self.likes)

    def query(self, *, pool: Indices | None = None, **terms: Unpack[RoundTerms]) -> Query:
        """Return the query about pairs of ``pool``, by default of the first M items."""
        pool = np.arange(self.pair_items, dtype=np.int32) if pool is None else pool
        return self._query(terms, pool, 2, with_diagonal(self.likes))

    def _query(self, terms: RoundTerms, pool: Indices | None, items: int, ones: int) -> Query:
        parameters = {PADDED: float(self.likes), TOGETHER: float(items)}
        return query_of(
            "pair-totals",
            self.items,
            terms,
            pool=pool,
            questions=self.items if pool is None else with_diagonal(pool.size),
            answer_bits=8 * WORD_BYTES,
            parameters=parameters | self.noise_terms(terms["epsilon"], ones, self.delta / 2),
        )


def parts_of(epsilon: Epsilon, delta: float, *, choice: bool) -> tuple[Epsilon, Epsilon]:
    """Return the epsilon of likes of all items, and that of pairs; both add up to all of it.

    Each of both sums has half of delta; ``choice`` is whether likes choose which items are paired.
    """
    if epsilon is None:
        return None, None
    # Likes are then about as noisy as pairs: Laplace noise grows with the totals that change, Gaussian with their root.
    # Where all items are paired, likes only rank them.
    likes = epsilon / (CHOICE if delta and choice else LEAST_CHOICE)
    return likes, epsilon - likes


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceAndPairs:
    """All devices answer twice: about likes of all items, and about pairs of those that come out on top."""

    design: LikedPairTotals
    epsilon: Epsilon  # What a device spends in both rounds together [nats]; None for no noise
    public_seed: bytes  # Sixteen bytes that key the public coins

    rounds: ClassVar[int] = 2

    def next_query(self, state: ServerState) -> Ask | None:
        """Return the next round, or None after the second."""
        from coordinator.server.rounds.state import Ask, total

        # Two groups that spend all of epsilon each would need more people: a tenth of them under ten times the epsilon
        # has the same noise beside its counts, but fewer people in each sum, whose own randomness is larger.
        if (number := state.round_number) == self.rounds:
            return None
        parts = self.design.parts(self.epsilon)
        terms = RoundTerms(round_number=number, public_seed=self.public_seed, epsilon=parts[number])
        if not number:
            return Ask(query=self.design.of_items(**terms), first=0, stop=state.devices)
        counts = cast("GroupStatistic", total(state)).ranked
        pool = ranked_first(counts, self.design.pair_items)
        return Ask(query=self.design.query(pool=pool, **terms), first=0, stop=state.devices)


def honest_devices(world: World) -> tuple[int, int]:
    """Return how many honest devices are counted on for noise, and how many answers hold so many.

    Of answers that are expected a share may be liars, whose noise nobody counts on.
    """
    expected, honest = Fraction(str(world.expected_answers)), 1 - Fraction(str(world.assume_malicious))
    devices = math.floor(world.users * expected * honest)
    if devices < 1:
        raise InputError(
            f"of {world.users} users {world.expected_answers:g} are expected to answer, {world.assume_malicious:g} of "
            "these to lie: nobody is left to add noise; let servers add it"
        )
    return devices, math.ceil(devices / honest)


class SharesHalf(ServerHalf):
    """A design that is answered in shares for two servers."""

    decoders = ("totals",)
    trust = TRUST_TWO_SERVERS
    bounded = False
    ranks = True

    def neighbours(self, settings: ServersSettings) -> str:
        """Return the relation that the noise is calibrated for."""
        return settings.neighbours

    def label(self, row: Mapping[str, Any]) -> str:
        """Return its name, with the relation of neighbours where that is not the one of all others."""
        return f"{self.name}, {ADD_REMOVE}" if row.get("neighbours", REPLACE) == ADD_REMOVE else self.name

    def aggregate(self, query: Query, release: Release) -> Statistic:
        """Refuse: no device's answer comes to this server."""
        raise InputError(f"{query} is answered in shares for two servers, which publish their sums alone")

    def _terms(self, settings: ServersSettings, world: World) -> dict[str, Any]:
        """Return what sums of any design have."""
        honest, least = honest_devices(world) if settings.noise == DEVICES else (0, 0)
        return {
            "items": world.items,
            "delta": world.delta,
            "neighbours": settings.neighbours,
            "honest": honest,
            "least_answers": least,
        }


class TotalsHalf(SharesHalf):
    """Two servers' noisy totals of likes."""

    name = "totals"
    title = "two servers' totals of likes"
    settings = TotalsSettings
    policies: ClassVar[tuple[str, ...]] = (ONE_ROUND,)

    def design(self, settings: TotalsSettings, world: World) -> LikeTotals:
        """Return what two servers add up in a world."""
        most = min(settings.most_likes or world.rated, world.items)
        return LikeTotals(most=most, **self._terms(settings, world))

    def of_published(self, query: Query, totals: CountStatistic) -> CountStatistic:
        """Return the totals as they are."""
        return totals

    def decode(self, statistic: CountStatistic, query: Query, how: Decoding) -> Model:
        """Cluster items by noisy totals of likes, which rank them; the error is that of the noise."""
        return _by_totals(statistic.sums, Totals().deviation(query, statistic.answered), how)

    def moments(self, settings: TotalsSettings, world: World) -> SumMoments | None:
        """Return the moments of a total of each cluster, and of the noise."""
        design = self.design(settings, world)
        return _like_moments(world, design, design.most, world.epsilon, world.delta)


class PairTotalsHalf(SharesHalf):
    """Two servers' noisy totals of pairs of the most liked items."""

    name = "pair-totals"
    title = "two servers' totals of pairs"
    settings = PairTotalsSettings
    policies: ClassVar[tuple[str, ...]] = (TWO_ROUNDS,)
    groups = ("items",)

    def design(self, settings: PairTotalsSettings, world: World) -> LikedPairTotals:
        """Return what two servers add up in a world."""
        pair_items = min(settings.pair_items, world.items)
        likes = settings.pair_likes or typical_likes(world.rated, pair_items)
        return LikedPairTotals(likes=likes, pair_items=pair_items, **self._terms(settings, world))

    def policy(self, name: str, setting: Setting, options: PolicyOptions) -> ChoiceAndPairs:
        """Return the only policy: both rounds ask all devices, each under its part of epsilon."""
        design = cast("LikedPairTotals", setting.design)  # no other mechanism has this policy
        return ChoiceAndPairs(design=design, epsilon=setting.epsilon, public_seed=setting.public_seed)

    def of_published(self, query: Query, totals: CountStatistic) -> GroupStatistic:
        """Return totals of items apart from those of pairs."""
        from coordinator.protocol.statistics.counts import PAIRED, RANKED, of_group

        return of_group(RANKED if together(query) == 1 else PAIRED, totals)

    def learn(self, statistic: GroupStatistic, queries: Sequence[Query], how: Decoding) -> Model:
        """Return the items' popularity by the first round, clustered, and EASE on the second round's noisy pairs."""
        from coordinator.protocol.statistics.counts import PAIRED, RANKED
        from coordinator.server.decoding.pair_model import from_sums, gram_matrix
        from coordinator.server.decoding.threads import one_thread

        items, pairs = statistic.of(RANKED), statistic.of(PAIRED)
        model = _by_totals(items.sums, PairVector().deviation(queries[0], items.answered), how)
        if not pairs.answered:  # nobody answered the second round, or there was none: popularity is all there is
            return model
        _, query = queries
        assert query.pool is not None  # checked where it was asked
        gram, deviation = gram_matrix(pairs.sums, query.pool.size), PairVector().deviation(query, pairs.answered)
        with one_thread():
            near = from_sums(query.pool, gram, pairs.answered, deviation)
        return replace(model, near=near)

    def moments(self, settings: PairTotalsSettings, world: World) -> SumMoments | None:
        """Return the moments of the first round's totals, of which clusters are made, and of their noise."""
        design = self.design(settings, world)
        of_likes, _ = design.parts(world.epsilon)
        return _like_moments(world, design, design.likes, of_likes, world.delta / 2)


def _by_totals(sums: Ints, error: float, how: Decoding) -> Model:
    """Return the model of noisy totals of likes, which rank items."""
    from coordinator.server.decoding.line import kmeans_on_line

    totals = sums.astype(np.float64)
    cluster = kmeans_on_line(totals, how.clusters)
    return Model(cluster=cluster, score=totals, error=np.full(totals.size, error), clusters=how.clusters)


def _like_moments(world: World, design: SharedTotals, most: int, epsilon: Epsilon, delta: float) -> SumMoments | None:
    """Return the moments of a total of each cluster of at most so many likes a device, and of the noise."""
    from coordinator.protocol.moments.count_moments import set_shares

    if world.block is None:
        return None
    changes = design.changes(most)
    deviation = noise_deviation(
        epsilon,
        changes,
        dose(epsilon, delta, changes, devices=design.honest > 0),
        honest=design.honest,
        answered=world.users,
    )
    return SumMoments(level=set_shares(world.block, most), noise=deviation**2)


SERVER = (TotalsHalf(), PairTotalsHalf())
