"""Devices receive a query and send a release; nothing else leaves them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from actors.absence import PRESENT, Absence
from actors.advice import recommend, recommend_featured
from actors.device_block import DeviceBlock
from actors.keeper import LedgerClient
from actors.ledger import Ledger
from actors.ratings import Ratings, RatingsBlock, likes_in_words, new_likes
from actors.seeds import Coins
from actors.shares import noisy, seeds_to_share, vectors_of, words_to_share
from coordinator.protocol.agreement import Agreement
from coordinator.protocol.arrays import Bits, Bits2, Bools, Indices2, Words, Words32
from coordinator.protocol.budget import Epsilon, as_json
from coordinator.protocol.checked import require_block, require_whole
from coordinator.protocol.coins import as_words
from coordinator.protocol.errors import InputError, PermitError
from coordinator.protocol.item_models import PublicFeatures
from coordinator.protocol.limits import require_memory, round_bytes
from coordinator.protocol.mechanism import Sketch
from coordinator.protocol.mechanisms import check_question, mechanism_of
from coordinator.protocol.messages import Model, Query, Release, pack
from coordinator.protocol.packed_releases import wipe
from coordinator.protocol.shared_vector import SharedVector
from coordinator.protocol.shares import WORD_BYTES, WORDS_SERVER, SeedShare, WordShare, as_bytes_of_words


def check(query: Query, ratings: Ratings, *, shares: bool = False) -> Query:
    """Return a copy of a query, with arrays of its own, that devices can answer; refuse one that they cannot."""
    # A query about a vector is answered in ``shares`` alone, each against the permit of its server.
    query = Query.arrived(query)
    if query.items != ratings.items:  # first, because the other checks take longer in a larger catalogue
        raise InputError(f"{query} asks about {query.items} items, the devices' catalogue has {ratings.items}")
    mechanism = check_question(query)
    if mechanism.names_rated and not ratings.rated_public:
        raise InputError(f"{query} would have devices name items that they rated; which those are is private here")
    if mechanism.shares and not shares:
        raise PermitError(
            f"{query} is answered in shares for two servers, each against its own permit; nobody gets more"
        )
    if shares and not mechanism.shares:
        raise InputError(f"{query} is not answered in shares; ask it of devices")
    return query


@dataclass(frozen=True, slots=True, kw_only=True)
class ChargedQuery:
    """A query that a block of devices has checked and was charged for; nothing has left them yet."""

    query: Query  # The query that they are charged for
    first: int  # First device
    stop: int  # One more than the last device
    # Ranges ``[first, stop)`` of devices that refuse: their budget is too small, or the keeper does not answer
    refused: Sequence[tuple[int, int]]
    present: Bits | None  # 1 for devices that answer in time, 0 for those that drop out or are late; None if all answer

    def answering(self, able: Bools | None = None) -> Bits | None:
        """Return 1 for each device that answers, or None if all do; ``able`` says which ones can answer at all."""
        if not self.refused and able is None and self.present is None:
            return None
        mask = np.ones(self.stop - self.first, np.uint8) if able is None else able.astype(np.uint8)
        if self.present is not None:
            mask &= self.present
        for start, end in self.refused:
            mask[start - self.first : end - self.first] = 0
        return mask

    def release(
        self,
        bits: Bits2 | Bits,
        able: Bools | None = None,
        pairs: Indices2 | None = None,
        questions: Words | None = None,
    ) -> Release:
        """Return the release, which is everything that leaves the devices."""
        # Shapes: ``bits`` (devices, bits); ``pairs`` (devices, 2); ``questions`` (devices,).
        answered, packed = self.answering(able), np.packbits(bits) if bits.ndim == 2 else bits
        if answered is not None:
            wipe(packed, self.query.bits, answered)
            questions = None if questions is None else np.where(answered, questions, np.uint64(0))
        return Release(
            query_id=self.query.id,
            first=self.first,
            count=self.stop - self.first,
            width=self.query.bits,
            bits=packed.tobytes(),
            answered=None if answered is None else pack(answered),
            refused=sum(end - start for start, end in self.refused),
            pairs=None if pairs is None else pairs.astype("<i4").tobytes(),
            questions=None if questions is None else questions.astype("<u8").tobytes(),
        )


MOST_ADVISED = 1 << 16  # Most items that one recommendation may have
PIECE = 1 << 16  # Devices, a multiple of 8, whose sketches are in memory at the same time


class Reports(NamedTuple):
    """What some devices release: packed bits, which devices can answer, and public pairs; as in `Sketch`."""

    bits: Bits
    able: Bools | None
    pairs: Indices2 | None


def sketch_of(query: Query, ratings: Ratings, coins: Coins) -> Sketch:
    """Return what devices with these ratings have to say to a query, before it is randomized."""
    return mechanism_of(query.design).sketch(query, RatingsBlock(ratings, coins), coins)


def reports_of(query: Query, ratings: Ratings, coins: Coins) -> Reports:
    """Return what devices with these ratings release, before those that do not answer are wiped."""
    private, able, pairs = sketch_of(query, ratings, coins)
    return Reports(mechanism_of(query.design).packed(private, query, coins), able, pairs)


def join_reports(parts: Sequence[Reports], pieces: Sequence[tuple[int, int]]) -> Reports:
    """Return what consecutive pieces of a block, ``[first, stop)`` each, release together."""
    bits, able, pairs = zip(*parts, strict=True)
    masks = [
        np.ones(stop - first, np.bool_) if mask is None else mask
        for mask, (first, stop) in zip(able, pieces, strict=True)
    ]
    return Reports(
        np.concatenate(bits),
        None if all(mask is None for mask in able) else np.concatenate(masks),
        None if all(mask is None for mask in pairs) else np.concatenate(pairs),  # a piece without any has no default
    )


class Cohort(DeviceBlock):
    """A block of devices of one process; each answers as if it were alone. ``budget`` in nats."""

    def __init__(
        self,
        ratings: Ratings,
        secret: bytes,
        first: int,
        stop: int,
        budget: Epsilon,
        *,
        keeper: LedgerClient | None = None,
        absence: Absence = PRESENT,
        agreement: Agreement | None = None,
    ) -> None:
        # Devices of runs have an agreement, whose budget theirs is; without one they look at the budget alone.
        require_block(first, stop, 0, ratings.users)
        if agreement is not None and budget != Agreement.arrived(agreement).budget:
            raise InputError(f"budget is {as_json(budget)}, but {as_json(agreement.budget)} was agreed; give that")
        self.first, self.stop = first, stop
        self.ledger = Ledger(first, stop, budget, keeper, agreement)
        self._agreement = agreement
        self._absence = absence
        self._ratings = ratings
        self._master = as_words(secret)

    def ask(self, question: Any, first: int, stop: int, *_: Any) -> Release:
        """Answer a query; see `answer`."""
        return self.answer(question, first, stop)

    def answer(self, query: Query, first: int, stop: int) -> Release:
        """Answer ``query`` for devices ``first`` to ``stop - 1``."""
        # A device that has answered this query before repeats its bits and spends nothing. A device refuses a new query
        # if its budget is too small or its keeper does not answer: it is then marked as not answering, and its bits are
        # 0. The same mark and bits are given to a device that has too few public rated items to answer, that drops out,
        # or that is late. Such a device is charged nevertheless. Its own coin decides whether it drops out or is late.
        charged = self.book(query, first, stop)
        query = charged.query  # whose arrays nobody else can change
        pieces = [(start, min(start + PIECE, stop)) for start in range(first, stop, PIECE)] or [(first, stop)]
        reports = join_reports([self._reports(query, *ends) for ends in pieces], pieces)
        questions = self._coins(query, first, stop).streams(query) if query.own_questions else None
        return charged.release(*reports, questions)

    def _reports(self, query: Query, first: int, stop: int) -> Reports:
        ratings, coins = self._ratings.at(query.period), self._coins(query, first, stop)
        if self._agreement is not None and self._agreement.memoized:
            # of whatever period it is about; what a device likes takes the place of half the id
            question = replace(query, round=0, period=0)
            coins = coins._replace(query_id=question.words, values=likes_in_words(ratings, coins))
        return reports_of(query, ratings, coins)

    def share(self, side: str, query: Query, first: int, stop: int) -> WordShare | SeedShare:
        """Return the shares of devices ``first`` to ``stop - 1`` for one of two servers; both cost one question."""
        # Devices that refuse, drop out or are late give none, as in `answer`, and the same ones at both servers.
        charged = self.book(query, first, stop, shares=True)
        query, count = charged.query, stop - first
        mechanism, coins = _vector_mechanism(query), self._coins(query, first, stop)
        answered, refused = charged.answering(), sum(end - start for start, end in charged.refused)
        heard = np.ones(count, np.uint8) if answered is None else answered
        block: dict[str, Any] = {"query_id": query.id, "first": first, "count": count, "width": mechanism.width(query)}
        block |= {"answered": pack(heard), "refused": refused}
        if side == WORDS_SERVER:
            vectors = words_to_share(coins, heard, self._vectors(query, mechanism, coins, heard))
            return WordShare(**block, vector_bytes=as_bytes_of_words(vectors))
        return SeedShare(**block, seeds=seeds_to_share(coins, heard))

    def _vectors(self, query: Query, mechanism: SharedVector, coins: Coins, heard: Bits) -> Words32:
        """Return devices' vectors, with their shares of noise where devices add it; nothing of this leaves them."""
        vectors = vectors_of(self._ones(query, coins), mechanism.width(query))
        noisy(query, mechanism, coins, heard, vectors)
        return vectors

    def _ones(self, query: Query, coins: Coins) -> Indices2:
        """Return the places of the ones of devices' vectors; places outside of these stand for nothing."""
        if self._agreement is None or not self._agreement.counter:
            return ones_in(query, self._ratings.at(query.period), coins)
        # Which likes count is a function of the plan and of what is rated in each period, whatever was answered
        coins = coins._replace(query_id=as_words(self._agreement.digest))
        rounds = sorted(part[:3] for part in self._agreement.rounds if part.period <= query.period)
        return new_likes(self._ratings, coins, rounds, _vector_mechanism(query).ones(query))

    def book(self, query: Query, first: int, stop: int, *, shares: bool = False) -> ChargedQuery:
        """Check and charge ``query`` and find out which devices answer it, before any of them does; see `answer`."""
        query = self._checked(query, (first, stop), shares=shares)
        needed = round_bytes(min(stop - first, PIECE), query.bits) if stop > first and not shares else 0
        if shares:
            needed = 4 * WORD_BYTES * max(0, stop - first) * _vector_mechanism(query).width(query)
        require_memory(needed, f"{query}, {query.bits:,} bits a device,", "ask for fewer, or fewer devices at once")
        refused = self.ledger.charge(query, first, stop)
        present = self._absence.present(self._master, query.words, first, stop - first, query.period)
        return ChargedQuery(query=query, first=first, stop=stop, refused=refused, present=present)

    def _checked(self, query: Query, devices: tuple[int, int] | None = None, *, shares: bool) -> Query:
        """Return a copy of a query that devices can answer, and that their agreement covers; see `check`."""
        query = check(query, self._ratings, shares=shares)
        if self._agreement is not None:
            self._agreement.require(query, shares=shares, devices=devices)
        self._ratings.at(query.period)  # which refuses a period that devices do not live in
        return query

    def _coins(self, query: Query, first: int, stop: int) -> Coins:
        return Coins(self._master, first, stop - first, query.words)

    def rehearse(self, query: Query) -> None:
        """Compile what ``query`` needs by answering it on one device; the bit is dropped, and nothing is charged."""
        query = Query.arrived(query)
        query = self._checked(query, shares=mechanism_of(query.design).shares)
        if self.first == self.stop:
            return
        if mechanism_of(query.design).shares:
            coins, heard = self._coins(query, self.first, self.first + 1), np.ones(1, np.uint8)
            words_to_share(coins, heard, self._vectors(query, _vector_mechanism(query), coins, heard))
            return
        reports_of(query, self._ratings.at(query.period), self._coins(query, self.first, self.first + 1))

    def inspect(self, question: Any, first: int, stop: int) -> Indices2:
        """Return devices' own top k of a `AdviceRequest`; see `recommend`."""
        if type(question) is not AdviceRequest:
            return super().inspect(question, first, stop)  # type: ignore[no-any-return] # it raises
        return self.recommend(question.model, first, stop, question.k, question.features)

    def recommend(
        self, model: Model, first: int, stop: int, k: int, features: PublicFeatures | None = None
    ) -> Indices2:
        """Return each device's own top ``k``, int32, shape (stop - first, k); see `advice.recommend`."""
        # With public ``features`` of items see `advice.recommend_featured`. In a deployment this never leaves the
        # device; a simulation reads it to score it.
        model = Model.arrived(model)
        require_block(first, stop, self.first, self.stop)
        require_whole("k", k, 1, MOST_ADVISED)
        if model.cluster.size != self._ratings.items:
            raise InputError(f"model has {model.cluster.size} items, the device's catalogue has {self._ratings.items}")
        rated = self._ratings.rated(self._master, first, stop - first)
        if features is None:
            return recommend(model, rated, k=k)
        features = PublicFeatures.arrived(features)
        if (count := len(features.has)) != self._ratings.items:
            raise InputError(f"features are of {count} items, the device's catalogue has {self._ratings.items}")
        return recommend_featured(model, features, rated, k=k)


def ones_in(query: Query, ratings: Ratings, coins: Coins) -> Indices2:
    """Return the places of the ones of devices' vectors; places outside of these stand for nothing."""
    return sketch_of(query, ratings, coins).private.view(np.int32)


def _vector_mechanism(query: Query) -> SharedVector:
    """Return the mechanism of a query that is answered in shares, which was checked."""
    mechanism = mechanism_of(query.design)
    assert isinstance(mechanism, SharedVector)  # no other has shares
    return mechanism


class AdviceRequest(NamedTuple):
    """The experimenter's request for every device's own top k items, from a public model and perhaps features."""

    model: Model
    k: int
    features: PublicFeatures | None = None
