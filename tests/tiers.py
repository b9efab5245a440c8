"""Small public models of item features, and private devices that answer them."""

from fractions import Fraction
from typing import NamedTuple

import numpy as np
import reference

from actors.keeper import LedgerClient
from actors.second_order.cohort import Consent, DeviceAnswer, PrivateCohort
from actors.seeds import Coins
from coordinator.protocol.arrays import Floats, Indices, Ints
from coordinator.protocol.coins import as_words, on_grid
from coordinator.protocol.features import ItemFeatures
from coordinator.protocol.rating_table import Rows
from coordinator.protocol.second_order import SecondOrderQuery
from coordinator.protocol.second_order_mechanisms import second_order_public_halves

SECRET = reference.derive(0, "devices")
STARS = (1.0, 2.0, 3.0, 4.0, 5.0)


class Rated(NamedTuple):
    """Ratings of devices in compressed sparse rows."""

    starts: Ints
    items: Indices
    values: Floats


def features(*, items: int = 70, rank: int = 3, unseen: int = 0, seed: int = 0) -> ItemFeatures:
    """A model with random directions, on the grid; the last ``unseen`` items were rated by no public user."""
    world = np.random.default_rng([seed, items])
    vectors = np.linalg.qr(world.normal(size=(items, rank)))[0] * np.linspace(6.0, 3.0, rank)
    vectors[items - unseen :] = 0.0
    return ItemFeatures(
        mean=on_grid(world.normal(3.2, 0.3, items)),
        vectors=on_grid(np.ascontiguousarray(vectors)),
        kappa=1.0,
        lowest=1.0,
        highest=5.0,
        scale=STARS,
        common_h=0.5,
    )


def rated(*, devices: int, items: int = 70, each: int = 12, seed: int = 1) -> Rated:
    """Random ratings on the scale, ``each`` a device, of random items."""
    world = np.random.default_rng([seed, devices, items])
    found = np.argsort(world.random((devices, items)), axis=1)[:, :each]
    found.sort(axis=1)
    starts = np.arange(devices + 1, dtype=np.int64) * each
    return Rated(starts, found.ravel().astype(np.int32), world.choice(STARS, devices * each))


def query(model: ItemFeatures, mechanism: str, *, epsilon: Fraction = Fraction(1), batch: int = 0) -> SecondOrderQuery:
    """What the server asks; epsilon counts where the mechanism has one."""
    told = epsilon if second_order_public_halves()[mechanism].takes_epsilon else None
    return SecondOrderQuery(model=model.digest, mechanism=mechanism, epsilon=told, batch=batch)


def private(of: Rated, *, items: int = 70) -> Rows:
    """What devices hold that rated so, of a catalogue of so many items."""
    return Rows(starts=of.starts, items=of.items, values=of.values, count=items)


WILLING = Consent(mechanisms=frozenset(second_order_public_halves()), epsilon=None, own_h=True)  # Agrees to everything


def cohort(
    of: Rated,
    first: int,
    stop: int,
    *,
    keeper: LedgerClient | None = None,
    secret: bytes = SECRET,
    consent: Consent = WILLING,
    items: int = 70,
) -> PrivateCohort:
    """Devices ``first`` to ``stop - 1`` of those that rated; by default they agree to everything."""
    return PrivateCohort(private(of, items=items), secret, first, stop, consent=consent, keeper=keeper)


def answer_of(cohort: PrivateCohort, device: int) -> DeviceAnswer | None:
    """What the book says that a device has answered."""
    cohort.answers.look()
    return cohort.answers.get(device)


def coins(devices: int, *, seed: int = 0, first: int = 0) -> Coins:
    """Private coins of devices from ``first`` on, in one query."""
    return Coins(as_words(reference.derive(seed, "devices")), first, devices, as_words(reference.derive(9, "query")))
