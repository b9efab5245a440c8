"""The server's half of a user's own mechanism: the user's class asks, counts and estimates."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from coordinator.protocol import custom
from coordinator.protocol.arrays import Floats, Indices, Ints
from coordinator.protocol.channels import COIN, IndependentBits, Likelihood
from coordinator.protocol.errors import InputError
from coordinator.protocol.limits import require_memory, round_bytes
from coordinator.protocol.messages import Model, Query, Release
from coordinator.protocol.statistics.counts import CountStatistic
from coordinator.protocol.statistics.statistic import Statistic, device_counts, no_answer
from coordinator.protocol.value_channels import value_bits
from coordinator.server.design import Decoding, LearnerOptions, RoundTerms, World, query_of
from coordinator.server.server_half import FIXED, ONE_ROUND, POOLED, POSTERIOR, ServerHalf

if TYPE_CHECKING:
    from coordinator.protocol.moments.sign_moments import SignMoments
    from coordinator.server.decoding.estimates import Estimates
    from coordinator.server.rounds.learner import Learner

KMEANS = "k-means"  # Name of the decoder that clusters the class's values
DECODERS = (KMEANS, POSTERIOR)
MANY = 1_000_000  # Number of devices from whose typical counts an answer's information follows


class CustomDesign:
    """A user's own mechanism in one world: policies ask with it, and it reads the answers."""

    def __init__(self, own: custom.CustomMechanism, world: World) -> None:
        self.own, self.world, self.name, self.widest = own, world, own.name, float(own.mechanism.widest)

    @property
    def items(self) -> int:
        """Number of items N of the catalogue."""
        return self.world.items

    def query(
        self,
        *,
        pool: Indices | None = None,
        expected: Floats | None = None,  # noqa: ARG002 (other designs use it)
        **terms: Unpack[RoundTerms],
    ) -> Query:
        """Return the query of one round about the items of ``pool``, by default all."""
        world, mechanism, round_number = self.world, self.own.mechanism, terms["round_number"]
        whole = pool is None or pool.size == world.items
        if not whole and not mechanism.pools:
            raise InputError(
                f"{type(mechanism).__name__} asks about no pools of items; it can follow {ONE_ROUND} and {FIXED}, "
                "or set the class's pools"
            )
        items = np.arange(world.items, dtype=np.int32) if pool is None else pool
        catalogue = custom.Catalogue(
            items=world.items, rated=world.rated, users=world.users, epsilon=terms["epsilon"], pool=items
        )
        question = self._checked(custom.guarded(mechanism, "query", round_number, catalogue), round_number)
        width = question.bits or value_bits(question.outputs)  # an output is named by so many bits
        what = f"a question of {type(mechanism).__name__} for {width:,} bits a device"
        require_memory(round_bytes(1, width), what, "ask for less at once")
        sizes = {custom.OUTPUTS: question.outputs, custom.VALUES: question.values}
        return query_of(
            self.name,
            world.items,
            terms,
            questions=question.bits or 1,
            parameters={**question.parameters, **{name: float(size) for name, size in sizes.items() if size}},
            pool=None if whole else pool,
            answer_bits=value_bits(question.outputs) if question.outputs else 1,
            arrays=dict(question.arrays),
        )

    def _checked(self, question: object, round_number: int) -> custom.Question:
        if type(question) is not custom.Question:
            raise self.own.fail("query", round_number, f"it returned a {type(question).__name__}; return a Question")
        sizes = question.outputs, question.bits, question.values
        if (
            any(type(size) is not int for size in sizes)
            or min(sizes) < 0
            or not (question.outputs > 1) ^ (question.bits > 0)
        ):
            problem = "its question names neither outputs, from 2 on, nor bits, or both; give one, a whole number"
            raise self.own.fail("query", round_number, problem)
        if taken := {custom.OUTPUTS, custom.VALUES} & question.parameters.keys():
            raise self.own.fail("query", round_number, f"a parameter is called {min(taken)}, which is taken; rename it")
        return question

    def read(self, query: Query, statistic: Statistic, expected: Floats | None = None) -> Estimates:  # noqa: ARG002 (not needed)
        """Return a round's estimates of every item."""
        from coordinator.server.decoding.estimates import Estimates  # noqa: PLC0415 (loads numerical libraries)

        value, error = estimated(self.own, query, statistic)
        pool = custom.question_of(query).pool
        information = np.zeros(query.items)
        with np.errstate(divide="ignore"):
            information[pool] = np.where(np.isfinite(error), 1 / error**2, 0.0)
        weighted = np.zeros(query.items)
        weighted[pool] = value * information[pool]
        return Estimates(weighted=weighted, information=information)

    def rates(self, query: Query, expected: Floats | None = None) -> Floats:  # noqa: ARG002 (not needed)
        """Return one device's information about each item of a query's pool, if all sketches are equally frequent."""
        sums = typical(self.own, query, MANY)
        _, error = _estimate(self.own, query, custom.Tally(sums=sums, devices=MANY))
        return 1 / (MANY * error**2)

    def signal(self) -> SignMoments | None:
        """Return the contrast of one answer, from which predictions follow; None if the class does not give it."""
        from coordinator.protocol.moments.sign_moments import SignMoments  # noqa: PLC0415 (loads numerical libraries)

        query = self.query(round_number=0, public_seed=bytes(16), epsilon=self.world.epsilon)
        precision = custom.guarded(self.own.mechanism, "precision", 0, custom.question_of(query), self.world.rated)
        if precision is None:
            return None
        if not isinstance(precision, float | np.floating) or not 0 < precision < np.inf:
            raise self.own.fail("precision", 0, "it returned no real number above 0; return one, or None")
        return SignMoments(contrast=float(precision) ** 0.5)


