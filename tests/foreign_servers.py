"""Servers and devices that leak in sums of shares, beside those of runs, which do not."""

from copy import copy
from typing import Any

import numpy as np

from actors.device import Cohort
from actors.seeds import Coins
from coordinator.aggregators.gathering import ShareRoute, ShareServer
from coordinator.aggregators.seed_server import SeedServer
from coordinator.aggregators.word_server import WordServer
from coordinator.protocol.agreement import Agreement
from coordinator.protocol.arrays import Counts, Words2
from coordinator.protocol.mechanisms.totals import SharedVector
from coordinator.protocol.messages import Query
from coordinator.protocol.shares import WORDS_SERVER, ShareRoll
from scenarios.studies.scrutiny.servers_audit import server_of


class Noiseless(WordServer):
    """It publishes its sum without noise of its own."""

    def _noise(self, half: SharedVector, query: Query, roll: ShareRoll) -> Counts:
        return np.zeros(half.width(query), np.uint32)


def without_noise(
    side: str, secret: bytes, permit: bytes, route: ShareRoute, agreement: Agreement | None
) -> ShareServer[Any]:
    """One server's noise is missing."""
    if side == WORDS_SERVER:
        return Noiseless(secret, permit, route, agreement)
    return server_of(side, secret, permit, route, agreement)


def one_seed(
    side: str, secret: bytes, permit: bytes, route: ShareRoute, agreement: Agreement | None
) -> ShareServer[Any]:
    """Both servers' noise follows from one seed."""
    return server_of(side, bytes(16), permit, route, agreement)


def opening_few(
    side: str, secret: bytes, permit: bytes, route: ShareRoute, agreement: Agreement | None
) -> ShareServer[Any]:
    """Both servers open sums of fewer devices than their noise needs."""
    kind: type[ShareServer[Any]] = WordServer if side == WORDS_SERVER else SeedServer

    class Hasty(kind):  # type: ignore[misc, valid-type] # one of two
        def _require(self, query: Query) -> SharedVector:
            half: SharedVector = copy(super()._require(query))
            vars(half)["require_enough"] = lambda *_: None
            return half

    return Hasty(secret, permit, route, agreement)


class RepeatingCoins(Coins):
    """Two devices have one seed."""

    def share_keys(self) -> Words2:
        keys = super().share_keys()
        keys[1::2] = keys[: len(keys) // 2 * 2 : 2]
        return keys


class SeedTwice(Cohort):
    """Its devices use seeds of their shares twice."""

    def _coins(self, query: Query, first: int, stop: int) -> Coins:
        return RepeatingCoins(*super()._coins(query, first, stop))
