"""The three things that cross the boundary: a query to the devices, their release, and the learned model back."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field

import numpy as np

from coordinator.protocol.arrays import Bits, Bits2, Bools, Floats, Indices, Indices2, Words
from coordinator.protocol.budget import Epsilon, as_float
from coordinator.protocol.coins import as_words


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Query:
    """What the server asks of every device of one round; all of it is public.

    Attributes
    ----------
    design : str
        Name of the sketch that is asked for, e.g. ``"maxsense"``.
    items : int
        Number of items N of the catalogue.
    round : int
        Round number, from 0; with the public seed it keys the public coins.
    public_seed : bytes
        Sixteen bytes.
    epsilon : Fraction or None
        Privacy parameter of the whole answer, all questions together [nats]; None for no noise.
    questions : int
        Questions that a device answers.
    parameters : dict of str to float
        The design's own numbers, e.g. ``{"sensing": 0.03}``.
    pool : ndarray of int32, or None
        The items that are asked about, ascending, where a design asks about some of them only.
    answer_bits : int
        Bits of one question's answer.
    centres : ndarray of int32, shape as ``pool``, or None
        What ratings of the pool's items are counted from, where a design has it: in units of ``1 / signs.UNIT``.
    """

    design: str
    items: int
    round: int
    public_seed: bytes
    epsilon: Epsilon
    questions: int = 1
    parameters: dict[str, float] = field(default_factory=dict)
    pool: Indices | None = field(default=None, repr=False)
    answer_bits: int = 1
    centres: Indices | None = field(default=None, repr=False)

    @property
    def id(self) -> bytes:
        """Sixteen bytes: digest of the canonical content. Two queries that differ anywhere have different ids.

        It is computed at each look, never carried along: a device must not believe an id that a message brings.
        """
        content = {
            "design": self.design,
            "items": self.items,
            "round": self.round,
            "public_seed": self.public_seed.hex(),
            "epsilon": "inf" if self.epsilon is None else str(self.epsilon),
            "questions": self.questions,
            "parameters": {name: float(value).hex() for name, value in sorted(self.parameters.items())},
        }
        if self.answer_bits != 1:
            content["answer_bits"] = self.answer_bits
        for name, array in (("pool", self.pool), ("centres", self.centres)):
            if array is not None:
                content[name] = _digest(array)
        return hashlib.blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=16).digest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Query) and self.id == other.id

    def __hash__(self) -> int:
        return hash(self.id)

    @property
    def words(self) -> Words:
        """The id as two 64-bit words, as coins are keyed."""
        return as_words(self.id)

    @property
    def bits(self) -> int:
        """Bits that a device lets out in all."""
        return self.questions * self.answer_bits

    @property
    def epsilon_per_question(self) -> Epsilon:
        """Equal share of epsilon that each question's bit is released under, exact [nats]."""
        return None if self.epsilon is None else self.epsilon / self.questions

    def __str__(self) -> str:
        """Return a short name for logs and errors."""
        split = ""
        if self.questions > 1 and self.epsilon is not None:
            split = f" as {self.questions} x {as_float(self.epsilon_per_question):g}"
        return f"query {self.round} ({self.design}, epsilon {as_float(self.epsilon):g}{split}, id {self.id.hex()[:8]})"


def _digest(array: Indices) -> str:
    whole = np.issubdtype(array.dtype, np.integer)  # anything else is refused by devices
    told = array.astype("<i4").tobytes() if whole else str(array.dtype).encode() + array.tobytes()
    return hashlib.blake2b(told, digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """What a block of devices lets out: a few bits a device, packed; nothing else leaves a device.

    Attributes
    ----------
    query_id : bytes
        Which query it answers.
    first, count : int
        The devices: ``first`` to ``first + count - 1``. A device's index is public, it is how it is addressed.
    width : int
        Bits a device.
    bits : bytes
        ``count * width`` bits, device by device, packed most significant bit first, padded with 0. The bits
        of a device that did not answer are 0.
    answered : bytes or None
        ``count`` packed bits, 1 where the device answered; None where all did.
    refused : int
        Devices that refused for lack of budget; they are among those that did not answer.
    pairs : bytes or None
        Where rated items are public: ``count`` public pairs of items that the bits are about, little-endian int32,
        -1 of devices without a pair. None where public coins alone tell what was asked.
    """

    query_id: bytes
    first: int
    count: int
    width: int
    bits: bytes
    answered: bytes | None = None
    refused: int = 0
    pairs: bytes | None = None

    def require(self, query: Query) -> None:
        """Raise ValueError if this is no release of ``query``."""
        if self.query_id != query.id:
            raise ValueError(f"release of query id {self.query_id.hex()[:8]} is no answer to {query}")

    def answered_mask(self) -> Bools:
        """Return which devices answered, bool, shape (count,)."""
        return (
            np.ones(self.count, np.bool_)
            if self.answered is None
            else unpack(self.answered, self.count).astype(np.bool_)
        )

    def public_pairs(self) -> Indices2 | None:
        """Return the public pairs of items that the bits are about, int32, shape (count, 2), or None."""
        return None if self.pairs is None else np.frombuffer(self.pairs, "<i4").reshape(self.count, 2)

    def unpacked(self) -> Bits2:
        """Return the bits, uint8, shape (count, width)."""
        return unpack(self.bits, self.count * self.width).reshape(self.count, self.width)


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """The learned item model, public: what every device draws its own recommendations from.

    Attributes
    ----------
    cluster : ndarray of int32, shape (N,)
        Cluster of every item, 0 to L - 1; cluster 0 has the highest mean score.
    score : ndarray of float64, shape (N,)
        The item's public score; larger is liked more.
    error : ndarray of float64, shape (N,)
        Standard error of the score.
    clusters : int
        Number of clusters L.
    """

    cluster: Indices
    score: Floats
    error: Floats
    clusters: int


def pack(bits: Bits) -> bytes:
    """Pack bits, most significant first, padded with 0 to whole bytes."""
    return np.packbits(bits.ravel()).tobytes()


def unpack(packed: bytes, count: int) -> Bits:
    """Return the first ``count`` bits of ``packed`` as uint8."""
    return np.unpackbits(np.frombuffer(packed, np.uint8), count=count)
