"""What a mechanism states of one query, its exact channel, and how it is asked for releases."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any, TypeAlias

import numpy as np

from actors.halves import DeviceHalf
from actors.mechanisms import half_of as device_half
from actors.own import OwnDevice
from actors.ratings import StoredRatings
from coordinator.protocol.admitted import OwnPublic, fitted, question_of, stated
from coordinator.protocol.arrays import Bits2, Bools, Indices2
from coordinator.protocol.guarding import guarded
from coordinator.protocol.mechanisms import half_of as public_half
from coordinator.protocol.messages import Query
from coordinator.protocol.own import MechanismError, OwnChannel, Question
from scenarios.conformance.enumerating import AnyChannel
from scenarios.conformance.subject import SECRET, cohort, coins_of

Sketches: TypeAlias = np.ndarray[Any, np.dtype[Any]]
"""Whole numbers, a row for each device."""


class Unclaimed(Question):
    """A question that tells what it may cost, but claims nothing, so that a channel is built however much it tells."""

    told: float = math.inf

    @property
    def nats(self) -> float:
        """What the answer may cost [nats]."""
        return self.told


class Unheld(OwnPublic):
    """The public half of one's own mechanism that does not refuse a channel which tells too much."""

    def channel(self, query: Query) -> OwnChannel:
        """Return the channel that the class states, or would state if it did not have to claim anything."""
        try:
            return stated(self.own, query)
        except MechanismError as error:
            asked = question_of(query)
            told = {part.name: getattr(asked, part.name) for part in fields(asked)}
            free = Unclaimed(**{**told, "epsilon": None})
            object.__setattr__(free, "told", asked.nats)
            try:
                return fitted(self.own, query, guarded(self.own.mechanism, "channel", query.round, free))
            except MechanismError:
                raise error from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What all devices let out, once: their bits, whether they answered, and the public pairs that bits are about."""

    bits: Bits2
    answered: Bools
    pairs: Indices2 | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """How devices answer one query.

    Attributes
    ----------
    device : DeviceHalf
        Their half, which draws past a refusal where they refuse.
    channel : Channel, Likelihood or None
        As it is stated; None where ratings are told as they are.
    refusal : str
        Why devices refuse such a query, if they do.
    """

    device: DeviceHalf
    channel: AnyChannel | None
    refusal: str = ""


class Asking:
    """How queries are asked: of devices as a run has them, or past their refusal."""

    def __init__(self) -> None:
        self._stated: dict[bytes, Stated] = {}

    def stated(self, query: Query) -> Stated:
        """Return how devices answer a query; what a class states of it is looked up once."""
        if query.id not in self._stated:
            self._stated[query.id] = self._looked_up(query)
        return self._stated[query.id]

    def _looked_up(self, query: Query) -> Stated:
        public, device = public_half(query.design), device_half(query.design)
        if not public.private:
            return Stated(device=device, channel=None)
        try:
            return Stated(device=device, channel=public.channel(query))
        except MechanismError as error:
            if not isinstance(public, OwnPublic):
                raise
            beyond = Unheld(public.own)
            channel = beyond.channel(query)
            return Stated(device=OwnDevice(public.own, beyond), channel=channel, refusal=str(error))

    def sketch(self, query: Query, ratings: StoredRatings) -> tuple[Sketches, Bools]:
        """Return what devices have to say, shape (devices, k), and which of them can answer."""
        device = self.stated(query).device
        told = device.sketch(query, ratings, coins_of(query, 0, ratings.users))
        able = np.ones(ratings.users, np.bool_) if told.able is None else told.able.astype(np.bool_)
        if self.stated(query).channel is None:  # then it lets out the sketch itself
            return device.randomize(told.private, query, coins_of(query, 0, ratings.users)), able
        sketches: Sketches = told.private.reshape(ratings.users, -1)
        return sketches, able

    def answers(self, queries: list[Query], ratings: StoredRatings, secret: bytes = SECRET) -> list[Answers]:
        """Return what devices let out when they are asked these queries in turn; each says what it says in a run.

        With another ``secret`` they draw other noise: what is chosen by some releases is measured on others.
        """
        devices, told = cohort(ratings, 0, ratings.users, secret=secret), []
        for query in queries:
            if self.stated(query).refusal:
                told.append(self._past_refusal(query, ratings, secret))
                continue
            release = devices.answer(query, 0, ratings.users)
            told.append(
                Answers(bits=release.unpacked(), answered=release.answered_mask(), pairs=release.public_pairs())
            )
        return told

    def _past_refusal(self, query: Query, ratings: StoredRatings, secret: bytes) -> Answers:
        coins, device = coins_of(query, 0, ratings.users, secret), self.stated(query).device
        bits = device.randomize(device.sketch(query, ratings, coins).private, query, coins)
        return Answers(bits=bits, answered=np.ones(ratings.users, np.bool_), pairs=None)
