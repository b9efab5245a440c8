"""Two tiers: the one query that private devices answer, and its mechanisms, one class in one file each.

A mechanism says what devices make of their completed vectors, and how the server reads it.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Protocol

import numpy as np

from coordinator.protocol.arrays import Bits2, Floats, Floats2, Ints, Words, Words2
from coordinator.protocol.budget import Epsilon, as_float, require_epsilon
from coordinator.protocol.channels import LARGEST_EPSILON, SMALLEST_EPSILON, ExactChannel
from coordinator.protocol.checked import (
    LARGEST,
    MOST_DEVICES,
    Checked,
    require_bool,
    require_bytes,
    require_name,
    require_whole,
)
from coordinator.protocol.coins import as_words, digest_of
from coordinator.protocol.errors import InputError
from coordinator.protocol.finding import by_name, declared
from coordinator.protocol.messages import Release

if TYPE_CHECKING:
    from coordinator.protocol.features import ItemFeatures


MOST_CANDIDATES = 255  # Ratings of a scale that a mechanism chooses from at most: a place is one byte
MOST_DIRECTIONS = 512
"""Rank of a model at most for a mechanism that releases moments of its directions: 131,328 numbers a device."""
LARGEST_RELEASED = LARGEST**2
"""Absolute value of a number in a release at most: what is completed from large numbers may be larger."""
ELEMENT = "element-wise deniability of one release (Definition 4.1); not differential privacy"
WHOLE = "epsilon-local differential privacy of all that a device holds"
A_BIT, A_COORDINATE, A_RELEASE = "a bit", "a coordinate", "a release"
HALF = 0.5  # The paper's weight of a release's row against a public user's


class Coins(Protocol):
    """The coins of a block of private devices, as mechanisms see them; `actors.seeds.Coins` are such."""

    @property
    def first(self) -> int:
        """The first device."""

    def whole(self, question: int = 0) -> Words:
        """Return each device's coin for its whole vector."""

    def shuffles(self) -> Words:
        """Return each device's stream for shuffling its candidates."""

    def places(self, count: int) -> Words2:
        """Return a coin for each of ``count`` coordinates."""

    def fair(self, items: int) -> Words2:
        """Return fair coins for the items, 64 to a word."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SecondOrderQuery(Checked):
    """What the server announces to private devices, and then asks of them once, with the model; all of it is public."""

    model: bytes  # `ItemFeatures.digest` of the one model that devices complete their vectors with
    mechanism: str  # A name of `two_tier_mechanisms`
    epsilon: Epsilon = None  # The mechanism's privacy parameter [nats]; None where it has none
    batch: int = 0  # Which batch of devices, from 0
    # Signs of one size: the device releases its own h in full precision, not the public one; nothing is private then
    own_h: bool = False

    def check(self) -> None:
        """Refuse what no device could answer; see `Checked.check`."""
        require_bytes("model", self.model, 16)
        require_name("mechanism", self.mechanism)
        require_epsilon(self.epsilon)
        require_whole("batch", self.batch, 0, MOST_DEVICES)
        require_bool("own_h", self.own_h)
        check_mechanism(self.mechanism, self.epsilon)
        if self.own_h and not two_tier_mechanism(self.mechanism).releases_own_h:
            about = next(name for name, part in two_tier_mechanisms().items() if part.releases_own_h)
            raise InputError(f"own_h is True, which is about {about}; the mechanism is {self.mechanism}, leave it out")

    @property
    def id(self) -> bytes:
        """Sixteen bytes: digest of the whole content, computed at each look."""
        content = {name: getattr(self, name) for name in ("mechanism", "batch", "own_h")}
        epsilon = None if self.epsilon is None else str(self.epsilon)
        return digest_of({"kind": "second-order", "model": self.model.hex(), "epsilon": epsilon, **content})

    @property
    def words(self) -> Words:
        """The id as two 64-bit words, as coins are keyed."""
        return as_words(self.id)

    def require(self, features: ItemFeatures) -> None:
        """Refuse a model that is not the one the query names, or that the mechanism cannot be used with."""
        if features.digest != self.model:
            raise InputError(
                f"model {features.digest.hex()[:8]} is not the announced one, {self.model.hex()[:8]}; send that one"
            )
        two_tier_mechanism(self.mechanism).require(features)

    def payloads(self, release: Release, features: ItemFeatures) -> tuple[Ints, Bits2]:
        """Return the devices that answered, ascending, and their bytes in rows; refuse a release of another query."""
        release, size = Release.arrived(release), two_tier_mechanism(self.mechanism).size(self, features)
        if release.query_id != self.id or release.width != 8 * size:
            raise InputError(
                f"release of query {release.query_id.hex()[:8]}, {release.width} bits a device, is no answer to "
                f"{self.id.hex()[:8]}, of {8 * size}"
            )
        answered = release.answered_mask()
        rows = np.frombuffer(release.bits, np.uint8).reshape(-1, size)[answered]
        return release.first + np.flatnonzero(answered), rows


class SecondOrderMechanism:
    """A mechanism of two tiers; a module here has some in ``MECHANISMS``.

    `size`, `randomize`, and `rows` or `moments` must be written. Only devices (`actors`) have vectors and private
    coins, and only they call `randomize` in a run.
    """

    name: str  # Its name in queries and on the command line
    order: int  # Its place where mechanisms are listed
    guarantee: str  # What a private device is promised, in words; reports print it
    # Which data a promise of differential privacy takes as neighbours, `budget.REPLACE`; None where there is none
    neighbours: str | None = None
    private: bool = True  # False where the release is the completed vector itself
    takes_epsilon: bool = False  # Whether it has an epsilon; then it has a `channel`
    epsilon_of: str = A_RELEASE  # What an epsilon counts for: `A_BIT`, `A_COORDINATE` or `A_RELEASE`
    smallest: Fraction = SMALLEST_EPSILON  # Range of epsilons that its channel can express [nats]
    largest: int = LARGEST_EPSILON
    needs_scale: bool = False  # Whether ratings must come from a finite set S
    needs_range: bool = False  # Whether it divides by the width of the range of ratings
    # Whether it releases an r x r moment in the model's own directions instead of a vector of m numbers
    moment: bool = False
    releases_own_h: bool = False  # Whether a device can be asked for its own h, too

    # Weight of a release's row relative to a public user's; None to choose it on held-out public users
    weight: float | None = None
    sided: bool = False  # Whether a release may be about r' or -r', so that an attacker first has to find out which
    # Default epsilons of sweeps; ``("",)`` for a mechanism without epsilon, and empty to leave it out
    swept: tuple[str, ...] = ()
    # Default epsilons of the attack, likewise; None if errors should not propose to attack it
    attacked: tuple[str, ...] | None = None

    def promised(self, query: SecondOrderQuery) -> str:
        """Return what a device is promised that answers a query, in words."""
        return self.guarantee

    def require(self, features: ItemFeatures) -> None:
        """Refuse a model that the mechanism cannot be used with."""
        levels = len(features.scale or ())
        if self.needs_scale and not 2 <= levels <= MOST_CANDIDATES:
            raise InputError(
                f"scale is {features.scale}; {self.name} needs at least K = 2 ratings to choose from, and at most "
                f"{MOST_CANDIDATES}, give such a scale"
            )
        if self.moment and not 1 <= features.rank <= MOST_DIRECTIONS:
            raise InputError(f"rank is {features.rank}; {self.name} is about directions, give 1 to {MOST_DIRECTIONS}")
        if self.needs_range and not features.highest - features.lowest >= 1 / LARGEST:
            raise InputError(f"all ratings are {features.lowest:g}; {self.name} divides by their range")

    def numbers(self, features: ItemFeatures) -> int:
        """Return how many numbers a device works on."""
        return max(features.items, features.moments if self.moment else 0)

    def size(self, query: SecondOrderQuery, features: ItemFeatures) -> int:
        """Return the bytes of a release."""
        raise NotImplementedError

    def channel(self, query: SecondOrderQuery, features: ItemFeatures) -> ExactChannel | None:
        """Return the exact channel that the query's epsilon is about; None where there is no epsilon."""
        # It randomizes what an epsilon counts for: a bit, a coordinate, or the whole release.
        return None

    def randomize(self, vectors: Floats2, query: SecondOrderQuery, features: ItemFeatures, coins: Coins) -> Bits2:
        """Return a row of bytes a device, shape (devices, `size`), of completed vectors less means, (devices, m)."""
        raise NotImplementedError

    def check(self, payloads: Bits2, query: SecondOrderQuery, features: ItemFeatures) -> None:
        """Refuse releases of the right size that no device gives, a row of bytes each."""

    def rows(self, payloads: Bits2, devices: Ints, query: SecondOrderQuery, features: ItemFeatures) -> Floats2:
        """Return rows z, (rows, m), whose ``z z^T`` stand for devices' checked releases: one for each, or r of all."""
        raise NotImplementedError

    def moments(self, payloads: Bits2, devices: Ints, query: SecondOrderQuery, features: ItemFeatures) -> Floats:
        """Return the symmetric r x r moments of directions that devices' checked releases stand for."""
        raise NotImplementedError


