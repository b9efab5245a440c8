"""The public halves of two-tier mechanisms, a module each: what a private device can be asked for, and its promise.

A mechanism is one name in three rooms: here, in `actors.second_order.mechanisms` (what a device says) and in
`coordinator.server.completion.mechanisms` (what the server makes of it). Nothing else names one.
"""

from __future__ import annotations

import functools
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np

from coordinator.protocol.budget import Epsilon, as_float
from coordinator.protocol.channels import LARGEST_EPSILON, SMALLEST_EPSILON, ExactChannel
from coordinator.protocol.checked import LARGEST, require_bytes, require_range
from coordinator.protocol.errors import InputError
from coordinator.protocol.finding import by_name, declared

if TYPE_CHECKING:
    from coordinator.protocol.arrays import Floats, Floats2
    from coordinator.protocol.features import ItemFeatures


MOST_CANDIDATES = 255  # Ratings of a scale that a mechanism chooses from at most: a place is one byte
MOST_DIRECTIONS = 512
"""Rank of a model at most for a mechanism that releases moments of its directions: 131,328 numbers a device."""
LARGEST_RELEASED = LARGEST**2
"""Absolute value of a number in a release at most: what is completed from large numbers may be larger."""
ELEMENT = "element-wise deniability of one release (Definition 4.1); not differential privacy"
WHOLE = "epsilon-local differential privacy of all that a device holds"
A_BIT, A_COORDINATE, A_RELEASE = "a bit", "a coordinate", "a release"


class QueryView(Protocol):
    """What of a `coordinator.protocol.second_order.SecondOrderQuery` its answer depends on."""

    @property
    def id(self) -> bytes: ...
    @property
    def epsilon(self) -> Epsilon: ...
    @property
    def own_h(self) -> bool: ...


class SecondOrderPublic:
    """What anyone may know of a two-tier mechanism; a module of `second_order_mechanisms` declares it as ``PUBLIC``."""

    name: str  # Its name in queries and on the command line
    order: int  # Its place where mechanisms are listed
    guarantee: str  # What a private device is promised, in words; reports print it
    # Which data a promise of differential privacy takes as neighbours, `public_half.REPLACE`; None where there is none
    neighbours: ClassVar[str | None] = None
    private: ClassVar[bool] = True  # False where the release is the completed vector itself
    takes_epsilon: bool = False  # Whether it has an epsilon; then it has a `channel`
    epsilon_of: str = A_RELEASE  # What an epsilon counts for: `A_BIT`, `A_COORDINATE` or `A_RELEASE`
    smallest: Fraction = SMALLEST_EPSILON  # Range of epsilons that its channel can express [nats]
    largest: int = LARGEST_EPSILON
    needs_scale: ClassVar[bool] = False  # Whether ratings must come from a finite set S
    needs_range: ClassVar[bool] = False  # Whether it divides by the width of the range of ratings
    # Whether it releases an r x r moment in the model's own directions instead of a vector of m numbers
    moment: ClassVar[bool] = False
    releases_own_h: ClassVar[bool] = False  # Whether a device can be asked for its own h, too

    def promised(self, query: QueryView) -> str:
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

    def require_payload(self, payload: object, features: ItemFeatures, query: QueryView) -> None:
        """Refuse bytes that no device answers a query with."""
        self.check(require_bytes(f"payload of {self.name}", payload, self.size(features, query)), features, query)

    def size(self, features: ItemFeatures, query: QueryView) -> int:
        """Return the bytes of a release."""
        raise NotImplementedError

    def check(self, payload: bytes, features: ItemFeatures, query: QueryView) -> None:
        """Refuse the content of a release that has the right size, if no device says it."""

    def row(self, payload: bytes, features: ItemFeatures, query: QueryView, *, rescale: bool) -> Floats:
        """Return the row z whose ``z z^T`` stands for a checked release, float64, shape (m,)."""
        # ``rescale`` brings what has another energy than public users' vectors to theirs.
        raise InputError(f"mechanism {self.name} releases no vector; read its moment")

    def released_moment(self, payload: bytes, device: int, features: ItemFeatures, query: QueryView) -> Floats2:
        """Return the r x r moment of directions that a checked release stands for, symmetric."""
        raise InputError(f"mechanism {self.name} releases no moment; read its vector")

    def channel(self, query: QueryView, features: ItemFeatures) -> ExactChannel | None:
        """Return the exact channel that the query's epsilon is about; None where there is no epsilon."""
        # It randomizes what an epsilon counts for: a bit, a coordinate, or the whole release.
        return None


class Signs(SecondOrderPublic):
    """Releases of m signs, packed, 1 for plus, most significant bit first; what follows them is the mechanism's own."""

    def size(self, features: ItemFeatures, query: QueryView) -> int:
        return packed_size(features)

    def row(self, payload: bytes, features: ItemFeatures, query: QueryView, *, rescale: bool) -> Floats:
        """Return the signs, each as large as `height` says."""
        bits = np.unpackbits(np.frombuffer(payload, np.uint8), count=features.items)
        signs: Floats = bits.astype(np.float64) * 2.0 - 1.0
        return signs * self.height(payload, features, query)

    def height(self, payload: bytes, features: ItemFeatures, query: QueryView) -> float:
        """Return the absolute value that every sign stands for."""
        raise NotImplementedError


class Numbers(SecondOrderPublic):
    """Releases of m numbers in the scale of the ratings, little-endian float64."""

    def size(self, features: ItemFeatures, query: QueryView) -> int:
        return 8 * features.items

    def check(self, payload: bytes, features: ItemFeatures, query: QueryView) -> None:
        """Refuse numbers that are none, or huge."""
        require_range(f"numbers of {self.name}", np.frombuffer(payload, "<f8"), -LARGEST_RELEASED, LARGEST_RELEASED)

    def row(self, payload: bytes, features: ItemFeatures, query: QueryView, *, rescale: bool) -> Floats:
        """Return the numbers less the items' means."""
        numbers: Floats = np.frombuffer(payload, "<f8") - features.mean
        return numbers


def packed_size(features: ItemFeatures) -> int:
    """Return the bytes of a sign an item."""
    return -(-features.items // 8)


@functools.cache
def second_order_public_halves() -> dict[str, SecondOrderPublic]:
    """Return every mechanism's public half by its name, in the order in which mechanisms are listed."""
    halves = declared(__name__, __path__, "PUBLIC", SecondOrderPublic)
    return by_name(sorted(halves, key=lambda part: (part.order, part.name)), lambda part: (part.name,))


def public_part_of(name: str) -> SecondOrderPublic:
    """Return a mechanism's public half."""
    if (part := second_order_public_halves().get(name)) is None:
        raise InputError(f"mechanism is {name!r}; choose one of {', '.join(second_order_public_halves())}")
    return part


def check_mechanism(name: str, epsilon: Epsilon) -> None:
    """Refuse a mechanism that there is not, and an epsilon that it does not take or cannot express."""
    part = public_part_of(name)
    if part.takes_epsilon != (epsilon is not None):
        remedy = "give a finite one above 0" if part.takes_epsilon else "it has none, leave it out"
        raise InputError(f"epsilon is {as_float(epsilon):g} for {name}; {remedy}")
    if epsilon is not None and not part.smallest <= epsilon <= part.largest:
        raise InputError(
            f"epsilon is {as_float(epsilon):g}; the coins of {name} can express {float(part.smallest):g} to "
            f"{part.largest}, give one of these"
        )
