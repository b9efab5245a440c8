"""What a mechanism states of one query, its exact channel, and how it is asked for releases."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any, TypeAlias

import numpy as np

from actors.own import OwnDevice
from actors.ratings import StoredRatings
from coordinator.protocol.admitted import OwnPublic, fitted, question_of, stated
from coordinator.protocol.arrays import Bits2, Bools, Indices2
from coordinator.protocol.guarding import guarded
from coordinator.protocol.messages import Query
from coordinator.protocol.own import MechanismError, OwnChannel, Question
from scenarios.conformance.enumerating import AnyChannel
from scenarios.conformance.subject import SECRET, Subject, cohort, coins_of

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


class Asking:
    """How a subject is asked: of devices as a run has them, or past their refusal.

    Parameters
    ----------
    subject : Subject
        The mechanism.
    query : Query
        A first query of it, which tells what the others are like.

    Attributes
    ----------
    refusal : str
        Why devices refuse such queries; then releases are drawn past the refusal, by the same half of the device.
    channel : Channel, Likelihood or None
        As it is stated; None where ratings are told as they are.
    """

    def __init__(self, subject: Subject, query: Query) -> None:
        self.subject, self.refusal = subject, ""
        self.channel: AnyChannel | None = None
        self._device = subject.device
        if not subject.public.private:
            return
        try:
            self.channel = subject.public.channel(query)
        except MechanismError as error:
            if not isinstance(subject.public, OwnPublic):
                raise
            self.refusal = str(error)
            beyond = Unheld(subject.public.own)
            self._device, self.channel = OwnDevice(subject.public.own, beyond), beyond.channel(query)

    def channel_of(self, query: Query) -> AnyChannel | None:
        """Return the channel of another query."""
        return None if self.channel is None else Asking(self.subject, query).channel

    def sketch(self, query: Query, ratings: StoredRatings) -> tuple[Sketches, Bools]:
        """Return what devices have to say, shape (devices, k), and which of them can answer."""
        told = self._device.sketch(query, ratings, coins_of(query, 0, ratings.users))
        able = np.ones(ratings.users, np.bool_) if told.able is None else told.able.astype(np.bool_)
        if self.channel is None:  # then it lets out the sketch itself
            return self._device.randomize(told.private, query, coins_of(query, 0, ratings.users)), able
        sketches: Sketches = told.private.reshape(ratings.users, -1)
        return sketches, able

    def answers(self, queries: list[Query], ratings: StoredRatings, secret: bytes = SECRET) -> list[Answers]:
        """Return what devices let out when they are asked these queries in turn; each says what it says in a run.

        With another ``secret`` they draw other noise: what is chosen by some releases is measured on others.
        """
        if self.refusal:
            return [self._past_refusal(query, ratings, secret) for query in queries]
        devices, told = cohort(ratings, 0, ratings.users, secret=secret), []
        for query in queries:
            release = devices.answer(query, 0, ratings.users)
            told.append(
                Answers(bits=release.unpacked(), answered=release.answered_mask(), pairs=release.public_pairs())
            )
        return told

    def _past_refusal(self, query: Query, ratings: StoredRatings, secret: bytes) -> Answers:
        coins = coins_of(query, 0, ratings.users, secret)
        sketched = self._device.sketch(query, ratings, coins)
        bits = self._device.randomize(sketched.private, query, coins)
        return Answers(bits=bits, answered=np.ones(ratings.users, np.bool_), pairs=None)
