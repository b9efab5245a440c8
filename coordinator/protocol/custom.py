"""A custom mechanism: one class in a file outside of this repository; how it is called, admitted and known."""

from __future__ import annotations

import builtins
import math
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from inspect import signature
from traceback import walk_tb
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeAlias, cast

import numpy as np
from pydantic import ConfigDict, Field

from coordinator.protocol import value_channels
from coordinator.protocol.arrays import Bools, Indices, Ints, Words
from coordinator.protocol.budget import Epsilon, as_float
from coordinator.protocol.channels import ExactChannel, IndependentBits, Likelihood, MatrixChannel
from coordinator.protocol.coins import round_key
from coordinator.protocol.errors import BlindrecError, InputError, PolicyError
from coordinator.protocol.hashing import device_streams
from coordinator.protocol.mechanism import FIXED, LOCAL_PROMISE, ONE_ROUND, POOLED, Offers, Settings
from coordinator.protocol.mechanism import Mechanism as NativeMechanism
from coordinator.protocol.messages import Query
from coordinator.protocol.shared_vector import SharedVector as NativeSharedVector

SECONDS = 60.0  # Seconds that one call about one block of devices may take, where the class does not say otherwise
OUTPUTS, VALUES = "outputs", "values"
"""Parameters of a query that hold these numbers of its question; authors' parameters have other names."""


CustomChannel: TypeAlias = MatrixChannel | IndependentBits | Likelihood
"""What a short class may name as its channel; the framework itself draws from the first two."""
AnyChannel: TypeAlias = ExactChannel | Likelihood
"""What other classes may: any channel of blindrec's."""


class MechanismError(PolicyError):
    """A custom class raised something, returned what cannot be used, or did not end; the text names class, round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue:
    """The public facts that a class gets before it asks.

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
        is 0, nobody can enumerate them, and the guarantee is claimed, not checked.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class RatingsBlock:
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
    starts: Ints = field(repr=False)
    items: Indices = field(repr=False)
    likes: Bools = field(repr=False)

    def random_item(self, coins: Words) -> tuple[Indices, Bools]:
        """Return one rated item a device, by a coin each, and whether it was liked; -1 of devices without a rating."""
        sizes = np.diff(self.starts)
        active = sizes > 0
        at = self.starts[:-1] + (coins % np.maximum(sizes, 1).astype(np.uint64)).astype(np.int64)
        item, like = np.full(sizes.size, -1, np.int32), np.zeros(sizes.size, np.bool_)
        item[active], like[active] = self.items[at[active]], self.likes[at[active]]
        return item, like


@dataclass(frozen=True, slots=True)
class CoinsBlock:
    """Keyed private coins of a block of devices: the same question meets the same coins, on every layout."""

    lanes: Callable[[int], Words] = field(repr=False)

    def words(self, lane: int = 0) -> Words:
        """Return a 64-bit coin a device, uint64, shape (n,); another lane, other coins."""
        return self.lanes(lane)


CONSTANTS = (bool, int, float, str, bytes, tuple, list, dict, set, frozenset, np.ndarray, np.generic)
"""Types of attributes that a class may have without an annotation: these are constants of its own, no settings."""


if TYPE_CHECKING:  # a class in either form overrides these with its own parameters, so that checkers see them open

    class _Base(Settings, Offers):
        def count(self, *arguments: Any) -> Any: ...
else:
    _Base = NativeMechanism


