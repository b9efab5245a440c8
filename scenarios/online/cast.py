"""Who takes part in an online run, and what a place must offer to serve them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from actors.client import Client
from actors.voters import Voters
from coordinator.protocol.ballots import Service
from coordinator.protocol.budget import Epsilon
from coordinator.server.fleet.layout import Layout
from coordinator.server.online.recommender import Promise
from coordinator.server.online.service import Served

Over = Callable[[int], None]
"""Told how many rounds of a service are over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cast:
    """Who takes part: the private side of an online run, and where it lives.

    Attributes
    ----------
    voters : Voters
        Private: goes to voters' devices only.
    secret : bytes
        Private: their master secret.
    clients : sequence of Client
        Private: each knows what it likes.
    budget : Fraction or None
        What all clients together may learn of each voter [nats].
    layout : Layout
        Speed only.
    """

    voters: Voters = field(repr=False)
    secret: bytes = field(repr=False)
    clients: Sequence[Client]
    budget: Epsilon
    layout: Layout


class Stage(Protocol):
    """A place that is ready to serve clients, one after the other."""

    @property
    def actors(self) -> int:
        """Ray actors that embody voters; 0 in process."""
        ...

    def serve(self, service: Service, promise: Promise, coin: bytes, over: Over) -> Served:
        """Serve one client; ``coin`` is the coordinator's own."""
        ...
