"""Private devices of the two-tier model: a query is announced, a model comes in, one release a device goes out."""

from contextlib import suppress
from typing import Any

import numpy as np

from actors.device_block import DeviceBlock
from actors.keeper import LedgerClient, UnreachableError
from actors.ledger import DeviceRange, Ledger
from actors.seeds import Coins
from coordinator.protocol.agreement import Agreement
from coordinator.protocol.arrays import Floats2
from coordinator.protocol.budget import as_float, within
from coordinator.protocol.checked import LARGEST, require_block
from coordinator.protocol.coins import as_words
from coordinator.protocol.errors import AgreementError, InputError
from coordinator.protocol.features import ItemFeatures, residuals
from coordinator.protocol.messages import Release, pack
from coordinator.protocol.rating_table import Rows
from coordinator.protocol.second_order import SecondOrderQuery, two_tier_mechanism

DEVICES_A_COHORT = 5  # Devices of one cohort: fewer than a batch has, so that all workers have something to do
BLOCK = 1 << 19
"""Most completed ratings, or numbers of moments, in memory at a time, over the devices that answer together."""


class PrivateCohort(DeviceBlock):
    """A block of private devices; each answers as if it were alone.

    A device answers one query, whose id covers the model's digest. It is charged for it when it is announced, before it
    has seen the model. If the query comes again, the device repeats its answer; it refuses every other one, whoever
    asks. What was agreed names the mechanisms, and as budget the largest epsilon as the mechanism counts it: of a bit,
    of a coordinate, or of a release. Whether a device releases its own h, which is not private, is ``own_h``.
    """

    def __init__(
        self,
        rows: Rows,
        secret: bytes,
        first: int,
        stop: int,
        *,
        agreement: Agreement,
        own_h: bool = False,
        keeper: LedgerClient | None = None,
    ) -> None:
        self.first, self.stop = first, stop
        self.ledger = Ledger(first, stop, agreement.budget, keeper, agreement)
        self._agreement, self._own_h = agreement, own_h
        self._ratings, self._master = rows.block(first, stop), as_words(secret)

    def ask(self, question: Any, first: int, stop: int, *public: Any) -> Release | None:
        """Take the announcement of a query, or answer it about the model that comes with it."""
        if not public:
            self.announce(question, first, stop)
            return None
        if len(public) != 1:
            raise InputError(f"{len(public)} models come with a query; send the one that it names")
        return self.answer(question, public[0], first, stop)

    def announce(self, query: SecondOrderQuery, first: int, stop: int) -> None:
        """Charge devices ``first`` to ``stop - 1`` for the one query that they will answer; it is public."""
        query = self._checked(query, first, stop)
        self._uncharged(query, first, stop)
        self.ledger.charge(query, first, stop)  # those who cannot book it refuse when it comes

    def answer(self, query: SecondOrderQuery, model: ItemFeatures, first: int, stop: int) -> Release:
        """Answer for devices ``first`` to ``stop - 1``; those to whom the query was not announced refuse."""
        query, features = self._checked(query, first, stop), ItemFeatures.arrived(model)
        query.require(features)
        if features.items != self._ratings.count:
            raise InputError(
                f"the model has {features.items} items; private devices rate a catalogue of {self._ratings.count}, "
                "announce a model of that one"
            )
        answered = np.ones(stop - first, np.uint8)
        for block in self._uncharged(query, first, stop):
            answered[block.first - first : block.stop - first] = 0
        mechanism = two_tier_mechanism(query.mechanism)
        payloads = np.zeros((stop - first, mechanism.size(query, features)), np.uint8)
        most = max(1, BLOCK // mechanism.numbers(features))
        for start in range(first, stop, most):
            end = min(start + most, stop)
            coins = Coins(self._master, start, end - start, query.words)
            vectors = self._vectors(features, self._ratings.block(start - self.first, end - self.first), coins)
            payloads[start - first : end - first] = mechanism.randomize(vectors, query, features, coins)
        payloads[answered == 0] = 0
        return Release(
            query_id=query.id,
            first=first,
            count=stop - first,
            width=8 * payloads.shape[1],
            bits=payloads.tobytes(),
            answered=None if answered.all() else pack(answered),
            refused=int((answered == 0).sum()),
        )

    def _checked(self, query: SecondOrderQuery, first: int, stop: int) -> SecondOrderQuery:
        """Return a copy of a query that was agreed to; refuse others."""
        require_block(first, stop, self.first, self.stop)
        query, agreed = SecondOrderQuery.arrived(query), self._agreement
        if query.mechanism not in agreed.designs:
            raise AgreementError(
                f"private devices agreed to {', '.join(agreed.designs)}; they refuse {query.mechanism}"
            )
        if not within(query.epsilon, agreed.budget):
            raise AgreementError(
                f"private devices agreed to epsilon {as_float(agreed.budget):g} at most; they refuse "
                f"{query.mechanism} at {as_float(query.epsilon):g}"
            )
        if query.own_h and not self._own_h:
            raise AgreementError(
                "private devices agreed to the public h only; they refuse to release their own (own_h)"
            )
        return query

    def _uncharged(self, query: SecondOrderQuery, first: int, stop: int) -> list[DeviceRange]:
        """Return devices that were not charged for a query; refuse it if some were for another one."""
        blocks = self.ledger.blocks_without(query, first, stop)
        if blocks:
            with suppress(UnreachableError):
                self.ledger.look()
            blocks = self.ledger.blocks_without(query, first, stop)
        for block in blocks:
            for other in block.answered:
                raise InputError(
                    f"private devices {block.first} to {block.stop - 1} took query {other.hex()[:8]}; a device answers "
                    f"once, they refuse query {query.id.hex()[:8]} ({query.mechanism})"
                )
        return blocks

    def _vectors(self, features: ItemFeatures, ratings: Rows, coins: Coins) -> Floats2:  # noqa: ARG002 (liars look at them)
        """Return devices' completed vectors less the items' means, float64, shape (devices, m), numbers and not huge.

        Where completion has no result they are 0.
        """
        vectors = residuals(features, ratings)
        # A model can be made so that completion overflows where a device rated some item. A mechanism promises
        # something for vectors of numbers only, and a refusal would reveal what was rated.
        np.clip(vectors, -LARGEST, LARGEST, out=vectors)
        vectors[np.isnan(vectors)] = 0.0
        return vectors
