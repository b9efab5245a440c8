"""What policies ask with, and what a run says of its learner."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, Unpack

from coordinator.protocol.mechanism import QueryHeader
from coordinator.protocol.messages import Query

if TYPE_CHECKING:
    from coordinator.protocol.decoding.estimates import PublicCounts

MOST_ROUNDS = 10_000  # Number of rounds after which a policy is assumed never to stop
AGEING = 0.1  # Relative drift of shares in a period, where nothing else is said


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnerOptions:
    """What a run says of its learner, beside settings and world."""

    decoder: str  # Name of one of the mechanism's decoders
    confidence: float = 0.95  # Probability that all decided labels are to be right
    assume_malicious: float = 0.0  # Share of liars that decided labels must withstand
    curator_seed: bytes = field(default=b"", repr=False)  # Sixteen bytes that key the coins of a trusted curator
    public: PublicCounts | None = None  # As for `Decoding`


class Design(Protocol):
    """A mechanism with its settings in one world: what policies ask with."""

    @property
    def items(self) -> int:
        """Number of items N of the catalogue."""

    def query(self, **header: Unpack[QueryHeader]) -> Query:
        """Return the query of one round."""