class Mechanism(_Base):
    """Base class of a custom mechanism; annotated attributes are its settings.

    Five methods must be written: `query`, `channel`, `sketch`, `estimate`, and `count` unless outputs or bits are
    counted. A class whose `query` takes a catalogue and returns a `Question` is short: it gets what `Catalogue`,
    `Question`, `RatingsBlock`, `CoinsBlock` and `Tally` have. A class whose `query` takes a world, a ``pool`` and what
    is ``expected`` is written as blindrec's own mechanisms are, and can say all that they can: centres, questions that
    devices draw, levels of its channel, the law of its sum; see `coordinator.protocol.mechanism.Mechanism`.

    Attributes
    ----------
    pools : bool
        Whether a short class can ask about some items only; adaptive policies need that.
    widest : float
        Largest difference between two items' values that can be: adaptive policies size their first round by it.
    seconds : float
        How long one call about one block of devices may take [s].
    helpers : tuple of str
        Packages that its code needs, and that travel with it to other processes; they are no setting.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, ignored_types=CONSTANTS)

    pools: ClassVar[bool] = False
    widest: ClassVar[float] = 1.0
    seconds: ClassVar[float] = SECONDS
    # Digests of its source by its helpers, as who sends the class by value read them; see `scenarios.config.identity`
    sources: ClassVar[Mapping[tuple[str, ...], str]] = MappingProxyType({})

    helpers: Annotated[
        tuple[str, ...], Field(repr=False, description="Packages that travel with a design of your own.")
    ] = ()

    def model_post_init(self, _: Any, /) -> None:
        """Let a class look at its settings as a dataclass does."""
        getattr(self, "__post_init__", lambda: None)()

    def query(self, *arguments: Any, **header: Any) -> Any:
        """Return what is asked: ``query(catalogue)`` of a short class a `Question`.

        Others have ``query(world, *, pool, expected, round_number, public_seed, epsilon)``, and return a query.
        """
        raise NotImplementedError

    def channel(self, *arguments: Any) -> Any:
        """Return the channel of an answer: ``channel(question)``.

        A short class's is made by `matrix_channel`, `independent_bits` or `Likelihood`, others' is any of blindrec's.
        """
        raise NotImplementedError

    def sketch(self, *arguments: Any) -> Any:
        """Return what each device of a block has to say: ``sketch(question, ratings, coins)``.

        That is its matrix row, shape (n,), or its bits, shape (n, bits). It runs on devices only. Whatever is random
        must come from ``coins``. What is not short returns a `Sketch`.
        """
        raise NotImplementedError

    def count(self, *arguments: Any) -> Any:
        """Return whole numbers that add up over devices: ``count(question, released, devices)``.

        What was ``released`` are outputs, int64, shape (n,), or bits, uint8, shape (n, bits), of which there may be
        none; ``devices``, int64, shape (n,), are the addresses of those that released them, see
        `Question.public_streams`. By default outputs, or bits of 1, are counted. What is not short gets query and
        release.
        """
        question, released, *_ = arguments
        if isinstance(question, Query):  # of a class that is not short, with a release
            return super().count(question, released)
        if question.outputs:
            return np.bincount(released, minlength=question.outputs).astype(np.int64)
        return released.sum(axis=0, dtype=np.int64)

    def estimate(self, *arguments: Any, **keywords: Any) -> Any:
        """Return a value for each item of the question's pool, larger is liked more, and its standard error.

        A short class has ``estimate(question, tally)``; others get query, statistic, world and what is
        expected, and return `Estimates`.
        """
        raise NotImplementedError

    def precision(self, question: Question, rated: int) -> float | None:  # noqa: ARG002 (overridden)
        """Return the information of one answer about each item: ``precision(question, rated)`` of a short class.

        Predictions follow from it; None: nobody predicts anything.

        Parameters
        ----------
        question : Question
        rated : int
            Items w that every user rated.

        Returns
        -------
        float or None
            Inverse variance of one answer's estimate of an item's ``2 b - 1``, where b is how probably users like it.
        """
        return None


class SharedVector(NativeSharedVector, Mechanism):
    """Base class of a custom mechanism whose devices give shares of a vector to two servers, as `totals` do.

    It is written as blindrec's own are; which noise the published sums need, and what they promise, is computed here.
    See `coordinator.protocol.shared_vector.SharedVector`.
    """


def settings_of(mechanism: Mechanism) -> dict[str, Any]:
    """Return the settings of a custom mechanism by name."""
    return {name: getattr(mechanism, name) for name in type(mechanism).model_fields if name != "helpers"}


UserClass = Mechanism  # Its name beside `coordinator.protocol.mechanism.Mechanism`, which it extends


def is_native(kind: type[Mechanism]) -> bool:
    """Return whether a class is written as blindrec's own mechanisms are: its query takes the pool that it is about."""
    return "pool" in signature(kind.query).parameters


def as_whole(kind: type[Mechanism]) -> type[NativeMechanism]:
    """Return a class as what it is to all but type checkers: a mechanism as blindrec's own are."""
    return cast("type[NativeMechanism]", kind)


def defines(kind: type[Mechanism], *names: str) -> bool:
    """Return whether a class has a method of its own, by any of some names."""
    bases = Mechanism, NativeMechanism, SharedVector
    return any(getattr(kind, name) not in [getattr(base, name, None) for base in bases] for name in names)


def policies_of(kind: type[Mechanism]) -> tuple[str, ...]:
    """Return the policies that a class can follow: adaptive ones need pools and the default ``count``."""
    if issubclass(kind, NativeSharedVector):
        return tuple(name for name in kind.policies if name == ONE_ROUND)
    if is_native(kind):
        return tuple(name for name in kind.policies if name in POOLED)
    return POOLED if kind.pools and kind.count is Mechanism.count else (ONE_ROUND, FIXED)


def methods_missing(kind: type[Mechanism]) -> list[str]:
    """Return which of the methods that every mechanism must have a class does not define."""
    reads = ("estimate", "decode", "learn") if is_native(kind) else ("estimate",)
    required = {"query": ("query",), "channel": ("channel",), "sketch": ("sketch",), "estimate": reads}
    if issubclass(kind, NativeSharedVector):
        del required["channel"]
    return [name for name, names in required.items() if not defines(kind, *names)]


