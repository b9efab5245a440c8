"""A mechanism of one's own: one class, in one file of one's own, that holds what is public and both sides' work.

The author writes plain NumPy. Devices call `Mechanism.sketch`; the server calls `Mechanism.query`, `Mechanism.count`
and `Mechanism.estimate`. Both know `Mechanism.channel`, from which the framework itself draws what is released.
"""

from __future__ import annotations

import copyreg
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field
from typing import Any, ClassVar, Protocol, TypeAlias, dataclass_transform

import numpy as np

from coordinator.protocol.arrays import Bools, Floats, Indices, Ints, Words
from coordinator.protocol.budget import Epsilon, as_float
from coordinator.protocol.channels import IndependentBits, Likelihood, MatrixChannel
from coordinator.protocol.errors import InputError, PolicyError

SECONDS = 60.0
"""A class is given so long for one call about one block of devices, where it does not say otherwise."""
OUTPUTS, VALUES = "outputs", "values"
"""Parameters of a query that tell these numbers of its question; authors' own parameters have other names."""


OwnChannel: TypeAlias = MatrixChannel | IndependentBits | Likelihood
"""What a class may name as its channel; the framework itself draws from the first two."""


# A class that travels by value brings the fields of its dataclass along, which say by this one object that a setting
# has no default. Pickles of every process that knows mechanisms only name it, so that no second one comes to be.
copyreg.pickle(type(MISSING), lambda _: "MISSING")