def counts_itself(mechanism: custom.Mechanism) -> bool:
    """Return whether a class has a ``count`` of its own."""
    return type(mechanism).count is not custom.Mechanism.count


def policies_of(kind: type[custom.Mechanism]) -> tuple[str, ...]:
    """Return the policies that a class can follow: adaptive ones need pools and the default ``count``."""
    return POOLED if kind.pools and kind.count is custom.Mechanism.count else (ONE_ROUND, FIXED)


def typical(own: custom.CustomMechanism, query: Query, devices: int) -> Ints:
    """Return the sum of so many devices' answers if all private values are equally frequent."""
    channel = custom.CustomPublic(own).channel(query)
    if counts_itself(own.mechanism) or isinstance(channel, Likelihood):
        raise InputError(
            f"{type(own.mechanism).__name__} counts in a way of its own, so that no adaptive policy can size its "
            f"rounds; choose {ONE_ROUND} or {FIXED}"
        )
    if isinstance(channel, IndependentBits):
        share = 1 / 2 if channel.ones is None else channel.ones / channel.count
        rate = (share * channel.if_one + (1 - share) * channel.if_zero) / COIN
        return np.full(channel.count, round(devices * rate), np.int64)
    mean = np.array([[cell / COIN for cell in row] for row in channel.rows]).mean(axis=0)
    return np.asarray(np.rint(devices * mean).astype(np.int64))


def estimated(own: custom.CustomMechanism, query: Query, statistic: Statistic) -> tuple[Floats, Floats]:
    """Return the class's values and standard errors of the items of a query's pool."""
    if not isinstance(statistic, CountStatistic):
        raise InputError(f"a CountStatistic is expected here, not a {type(statistic).__name__}")
    return _estimate(own, query, custom.Tally(sums=statistic.sums, devices=statistic.answered))


def _estimate(own: custom.CustomMechanism, query: Query, tally: custom.Tally) -> tuple[Floats, Floats]:
    question = custom.question_of(query)
    size = question.pool.size
    if not tally.devices:
        return np.zeros(size), np.full(size, np.inf)
    answer = custom.guarded(own.mechanism, "estimate", query.round, question, tally)
    try:
        value, error = (np.asarray(part, np.float64) for part in answer)
    except (TypeError, ValueError):
        raise own.fail(
            "estimate", query.round, "it returned no pair of arrays; return values and their standard errors"
        ) from None
    if value.shape != (size,) or error.shape != (size,):
        problem = f"it returned shapes {value.shape} and {error.shape}; return ({size},), one an item"
        raise own.fail("estimate", query.round, problem)
    if not (np.isfinite(value).all() and (error > 0).all()):
        raise own.fail(
            "estimate", query.round, "some values are not finite, or some standard errors not above 0 (inf: unknown)"
        )
    return np.ascontiguousarray(value), np.ascontiguousarray(error)


class CustomServer(ServerHalf):
    """The server half of a custom mechanism."""

    decoders = DECODERS

    def __init__(self, own: custom.CustomMechanism) -> None:
        self.own, self.name = own, own.name
        self.title = type(own.mechanism).__name__
        self.policies = policies_of(type(own.mechanism))  # type: ignore[misc] # each has its own

    def design(self, settings: Any, world: World) -> CustomDesign:  # noqa: ARG002 (settings are the class's own)
        """Return what is asked in a world."""
        return CustomDesign(self.own, world)

    def learner(self, settings: Any, world: World, options: LearnerOptions) -> Learner:
        """Return the learner, which says to all processes of the run what they must admit."""
        return replace(super().learner(settings, world, options), own=self.own)

    def aggregate(self, query: Query, release: Release) -> Statistic:
        """Return the statistic of one block's release; see `ServerHalf.aggregate`."""
        answered = release.answered_mask()
        bits = release.unpacked()[answered]
        devices = np.flatnonzero(answered) + release.first
        question = custom.question_of(query)
        released: Any = bits
        if question.outputs:
            released = bits.astype(np.int64) @ (1 << np.arange(query.bits - 1, -1, -1, dtype=np.int64))
            if released.size and released.max() >= question.outputs:
                problem = f"it names output {released.max()}, outputs end at {question.outputs - 1}"
                raise no_answer(query, release, problem)
        sums = custom.guarded(self.own.mechanism, "count", query.round, question, released, devices.astype(np.int64))
        if type(sums) is not np.ndarray or sums.dtype.kind not in "iu" or sums.ndim != 1:
            raise self.own.fail("count", query.round, "it returned no array of whole numbers in one dimension")
        return CountStatistic(
            sums=sums.astype(np.int64),
            ones=int(bits.sum(dtype=np.int64)),
            **device_counts(release),
            pooled=0 if query.pool is None else release.count,
        )

    def decode(self, statistic: Any, query: Query, how: Decoding) -> Model:
        """Return the item model of k-means on the class's values; see `ServerHalf.decode`."""
        from coordinator.server.decoding.line import kmeans_on_line  # noqa: PLC0415 (loads numerical libraries)

        if how.decoder != KMEANS or how.curator is not None:
            raise InputError(f"decoder {how.decoder!r} is unknown; choose one of {', '.join(self.decoders)}")
        if statistic.pooled:
            raise InputError(f"rounds asked about pools of items, whose counts have no sum; choose decoder {POSTERIOR}")
        value, error = estimated(self.own, query, statistic)
        return Model(cluster=kmeans_on_line(value, how.clusters), score=value, error=error, clusters=how.clusters)


@lru_cache(maxsize=16)
def server_half(own: custom.CustomMechanism) -> CustomServer:
    """Return the server half of a custom mechanism, as it was admitted."""
    return CustomServer(own)
