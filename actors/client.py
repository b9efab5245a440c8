"""The client's device: it holds what the client likes, and answers recommendations one at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from actors.device_half import DeviceBlock
from actors.keeper import LedgerClient
from coordinator.protocol.arrays import Bools2
from coordinator.protocol.ballots import Offer
from coordinator.protocol.checked import require_whole
from coordinator.protocol.errors import InputError


class Client:
    """One client.

    Shapes: ``likes`` (T, m).
    """

    def __init__(self, number: int, likes: Bools2) -> None:
        nothing = np.flatnonzero(~likes.any(axis=1))
        if nothing.size:
            raise InputError(
                f"round {nothing[0]}: client {number} likes none of {likes.shape[1]} objects (so in {nothing.size} "
                "rounds); leave such rounds out"
            )
        self.number = number
        self._likes = likes

    def answer(self, round_number: int, object_number: int) -> bool:
        """Return whether the client likes the object that is recommended."""
        rounds, objects = self._likes.shape
        require_whole("round", round_number, 0, rounds - 1)
        require_whole("recommended object", object_number, 0, objects - 1)
        return bool(self._likes[round_number, object_number])

    @property
    def likes(self) -> Bools2:
        """What the client likes, bool, shape (T, m); for the experimenter, who lets liars know it."""
        return self._likes

    @property
    def random_loss(self) -> float:
        """Expected number of disliked recommendations if objects were recommended at random; for the experimenter."""
        return float((1 - self._likes.mean(axis=1)).sum())

    def __repr__(self) -> str:
        return f"Client(number={self.number}, rounds={len(self._likes)})"


class ClientCohort(DeviceBlock):
    """The devices of clients ``first`` to ``stop - 1``, who have no secrets to draw coins from and spend nothing."""

    def __init__(
        self, clients: Mapping[int, Client], _secret: bytes, first: int, stop: int, keeper: LedgerClient | None = None
    ) -> None:
        del keeper
        self.first, self.stop, self._clients = first, stop, clients

    def ask(self, question: Any, first: int, stop: int, *_: Any) -> bool:
        """Return whether a client likes what it is offered; see `Client.answer`."""
        offer = Offer.arrived(question)
        if (first, stop) != (offer.client, offer.client + 1) or offer.client not in self._clients:
            raise InputError("a client is asked who is not here; name one of those who are served")
        return self._clients[offer.client].answer(offer.round, offer.recommendation)