def require_whole_class(mechanism: object) -> Mechanism:
    """Return an object if it is a mechanism with all its methods."""
    if not isinstance(mechanism, Mechanism):
        raise InputError(f"design is a {type(mechanism).__name__}, no mechanism; derive it from blindrec.Mechanism")
    if missing := methods_missing(type(mechanism)):
        raise InputError(f"design {type(mechanism).__name__} lacks {', '.join(missing)}; see Mechanism")
    return mechanism


class _Call(threading.Thread):
    def __init__(self, function: Any, arguments: tuple[Any, ...]) -> None:
        super().__init__(daemon=True)
        self._function, self._arguments = function, arguments
        self.result: Any = None
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.result = self._function(*self._arguments)
        except BaseException as error:
            self.error = error


def where(mechanism: Mechanism, method: str, round_number: int) -> str:
    """Return a class, its method and the round, as errors name them."""
    return f"mechanism {type(mechanism).__name__}, method {method}, round {round_number}"


def guarded(
    mechanism: Mechanism,
    method: str,
    round_number: int,
    *arguments: Any,
    private: bool = False,
    function: Callable[..., Any] | None = None,
) -> Any:
    """Return what a method of a custom class returns, or what a ``function`` returns that the class gave."""
    # Where the method is ``private``, it sees ratings, and an error's text, which may show some, is not passed on.
    call = _Call(function or getattr(mechanism, method), arguments)
    call.start()
    call.join(mechanism.seconds)
    named = where(mechanism, method, round_number)
    if call.is_alive():
        raise MechanismError(
            f"{named}: it did not end within {mechanism.seconds:g} s; make it faster, or set the class's seconds "
            "higher; its thread goes on until its process ends, which on Ray is now"
        )
    if call.error is None:
        return call.result
    raise MechanismError(f"{named}: {_at(call.error) if private else _in_a_line(call.error)}") from None


def _at(error: BaseException) -> str:
    """Return an error's kind and its line; neither its text nor its values, which may be ratings."""
    _, *frames = walk_tb(error.__traceback__)  # the first one is the call itself, the second the author's method
    author = {frame.f_code.co_filename for frame, _ in frames[:1]} - {__file__}
    lines = [line for frame, line in frames if frame.f_code.co_filename in author]
    where = f"in line {lines[-1]}" if lines else "when it was called"
    return f"it raised {_plain(type(error))} {where}; its text stays on the device, it may show ratings"


def _plain(kind: type[BaseException]) -> str:
    """Return the name of an exception of Python's own; of no other one, since a class may name it after a rating."""
    return next((name for name, builtin in vars(builtins).items() if builtin is kind), "an error of its own")


def _in_a_line(error: BaseException) -> str:
    if isinstance(error, BlindrecError):
        return str(error)
    return " ".join(f"it raised {type(error).__name__}: {error}".split())


MOST_OUTPUTS = 1 << 48
CHANNELS = (MatrixChannel, IndependentBits, Likelihood)
"""Exact types of channels: one of a derived class could say one thing when it is checked and draw another one."""
UNCHECKED = "claimed, not checked"  # What stands wherever the guarantee of a channel stands that could not be checked


@dataclass(frozen=True, kw_only=True, eq=False)
class CustomMechanism:
    """A custom mechanism as the experimenter admits it."""

    mechanism: Mechanism  # The class with its settings
    name: str  # The name of its queries: the class's name, ``@``, and the digest of its source and settings
    parameters: frozenset[str] = frozenset()  # Names of the numbers and public arrays that its questions bring
    arrays: frozenset[str] = frozenset()
    unchecked: bool = False  # Whether its channel could not be checked
    partly: str = ""  # What was checked of a channel that could be in part only

    @property
    def native(self) -> bool:
        """Whether its class is written as blindrec's own mechanisms are."""
        return is_native(type(self.mechanism))

    @property
    def whole(self) -> NativeMechanism:
        """The class with its settings as what it is: a mechanism as blindrec's own are."""
        return cast("NativeMechanism", self.mechanism)

    @property
    def guarantee(self) -> str:
        """What a device is promised, and whether that was checked."""
        caveat = UNCHECKED if self.unchecked else self.partly
        return f"{LOCAL_PROMISE} ({caveat})" if caveat else LOCAL_PROMISE

    def fail(self, method: str, round_number: int, complaint: str) -> MechanismError:
        """Return the error that a method's result is refused with."""
        return MechanismError(f"{where(self.mechanism, method, round_number)}: {complaint}")


_ADMITTED: dict[str, CustomMechanism] = {}