class MechanismError(PolicyError):
    """One's own class raised something, returned what cannot be used, or did not end; the text names class, round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """What a class is told before it asks; all of it is public.

    Attributes
    ----------
    items, rated, users : int
        Items N of the catalogue, items w that a user rated, devices U.
    epsilon : Fraction or None
        What this answer may cost a device [nats]; None for no noise.
    pool : ndarray of int32, shape (M,)
        The items that are asked about, ascending: all of them, unless the class says that it can ask about `pools`.
    """

    items: int
    rated: int
    users: int
    epsilon: Epsilon
    pool: Indices = field(repr=False)


@dataclass(frozen=True, kw_only=True, eq=False)
class Question:
    """What is asked. The author gives ``outputs`` or ``bits``, and what else the class needs to read it again.

    Attributes
    ----------
    outputs : int
        A device releases one whole number from 0 to ``outputs - 1``.
    bits : int
        Or a device releases so many bits.
    values : int
        Where the channel is a likelihood: how many private values a sketch may have, from 0 on. Where it
        is 0, nobody can go through them, and the guarantee is claimed, not checked.
    parameters : dict of str to float
        Public numbers of the class's own.
    arrays : dict of str to ndarray
        Public arrays of the class's own.
    items, epsilon, pool, public_seed, round
        Filled in before the class sees its question again: the catalogue's size, what the answer may cost [nats], the
        items that are asked about, and what keys the public coins.
    """

    outputs: int = 0
    bits: int = 0
    values: int = 0
    parameters: Mapping[str, float] = field(default_factory=dict)
    arrays: Mapping[str, np.ndarray[Any, Any]] = field(default_factory=dict, repr=False)
    items: int = 0
    epsilon: Epsilon = None
    pool: Indices = field(default_factory=lambda: np.empty(0, np.int32), repr=False)
    public_seed: bytes = field(default=bytes(16), repr=False)
    round: int = 0

    @property
    def nats(self) -> float:
        """What the answer may cost [nats]; infinity for no noise."""
        return as_float(self.epsilon)

    def public_streams(self, devices: Ints) -> Words:
        """Return a public coin for each device in this round, uint64: both sides draw the same.

        Parameters
        ----------
        devices : ndarray of int64, shape (n,)
            Their addresses, ascending.
        """
        from coordinator.protocol.coins import round_key  # noqa: PLC0415 (only where somebody draws)
        from coordinator.protocol.streams import device_streams  # noqa: PLC0415 (compiled code)

        if not devices.size:
            return np.empty(0, np.uint64)
        first = int(devices[0])
        streams: Words = device_streams(round_key(self.public_seed, self.round), first, int(devices[-1]) - first + 1)
        return streams[devices - first]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """What the answers add up to.

    Attributes
    ----------
    sums : ndarray of int64
        As `Mechanism.count` counts, summed over all devices that answered.
    devices : int
        How many answered.
    """

    sums: Ints
    devices: int


class RatingsBlock(Protocol):
    """What a block of devices rated, as `Mechanism.sketch` sees it; it never leaves them.

    Attributes
    ----------
    devices : ndarray of int64, shape (n,)
        Public addresses of the devices.
    starts : ndarray of int64, shape (n + 1,)
        Device ``k`` of the block holds ratings ``starts[k]`` to ``starts[k + 1] - 1``.
    items : ndarray of int32
        What was rated, ascending for each device.
    likes : ndarray of bool
        Whether it was liked.
    """

    devices: Ints
    starts: Ints
    items: Indices
    likes: Bools

    def random_item(self, coins: Words) -> tuple[Indices, Bools]:
        """Return one rated item a device, by a coin each, and whether it was liked; -1 of devices without a rating."""
        ...


class CoinsBlock(Protocol):
    """Keyed private coins of a block of devices: the same question meets the same coins, on every layout."""

    def words(self, lane: int = 0) -> Words:
        """Return a 64-bit coin a device, uint64, shape (n,); another lane, other coins."""
        ...


@dataclass_transform(frozen_default=True, kw_only_default=True)
class Mechanism:
    """Base class of a mechanism of one's own; annotated attributes are its settings, as those of a frozen dataclass.

    Attributes
    ----------
    pools : bool
        Whether it can ask about some items only; adaptive policies need that.
    widest : float
        Largest difference between two items' values that can be: adaptive policies size their first round by it.
    seconds : float
        How long one call about one block of devices may take [s].
    """

    pools: ClassVar[bool] = False
    widest: ClassVar[float] = 1.0
    seconds: ClassVar[float] = SECONDS

    def __init_subclass__(cls, **keywords: Any) -> None:
        """Make the class a frozen dataclass of its settings."""
        super().__init_subclass__(**keywords)
        dataclass(frozen=True, kw_only=True)(cls)

    def query(self, catalogue: Catalogue) -> Question:
        """Return what is asked about a catalogue."""
        raise NotImplementedError

    def channel(self, question: Question) -> OwnChannel:
        """Return the channel of an answer; see `channels.matrix_channel`, `independent_bits` and `Likelihood`."""
        raise NotImplementedError

    def sketch(self, question: Question, ratings: RatingsBlock, coins: CoinsBlock) -> np.ndarray[Any, Any]:
        """Return what each device of a block has to say: its matrix row, shape (n,), or its bits, shape (n, bits).

        It runs on devices only. Whatever is random must come from ``coins``.
        """
        raise NotImplementedError

    def count(self, question: Question, released: np.ndarray[Any, Any], devices: Ints) -> Ints:  # noqa: ARG002 (overridden)
        """Return whole numbers that add up over devices: by default how often each output, or each bit, was released.

        Parameters
        ----------
        question : Question
        released : ndarray of int64, shape (n,), or of uint8, shape (n, bits)
            Outputs, or bits; there may be none.
        devices : ndarray of int64, shape (n,)
            Addresses of those that released them; see `Question.public_streams`.
        """
        if question.outputs:
            return np.bincount(released, minlength=question.outputs).astype(np.int64)
        return released.sum(axis=0, dtype=np.int64)  # type: ignore[no-any-return] # whole numbers

    def estimate(self, question: Question, tally: Tally) -> tuple[Floats, Floats]:
        """Return a value for each item of the question's pool, larger is liked more, and its standard error."""
        raise NotImplementedError

    def precision(self, question: Question, rated: int) -> float | None:  # noqa: ARG002 (overridden)
        """Return the information of one answer about each item, for predictions; None: nobody predicts anything.

        Parameters
        ----------
        question : Question
        rated : int
            Items w that every user rated.

        Returns
        -------
        float or None
            Inverse variance of what one answer tells of an item's ``2 b - 1``, where b is how probably users like it.
        """
        return None


def methods_missing(kind: type[Mechanism]) -> list[str]:
    """Return which of the methods that every mechanism must have a class does not define."""
    wanted = ("query", "channel", "sketch", "estimate")
    return [name for name in wanted if getattr(kind, name, None) is getattr(Mechanism, name)]


def require_whole_class(mechanism: object) -> Mechanism:
    """Return an object if it is a mechanism with all its methods.

    Raises
    ------
    InputError
        One line that names what is missing.
    """
    if not isinstance(mechanism, Mechanism):
        raise InputError(
            f"design is a {type(mechanism).__name__}, no mechanism; derive its class from blindrec.Mechanism"
        )
    if missing := methods_missing(type(mechanism)):
        raise InputError(f"design {type(mechanism).__name__} lacks {', '.join(missing)}; see Mechanism")
    return mechanism