class Signs(SecondOrderMechanism):
    """Releases of m signs, packed, 1 for plus, most significant bit first; what follows them is the mechanism's own."""

    def size(self, query: SecondOrderQuery, features: ItemFeatures) -> int:
        return packed_size(features)

    def rows(self, payloads: Bits2, devices: Ints, query: SecondOrderQuery, features: ItemFeatures) -> Floats2:
        """Return the signs, each as large as `heights` says."""
        bits = np.unpackbits(payloads, axis=1, count=features.items)
        signs: Floats2 = bits.astype(np.float64) * 2.0 - 1.0
        return signs * self.heights(payloads, query, features)

    def heights(self, payloads: Bits2, query: SecondOrderQuery, features: ItemFeatures) -> Floats | float:
        """Return the absolute value that every sign stands for, or one of each release, shape (releases, 1)."""
        raise NotImplementedError


def packed_size(features: ItemFeatures) -> int:
    """Return the bytes of a sign an item."""
    return -(-features.items // 8)


def as_numbers(payloads: Bits2) -> Floats2:
    """Return rows of bytes as little-endian float64 in rows."""
    return np.ascontiguousarray(payloads).view("<f8")


def as_bytes(values: Floats2) -> Bits2:
    """Return rows of float64 as little-endian bytes in rows."""
    return np.ascontiguousarray(values, "<f8").view(np.uint8)


@functools.cache
def two_tier_mechanisms() -> dict[str, SecondOrderMechanism]:
    """Return every mechanism by its name, in the order in which mechanisms are listed."""
    parts = declared(__name__, __path__, "MECHANISMS", SecondOrderMechanism)
    return by_name(sorted(parts, key=lambda part: (part.order, part.name)), lambda part: (part.name,))


def two_tier_mechanism(name: str) -> SecondOrderMechanism:
    """Return a mechanism."""
    if (part := two_tier_mechanisms().get(name)) is None:
        raise InputError(f"mechanism is {name!r}; choose one of {', '.join(two_tier_mechanisms())}")
    return part


def check_mechanism(name: str, epsilon: Epsilon) -> None:
    """Refuse a mechanism that there is not, and an epsilon that it does not take or cannot express."""
    part = two_tier_mechanism(name)
    if part.takes_epsilon != (epsilon is not None):
        remedy = "give a finite one above 0" if part.takes_epsilon else "it has none, leave it out"
        raise InputError(f"epsilon is {as_float(epsilon):g} for {name}; {remedy}")
    if epsilon is not None and not part.smallest <= epsilon <= part.largest:
        raise InputError(
            f"epsilon is {as_float(epsilon):g}; the coins of {name} can express {float(part.smallest):g} to "
            f"{part.largest}, give one of these"
        )