def admit(custom: CustomMechanism | None) -> None:
    """Make a mechanism known to this process, by its name; only who starts the process calls it."""
    if custom is not None:
        _ADMITTED[custom.name] = custom


def admitted(name: str) -> CustomMechanism | None:
    """Return the mechanism of that name that was admitted here, or None."""
    return _ADMITTED.get(name)


def question_of(query: Query) -> Question:
    """Return a query as its author sees it."""
    parameters = dict(query.parameters)
    outputs, values = (int(parameters.pop(name, 0)) for name in (OUTPUTS, VALUES))
    sizes: dict[str, Any] = {"outputs": outputs, "bits": 0 if outputs else query.questions, "values": values}
    pool = np.arange(query.items, dtype=np.int32) if query.pool is None else query.pool
    same: dict[str, Any] = {name: getattr(query, name) for name in ("items", "epsilon", "public_seed", "round")}
    return Question(**sizes, parameters=parameters, arrays=dict(query.arrays), pool=pool, **same)


def hold(custom: CustomMechanism, query: Query, channel: AnyChannel) -> None:
    """Refuse a channel whose exact log-ratio is above its query's epsilon, by however little."""
    if isinstance(channel, Likelihood):
        if channel.claimed != query.epsilon:
            stated = f"it claims {channel.epsilon:.9g} nats, its question {as_float(query.epsilon):.9g}"
            raise custom.fail("channel", query.round, f"{stated}; let them agree")
        return
    if query.epsilon is None:
        return
    if not channel.log_ratio.within(query.epsilon):
        above = "" if math.isinf(channel.epsilon) else f"{channel.log_ratio.beyond(query.epsilon):.3g} "
        problem = f"one release gives away {channel.epsilon:.9g} nats, {above}above the question's epsilon"
        remedy = "add noise, or build the channel with epsilon=question.epsilon, which rounds to within it"
        raise custom.fail("channel", query.round, f"{problem} {float(query.epsilon):.9g}; {remedy}")


@lru_cache(maxsize=16)
def stated(custom: CustomMechanism, query: Query) -> AnyChannel:
    """Return the channel that a class states for a query: of an exact type, built anew, not yet held to its epsilon."""
    question = query if custom.native else question_of(query)
    answer = guarded(custom.mechanism, "channel", query.round, question)
    return fitted(custom, query, answer)


def fitted(custom: CustomMechanism, query: Query, answer: object) -> AnyChannel:
    """Return what a class gave as its channel, built anew; see `stated`."""
    ours = type(answer) in CHANNELS
    if custom.native:  # any exact channel of blindrec's
        ours = ours or (isinstance(answer, ExactChannel) and type(answer).__module__ == value_channels.__name__)
    if not ours:
        problem = "it returned no MatrixChannel, IndependentBits or Likelihood, nor may it be of a class derived"
        raise custom.fail("channel", query.round, f"{problem} from one; return one of these three")
    # from its fields: checked, and nobody else's to change
    channel: AnyChannel = guarded(custom.mechanism, "channel", query.round, answer, function=replace)
    if not custom.native:
        assert isinstance(channel, CHANNELS)  # as it was before
        _fit(custom, query, channel)
    elif (bits := getattr(channel, "bits", query.bits)) != query.bits:
        raise custom.fail("channel", query.round, f"it draws {bits} bits, its query has {query.bits}; let them agree")
    return channel


@lru_cache(maxsize=16)
def held_channel(custom: CustomMechanism, query: Query) -> AnyChannel:
    """Return the channel that one query's releases are drawn from: as it is stated, and held."""
    channel = stated(custom, query)
    hold(custom, query, channel)
    return channel


def _fit(custom: CustomMechanism, query: Query, channel: CustomChannel) -> None:
    """Refuse a channel of another size than its question's."""
    outputs = query.parameters.get(OUTPUTS)
    if (outputs is None) != isinstance(channel, IndependentBits):
        asks, answer = (
            ("bits", "independent_bits") if outputs is None else ("outputs", "matrix_channel or a Likelihood")
        )
        remedy = f"return that of {answer}, or let the question name {'outputs' if outputs is None else 'bits'}"
        raise custom.fail("channel", query.round, f"a question of {asks} has no {type(channel).__name__}; {remedy}")
    has = len(channel.rows[0]) if isinstance(channel, MatrixChannel) else channel.bits
    expected = outputs if isinstance(channel, MatrixChannel) else query.bits
    if has != expected:
        asks = f"{query.questions} bits" if outputs is None else f"{outputs:g} outputs ({query.answer_bits} bits)"
        kind = "outputs" if isinstance(channel, MatrixChannel) else "bits"
        raise custom.fail(
            "channel", query.round, f"a {type(channel).__name__} of {has} {kind} is none of a question of {asks}"
        )
