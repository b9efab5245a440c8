"""The three things that cross the boundary: a query to the devices, their release, and the learned item model."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from itertools import zip_longest

import numpy as np

from coordinator.protocol import checked
from coordinator.protocol.arrays import Bits, Bits2, Bools, Floats, Indices, Indices2, PublicArray, Words
from coordinator.protocol.budget import Epsilon, as_float, require_epsilon
from coordinator.protocol.checked import LARGEST, MOST_DEVICES, MOST_ITEMS, Checked
from coordinator.protocol.coins import SEED_BYTES, as_words, digest_of, round_key
from coordinator.protocol.errors import InputError
from coordinator.protocol.item_models import ItemToItem, Tastes


def pack(bits: Bits) -> bytes:
    """Pack bits, most significant first, padded with 0 to whole bytes."""
    return np.packbits(bits.ravel()).tobytes()


def unpack(packed: bytes, count: int) -> Bits:
    """Return the first ``count`` bits of ``packed`` as uint8."""
    return np.unpackbits(np.frombuffer(packed, np.uint8), count=count)


CENTRE_UNIT = 32  # Steps of a centre between nothing expected and a sure like
ID_BYTES = 16  # Bytes of a message's id
AGREEMENT_BYTES = 16  # Bytes of an agreement's digest
QUESTION_BYTES = 8  # Bytes of a question that a device drew itself
MOST_NAMES = 64  # Parameters, and arrays, that a query has at most; no design has more than five
MOST_BITS_RELEASED = 1 << 32  # Bits that a device releases at most


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Query(Checked):
    """What the server asks of every device of one round; all of it is public.

    Attributes
    ----------
    design : str
        Name of the sketch that is requested, e.g. ``"maxsense"``.
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
        What ratings of the pool's items are counted from, where a design has it: in units of ``1 / CENTRE_UNIT``.
    arrays : dict of str to ndarray
        The design's own public arrays by name: int32, int64, uint64 or finite float64, of one or two dimensions.
    own_questions : bool
        Whether devices draw their questions from private coins and report them with their answers, `Release.questions`;
        otherwise a device's question follows from its public address, or is the same for all.
    period : int
        Period of time, from 1, whose ratings it is about; 0 where time does not count. Rounds go on counting.
    agreement : bytes
        Digest of the agreement that it was asked under; empty where there is none. It is no part of the query's id.
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
    arrays: dict[str, PublicArray] = field(default_factory=dict, repr=False)
    own_questions: bool = False
    period: int = 0
    agreement: bytes = field(default=b"", repr=False)

    def reals(self) -> dict[str, object]:
        """Return the parameters as floats; see `Checked.reals`."""
        if type(self.parameters) is not dict:
            return {}
        return {"parameters": {name: checked.as_real(value) for name, value in self.parameters.items()}}

    def check(self) -> None:
        """Refuse a query that is invalid in every design; see `Checked.check`."""
        checked.require_name("design", self.design)
        checked.require_whole("items of a query", self.items, 1, MOST_ITEMS)
        checked.require_whole("round", self.round, 0, MOST_DEVICES)
        checked.require_bytes("public seed", self.public_seed, SEED_BYTES)
        require_epsilon(self.epsilon)
        checked.require_whole("questions", self.questions, 1, MOST_BITS_RELEASED)
        checked.require_whole("bits of an answer", self.answer_bits, 1, 64)
        _require_dict("parameters", "numbers", self.parameters)
        for name, value in self.parameters.items():
            checked.require_real(f"parameter {checked.require_name('name of a parameter', name)}", value, -LARGEST)
        if self.pool is not None:
            checked.require_array("pool", self.pool, np.int32, [None])
            if not self.pool.size:
                raise InputError("pool is empty; name at least one item")
            checked.require_ascending("items of the pool", self.pool, 0, self.items)
        if self.centres is not None:
            if self.pool is None:
                raise InputError("centres are given without a pool; name the items that they are about")
            checked.require_array("centres", self.centres, np.int32, self.pool.shape, -CENTRE_UNIT, CENTRE_UNIT)
        _require_dict("arrays", "arrays", self.arrays)
        for name, array in self.arrays.items():
            checked.require_public_array(f"array {checked.require_name('name of an array', name)}", array)
        checked.require_bool("own questions", self.own_questions)
        checked.require_whole("period", self.period, 0, MOST_DEVICES)
        if self.agreement != b"":
            checked.require_bytes("digest of the agreement", self.agreement, AGREEMENT_BYTES)

    @property
    def id(self) -> bytes:
        """Sixteen bytes: digest of the canonical content. Two queries that differ anywhere have different ids."""
        # It is computed at each look, never carried along: a device must not believe an id that a message brings.
        content: dict[str, object] = {name: getattr(self, name) for name in ("design", "items", "round", "questions")}
        content["public_seed"] = self.public_seed.hex()
        content["epsilon"] = "inf" if self.epsilon is None else str(self.epsilon)
        content["parameters"] = {name: float(value).hex() for name, value in sorted(self.parameters.items())}
        if self.answer_bits != 1:
            content["answer_bits"] = self.answer_bits
        for name, array in (("pool", self.pool), ("centres", self.centres)):
            if array is not None:
                content[name] = _digest(array)
        if self.arrays:
            content["arrays"] = {name: _described(array) for name, array in sorted(self.arrays.items())}
        if self.own_questions:
            content["own_questions"] = True
        if self.period:  # else a query has the id that it had before there were periods
            content["period"] = self.period
        return digest_of(content)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Query) and self.id == other.id

    def __hash__(self) -> int:
        return hash(self.id)

    @property
    def words(self) -> Words:
        """The id as two 64-bit words, as coins are keyed."""
        return as_words(self.id)

    @property
    def key(self) -> Words:
        """The two words that key every public coin of its round."""
        return round_key(self.public_seed, self.round)

    @property
    def bits(self) -> int:
        """Bits that a device lets out in all."""
        return self.questions * self.answer_bits

    @property
    def epsilon_per_question(self) -> Epsilon:
        """Equal share of epsilon that each question's bit is released under, exact [nats]."""
        return None if self.epsilon is None else self.epsilon / self.questions

    def __str__(self) -> str:
        parts = f" of {self.questions} questions" if self.questions > 1 else ""  # how they share it is the design's own
        return f"query {self.round} ({self.design}, epsilon {as_float(self.epsilon):g}{parts}, id {self.id.hex()[:8]})"


