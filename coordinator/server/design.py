"""Designs: a mechanism with its settings in one world. Policies ask with it, and the server reads answers with it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypedDict, Unpack, runtime_checkable

from coordinator.protocol.arrays import Floats, Indices, Ints
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.errors import InputError
from coordinator.protocol.messages import Query

if TYPE_CHECKING:
    import numpy as np

    from coordinator.protocol.moments.blocks import BlockParameters
    from coordinator.protocol.moments.emulation import EmulatedDevices
    from coordinator.server.decoding.estimates import Estimates, PublicCounts
    from coordinator.server.decoding.line import Curator

MOST_ROUNDS = 10_000  # Number of rounds after which a policy is assumed never to stop


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """The public facts about a run that every mechanism gets."""

    items: int  # N, w, U and L
    rated: int
    users: int
    clusters: int
    epsilon: Epsilon  # What a device may spend in all, or a curator publishes under [nats]; None for no noise
    same_rated: bool = True  # Whether every user rated exactly w items
    block: BlockParameters | None = None  # The block model of a simulated world; None with a ratings file
    delta: float = 0.0  # Chance that a promise about published sums fails
    expected_answers: float = 1.0  # Share of the devices that answers at least, where their noise must be enough
    assume_malicious: float = 0.0  # Share of these whose noise nobody counts on


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoding:
    """How a statistic is decoded."""

    clusters: int  # Number of item clusters L
    decoder: str  # Name of one of the mechanism's decoders
    curator: Curator | None = None  # The noise that is added if the server is a trusted curator
    public: PublicCounts | None = None  # What people with public ratings like, if it is weighed with devices' sets

    def trusted(self) -> Curator:
        """Return the curator; there must be one, because totals without noise are never published."""
        if self.curator is None:
            raise InputError("totals are published by a trusted curator only; say which noise it adds")
        return self.curator


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnerOptions:
    """What a run says of its learner, beside settings and world."""

    decoder: str  # Name of one of the mechanism's decoders
    confidence: float = 0.95  # Probability that all decided labels are to be right
    assume_malicious: float = 0.0  # Share of liars that decided labels must withstand
    curator_seed: bytes = field(default=b"", repr=False)  # Sixteen bytes that key the coins of a trusted curator
    public: PublicCounts | None = None  # As for `Decoding`


class RoundTerms(TypedDict):
    """What every query of a round has, whatever it asks."""

    round_number: int
    public_seed: bytes  # Sixteen bytes that key the public coins
    epsilon: Epsilon  # Privacy parameter of an answer [nats]; None for no noise


def query_of(design: str, items: int, terms: RoundTerms, **fields: Any) -> Query:
    """Return the query of a round, with what else a design asks by the names of a query's fields."""
    number, public_seed, epsilon = terms["round_number"], terms["public_seed"], terms["epsilon"]
    return Query(design=design, items=items, round=number, public_seed=public_seed, epsilon=epsilon, **fields)


class Design(Protocol):
    """A mechanism with its settings in one world: what policies ask with."""

    @property
    def items(self) -> int:
        """Number of items N of the catalogue."""

    def query(self, **terms: Unpack[RoundTerms]) -> Query:
        """Return the query of one round."""


@runtime_checkable
class PoolDesign(Design, Protocol):
    """A design for adaptive policies: it can ask about a pool of items, and its answers estimate every item."""

    @property
    def name(self) -> str:
        """What its queries are called."""

    @property
    def widest(self) -> float:
        """Largest difference between the levels of two clusters."""

    def query(
        self, *, pool: Indices | None = None, expected: Floats | None = None, **terms: Unpack[RoundTerms]
    ) -> Query:
        """Return the query of one round about a pool, by default all items, of which estimates may be ``expected``."""

    def read(self, query: Query, statistic: Any, expected: Floats | None = None) -> Estimates:
        """Return a round's estimates of every item; ``expected``, shape (N,), are newer ones than the query holds."""

    def rates(self, query: Query, expected: Floats | None = None) -> Floats:
        """Return the information of one device's answer about each item of a query's pool, as `read` counts it."""


@runtime_checkable
class EmulatedDesign(Protocol):
    """A design whose statistic can be drawn from exact moments, as if devices had answered."""

    def emulate(self, query: Query, crowd: EmulatedDevices, coins: np.random.Generator) -> tuple[Ints, Ints, int]:
        """Draw counts of the pool's items: answers about each, and ones among them, shape (M,); and all ones."""
