"""Which mechanisms of one's own this process knows: those that the experimenter admitted, and no others.

A query or a folder only names one, by its class's name and a digest of its source and settings; nothing is imported or
unpickled because of that name.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from functools import lru_cache

import numpy as np

from coordinator.protocol.budget import as_float
from coordinator.protocol.channels import IndependentBits, Likelihood, MatrixChannel
from coordinator.protocol.errors import InputError
from coordinator.protocol.guarding import guarded, where
from coordinator.protocol.messages import Query
from coordinator.protocol.own import OUTPUTS, VALUES, Mechanism, MechanismError, OwnChannel, Question
from coordinator.protocol.public_half import LOCAL, PublicHalf

MOST_OUTPUTS = 1 << 48
CHANNELS = (MatrixChannel, IndependentBits, Likelihood)
"""Exact types of channels: one of a derived class could say one thing when it is checked and draw another one."""
UNCHECKED = "claimed, not checked"
"""What stands wherever the guarantee of a channel stands that could not be checked."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Own:
    """A mechanism of one's own as the experimenter admits it.

    Attributes
    ----------
    mechanism : Mechanism
        The class with its settings.
    name : str
        What its queries are called: the class's name, ``@``, and the digest of its source and settings.
    parameters, arrays : frozenset of str
        Names of the numbers and public arrays that its questions bring.
    unchecked : bool
        Whether its channel could not be checked.
    partly : str
        What was checked of a channel that could be in part only.
    helpers : tuple of str
        Packages that travel with its own to other processes.
    """

    mechanism: Mechanism
    name: str
    parameters: frozenset[str] = frozenset()
    arrays: frozenset[str] = frozenset()
    unchecked: bool = False
    partly: str = ""
    helpers: tuple[str, ...] = ()

    @property
    def promise(self) -> str:
        """What a device is promised, and whether that was checked."""
        told = UNCHECKED if self.unchecked else self.partly
        return f"{LOCAL} ({told})" if told else LOCAL

    def fail(self, method: str, round_number: int, complaint: str) -> MechanismError:
        """Return the error that a method's result is refused with."""
        return MechanismError(f"{where(self.mechanism, method, round_number)}: {complaint}")


_ADMITTED: dict[str, Own] = {}


def admit(own: Own | None) -> None:
    """Make a mechanism known to this process, by its name; only who starts the process calls it."""
    if own is not None:
        _ADMITTED[own.name] = own


def admitted(name: str) -> Own | None:
    """Return the mechanism of that name that was admitted here, or None."""
    return _ADMITTED.get(name)


def question_of(query: Query) -> Question:
    """Return a query as its author sees it."""
    told = dict(query.parameters)
    outputs, values = (int(told.pop(name, 0)) for name in (OUTPUTS, VALUES))
    return Question(
        outputs=outputs,
        bits=0 if outputs else query.questions,
        values=values,
        parameters=told,
        arrays=dict(query.arrays),
        items=query.items,
        epsilon=query.epsilon,
        pool=np.arange(query.items, dtype=np.int32) if query.pool is None else query.pool,
        public_seed=query.public_seed,
        round=query.round,
    )


def width_of(outputs: int) -> int:
    """Return the bits that name one of so many outputs."""
    return max((outputs - 1).bit_length(), 1)


def hold(own: Own, query: Query, channel: OwnChannel) -> None:
    """Refuse a channel whose exact log-ratio is above its query's epsilon, by however little.

    Raises
    ------
    MechanismError
        If it is; or if a likelihood, which only claims, claims something else than its query.
    """
    if isinstance(channel, Likelihood):
        if channel.claimed != query.epsilon:
            stated = f"it claims {channel.epsilon:.9g} nats, its question {as_float(query.epsilon):.9g}"
            raise own.fail("channel", query.round, f"{stated}; let them agree")
        return
    if query.epsilon is None:
        return
    if not channel.log_ratio.within(query.epsilon):
        above = "" if math.isinf(channel.epsilon) else f"{channel.log_ratio.beyond(query.epsilon):.3g} "
        told = f"one release gives away {channel.epsilon:.9g} nats, {above}above the question's epsilon"
        remedy = "add noise, or build the channel with epsilon=question.epsilon, which rounds to within it"
        raise own.fail("channel", query.round, f"{told} {float(query.epsilon):.9g}; {remedy}")