def _require_dict(name: str, inner: str, value: object) -> None:
    if type(value) is not dict:
        raise InputError(f"{name} are a {type(value).__name__}; give a dict of {inner} by name")
    if len(value) > MOST_NAMES:
        raise InputError(f"a query has {len(value):,} {name}; give at most {MOST_NAMES}")


def _described(array: PublicArray) -> list[object]:
    """Return type, shape and digest of an array, the same on every machine."""
    little = array.astype(array.dtype.newbyteorder("<"))
    return [little.dtype.name, *array.shape, hashlib.blake2b(little.tobytes(), digest_size=16).hexdigest()]


def _digest(array: Indices) -> str:
    return hashlib.blake2b(array.astype("<i4").tobytes(), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Release(Checked):
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
        Devices that refused, for lack of budget or because their keeper did not answer; they are among those that did
        not answer.
    pairs : bytes or None
        Where rated items are public: ``count`` public pairs of items that the bits are about, little-endian int32,
        -1 of devices without a pair. None where public coins alone decide the question.
    questions : bytes or None
        Where devices draw their own questions: ``count`` words, little-endian uint64, each the stream that its device's
        sensing set, signs, hash or rows follow from; 0 of devices that did not answer. None elsewhere.
    """

    query_id: bytes
    first: int
    count: int
    width: int
    bits: bytes
    answered: bytes | None = None
    refused: int = 0
    pairs: bytes | None = None
    questions: bytes | None = None

    def __getstate__(self) -> list[object]:
        """Return the fields for pickling; a release without questions takes no bytes for them."""
        values = [getattr(self, part.name) for part in fields(self)]
        return values[:-1] if self.questions is None else values

    def __setstate__(self, values: Sequence[object]) -> None:
        for part, value in zip_longest(fields(self), values):
            object.__setattr__(self, part.name, value)

    def check(self) -> None:
        """Refuse a release whose parts do not fit each other; see `Checked.check`."""
        checked.require_bytes("query id", self.query_id, ID_BYTES)
        checked.require_whole("first device", self.first, 0, MOST_DEVICES)
        checked.require_whole("devices of a release", self.count, 0, MOST_DEVICES)
        checked.require_whole("bits a device", self.width, 1, MOST_BITS_RELEASED)
        checked.require_bytes("bits of a release", self.bits, -(-self.count * self.width // 8))
        checked.require_whole("refusing devices", self.refused, 0, self.count)
        if self.answered is not None:
            checked.require_bytes("mask of who answered", self.answered, -(-self.count // 8))
        if self.pairs is not None:
            checked.require_bytes("pairs of a release", self.pairs, 8 * self.count)
        if self.questions is not None:
            checked.require_bytes("questions of a release", self.questions, QUESTION_BYTES * self.count)

    def require(self, query: Query) -> None:
        """Raise InputError if this is no release of ``query``."""
        if self.query_id != query.id:
            raise InputError(f"release of query id {self.query_id.hex()[:8]} is no answer to {query}")
        if self.width != query.bits:
            raise InputError(f"release has {self.width} bits a device, {query} asks for {query.bits}")
        if (self.questions is not None) != query.own_questions:
            problem = (
                "lacks the questions that devices drew" if query.own_questions else "brings questions of devices' own"
            )
            raise InputError(f"release {problem}, which does not suit {query}; let both sides run the same code")

    def answered_mask(self) -> Bools:
        """Return which devices answered, bool, shape (count,)."""
        if self.answered is None:
            return np.ones(self.count, np.bool_)
        return unpack(self.answered, self.count).astype(np.bool_)

    def public_pairs(self) -> Indices2 | None:
        """Return the public pairs of items that the bits are about, int32, shape (count, 2), or None."""
        return None if self.pairs is None else np.frombuffer(self.pairs, "<i4").reshape(self.count, 2)

    def words(self) -> Words | None:
        """Return the questions that the devices drew, uint64, shape (count,), or None where they drew none."""
        return None if self.questions is None else np.frombuffer(self.questions, "<u8").astype(np.uint64)

    def unpacked(self) -> Bits2:
        """Return the bits, uint8, shape (count, width)."""
        return unpack(self.bits, self.count * self.width).reshape(self.count, self.width)


@dataclass(frozen=True, slots=True, kw_only=True)
class Model(Checked):
    """The learned item model, public: what every device draws its own recommendations from."""

    cluster: Indices  # shape (N,); Cluster of every item, 0 to L - 1; cluster 0 has the highest mean score
    score: Floats  # shape (N,); The item's public score; larger is liked more
    error: Floats  # shape (N,); Standard error of the score
    clusters: int  # Number of clusters L
    # What a like of one item says about others, after answers about pairs; or along which directions tastes differ
    near: ItemToItem | None = None
    tastes: Tastes | None = None

    def check(self) -> None:
        """Refuse a model that compiled code would follow astray; see `Checked.check`."""
        checked.require_whole("number of clusters", self.clusters, 1, MOST_ITEMS)
        checked.require_array("clusters of a model", self.cluster, np.int32, [None], 0, self.clusters - 1)
        checked.require_array("scores of a model", self.score, np.float64, self.cluster.shape, -LARGEST, LARGEST)
        checked.require_array("errors of a model", self.error, np.float64, self.cluster.shape)
        if self.near is not None:
            checked.require_ascending(
                "items of an item-item model", ItemToItem.valid(self.near).pool, 0, self.cluster.size
            )
        if self.tastes is not None:
            checked.require_array("tastes of a model", Tastes.valid(self.tastes).liked, np.float64, self.cluster.shape)