def _anew(channel: OwnChannel) -> OwnChannel:
    """Return a channel built from another one's fields: checked, and nobody else's to change."""
    return type(channel)(**{field.name: getattr(channel, field.name) for field in fields(channel)})


@lru_cache(maxsize=16)
def stated(own: Own, query: Query) -> OwnChannel:
    """Return the channel that a class states for a query: of an exact type, built anew, not yet held to its epsilon.

    Raises
    ------
    MechanismError
        If the class gives none, or one of another size than its question's.
    """
    given = guarded(own.mechanism, "channel", query.round, question_of(query))
    return fitted(own, query, given)


def fitted(own: Own, query: Query, given: object) -> OwnChannel:
    """Return what a class gave as its channel, built anew; see `stated`."""
    if type(given) not in CHANNELS:
        told = "what it returned is no MatrixChannel, IndependentBits or Likelihood, nor may it be of a class derived"
        raise own.fail("channel", query.round, f"{told} from one; return one of these three")
    channel: OwnChannel = guarded(own.mechanism, "channel", query.round, given, function=_anew)
    _fit(own, query, channel)
    return channel


@lru_cache(maxsize=16)
def _channel(own: Own, query: Query) -> OwnChannel:
    """Return the channel that one query's releases are drawn from: as it is stated, and held."""
    channel = stated(own, query)
    hold(own, query, channel)
    return channel


def _fit(own: Own, query: Query, channel: OwnChannel) -> None:
    """Refuse a channel of another size than its question's."""
    outputs = query.parameters.get(OUTPUTS)
    has = len(channel.rows[0]) if isinstance(channel, MatrixChannel) else channel.bits
    asked = outputs if isinstance(channel, MatrixChannel) else query.bits
    if has != asked or (outputs is None) != isinstance(channel, IndependentBits):
        asks = f"{query.questions} bits" if outputs is None else f"{outputs:g} outputs ({query.answer_bits} bits)"
        kind = "outputs" if isinstance(channel, MatrixChannel) else "bits"
        raise own.fail(
            "channel", query.round, f"a {type(channel).__name__} of {has} {kind} is none of a question of {asks}"
        )


class OwnPublic(PublicHalf):
    """The public half of a mechanism of one's own.

    Parameters
    ----------
    own : Own
        As it was admitted.
    """

    def __init__(self, own: Own) -> None:
        self.own = own
        self.name = own.name
        self.promise = own.promise  # type: ignore[misc] # here each one has its own
        self.parameters = own.parameters  # type: ignore[misc] # as the promise
        self.arrays = own.arrays  # type: ignore[misc] # as the promise
        self.pooled = None if own.mechanism.pools else False  # type: ignore[misc] # as the promise

    def check(self, query: Query) -> None:
        """Refuse a number of outputs that is none; see `PublicHalf.check`."""
        for name in (OUTPUTS, VALUES):
            size = query.parameters.get(name)
            if size is not None and not (2 <= size <= MOST_OUTPUTS and size.is_integer()):
                raise InputError(f"{query} has {size:g} {name}; give a whole number, 2 to {MOST_OUTPUTS}")

    def questions(self, query: Query) -> range:
        """Return the numbers of bits that may be asked for; see `PublicHalf.questions`."""
        return range(1, 2) if OUTPUTS in query.parameters else range(1, 1 << 32)

    def answer_bits(self, query: Query) -> int:
        """Return the bits that name an output; see `PublicHalf.answer_bits`."""
        return width_of(int(query.parameters[OUTPUTS])) if OUTPUTS in query.parameters else 1

    def channel(self, query: Query) -> OwnChannel:
        """Return the class's channel of a query; see `PublicHalf.channel`.

        Raises
        ------
        MechanismError
            If the class gives none, one of another size than its question's, or one that tells more than the query's
            epsilon: this is found for every query, before anything is charged or answered.
        """
        return _channel(self.own, query)


@lru_cache(maxsize=16)
def _public_half(own: Own) -> OwnPublic:
    return OwnPublic(own)


def public_of(name: str) -> PublicHalf | None:
    """Return the public half of a mechanism that was admitted here, or None."""
    return _public_half(own) if (own := admitted(name)) else None
