"""What a shuffler makes of a mechanism's epsilon: the central one, and the largest local one that keeps one."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import numpy as np

from actors.custom import RatedBlock, SketchCoins
from coordinator.protocol.amplification import (
    MOST_ANSWERS,
    AnyRandomizer,
    FiniteChannel,
    LevelsFromBelow,
    ShufflerBound,
    TwoLevels,
    best_set,
    largest_local_epsilon,
    shuffled_epsilon,
)
from coordinator.protocol.budget import as_float, parse_epsilon
from coordinator.protocol.channels import ExactChannel, IndependentBits, Likelihood, MatrixChannel
from coordinator.protocol.checked import require_whole
from coordinator.protocol.custom import CustomPublic, Mechanism, guarded, question_of, where
from coordinator.protocol.errors import InputError
from coordinator.protocol.value_channels import PADDED
from coordinator.server.server_half import GROUPS
from scenarios.studies.scrutiny.mechanism import (
    MIDDLE,
    RUN,
    Choice,
    MechanismUnderTest,
    Size,
    coins_of,
    half_and_settings,
    inputs,
    scenario_of,
    stored,
    subject_of,
)
from scenarios.studies.scrutiny.verdicts import Amplification

ANY = "any"
"""Stands for every local randomizer that is the same on all devices."""
DELTA = 1e-6
TWO_LEVELS, FINITE, CLONES = "two levels", "finite channel", "any randomizer"
"""Bounds from above: of a channel whose chances have two levels, of one as a matrix, of anything under epsilon."""
MOST_INPUTS = 16  # Private values of a channel that is bounded as a matrix, where every pair of them is looked at
ADDRESSES = 7_000_003  # Other addresses, at which a mechanism that does not know them must do the same


@dataclass(frozen=True, slots=True)
class Randomizer:
    """The randomizer of all devices at one local epsilon, as bounds ask for it."""

    bound: ShufflerBound
    name: str  # of the bound

    @property
    def below(self) -> LevelsFromBelow | None:
        """The bound from below, where the channel has two levels."""
        return LevelsFromBelow(self.bound) if isinstance(self.bound, TwoLevels) else None


def amplified(
    mechanism: str | Mechanism | ExactChannel,
    users: int,
    *,
    epsilon: Fraction | float | str | None = None,
    delta: float = DELTA,
    settings: Choice | None = None,
    items: int = RUN.items,
    rated: int | None = None,
) -> Amplification:
    """Return the central epsilon of a mechanism's shuffled reports, certified from above.

    Parameters
    ----------
    mechanism : str, Mechanism or channel
        A mechanism's name, ``package.module:Name`` of a custom one, or a custom one itself; a channel, as
        `matrix_channel` and `independent_bits` make it; or ``"any"``, for every local randomizer under epsilon.
    users : int
        Honest devices that answer.
    epsilon : Fraction, float or str, optional
        Local epsilon of each device [nats]; a channel has its own.
    delta : float
        Of the central guarantee, at most ``1 / users``.
    settings : dict, optional
        The mechanism's settings that are not the default.
    items : int
        Items of the catalogue.
    rated : int, optional
        Items that a device rated, typically; by default 20, or all where there are fewer.

    Raises
    ------
    InputError
        If a device's question follows from its public address, as a sensing set does: then every report names its
        sender, and shuffling changes nothing. If the mechanism is not private, asks groups of devices different
        questions, or the numbers are none.

    Examples
    --------
    >>> result = amplified("grr", 100_000, epsilon=4, items=99)
    >>> round(result.epsilon, 3), result.bound
    (0.068, 'two levels')
    """
    if isinstance(mechanism, ExactChannel):
        if epsilon is not None:
            raise InputError(f"epsilon is {epsilon}, but a channel has its own; leave it out")
        randomizer, local, name = of_channel(mechanism), mechanism.epsilon, type(mechanism).__name__
    else:
        nats = finite_epsilon(1 if epsilon is None else epsilon)
        randomizer, local = _randomizer_of(mechanism, settings, _size(items, rated, users))(nats), float(nats)
        name = _name_of(mechanism)
    return _result(name, randomizer, local=local, users=users, delta=delta)


def local_epsilon(
    mechanism: str | Mechanism,
    users: int,
    *,
    epsilon: Fraction | float | str = 1,
    delta: float = DELTA,
    settings: Choice | None = None,
    items: int = RUN.items,
    rated: int | None = None,
) -> Amplification:
    """Return the largest local epsilon with which a mechanism's shuffled reports keep a central epsilon, certified.

    The set mechanism also gets the number of values that a report should name (`chosen`), unless the settings say it:
    that which is best for the central epsilon, where the local one alone would name too many.

    Parameters
    ----------
    mechanism, users, delta, settings, items, rated
        As in `amplified`, but no channel, whose epsilon is fixed.
    epsilon : Fraction, float or str
        Central epsilon [nats].

    Returns
    -------
    Amplification
        Its ``epsilon_local`` is a whole number of thousandths, rounded down, and never below the central epsilon.

    Raises
    ------
    InputError
        As in `amplified`.

    Examples
    --------
    >>> result = local_epsilon("any", 100_000, epsilon=1)
    >>> result.epsilon_local, result.epsilon <= 1
    (7.069, True)
    """
    if isinstance(mechanism, ExactChannel):
        raise InputError("a channel has one epsilon; give the mechanism that makes it, or see amplified")
    central, size = finite_epsilon(epsilon), _size(items, rated, users)
    options, sizes = dict(settings or {}), dict[str, int]()
    if mechanism == "set" and not int(options.get("chosen", 0)):
        query = shuffled_subject(mechanism, options, size).query(size, central)
        padded = int(query.parameters[PADDED])
        best = best_set(items=items, padded=padded, epsilon=central, devices=users, delta=delta)
        sizes = {"padded": padded, "chosen": best.subset_size}
    randomizer_at = _randomizer_of(mechanism, options | sizes, size)
    local = largest_local_epsilon(
        lambda nats: randomizer_at(finite_epsilon(nats)).bound, epsilon=central, devices=users, delta=delta
    )
    return _result(
        _name_of(mechanism), randomizer_at(local), local=float(local), users=users, delta=delta, settings=sizes
    )


def of_channel(channel: ExactChannel) -> Randomizer:
    """Return the randomizer that a channel is, with the smallest bound that is known of it."""
    if channel.log_ratio.factors is None:
        raise InputError("the channel tells two inputs apart for certain: it has no epsilon, and shuffling makes none")
    rows = _rows(channel)
    if rows is None:
        return Randomizer(AnyRandomizer(), CLONES)
    return Randomizer(FiniteChannel(rows), FINITE)


def _rows(channel: ExactChannel) -> list[list[Fraction]] | None:
    """Return the channel's matrix, each different row once; None if it is too large to look at every pair."""
    if isinstance(channel, MatrixChannel):
        privates = [np.array([row]) for row in range(len(channel.rows))]
    elif isinstance(channel, IndependentBits) and 1 << channel.count <= MOST_INPUTS:
        most = channel.count if channel.ones is None else channel.ones
        privates = [np.array(bits) for bits in product((0, 1), repeat=channel.count) if sum(bits) <= most]
    else:
        return None
    rows = list(dict.fromkeys(tuple(channel.chances(private)) for private in privates))
    return [list(row) for row in rows] if 2 <= len(rows) <= MOST_INPUTS else None


def _size(items: int, rated: int | None, users: int) -> Size:
    require_whole("users", users, 1, MOST_ANSWERS)
    return Size(items, min(RUN.rated, items) if rated is None else rated, users)


def _randomizer_of(mechanism: str | Mechanism, settings: Choice | None, size: Size) -> Callable[[Fraction], Randomizer]:
    """Return a function from a local epsilon to the randomizer of all devices."""
    if mechanism == ANY:
        return lambda _: Randomizer(AnyRandomizer(), CLONES)
    subject = shuffled_subject(mechanism, settings, size)

    def randomizer(local: Fraction) -> Randomizer:
        query = subject.query(size, local)
        if (levels := subject.public.levels(query)) is not None:
            return Randomizer(levels, TWO_LEVELS)
        channel = subject.public.channel(query)
        if isinstance(channel, Likelihood):
            raise InputError(_by_address(subject.label))
        return of_channel(channel)

    return randomizer


def shuffled_subject(mechanism: str | Mechanism, settings: Choice | None, size: Size) -> MechanismUnderTest:
    """Return a mechanism whose reports a shuffler can hide, or refuse it."""
    half, own = half_and_settings(mechanism)
    subject = subject_of(half, own or settings or {}, size=size)
    if not subject.public.private:
        raise InputError(f"design {subject.label} is not private: it has no local epsilon that shuffling could amplify")
    if subject.public.by_address:
        raise InputError(_by_address(subject.label))
    if scenario_of(half, own or settings or {}, size, Fraction(1)).policy == GROUPS:
        raise InputError(
            f"design {subject.label} asks groups of devices different questions, and each group is shuffled apart; "
            "give a mechanism that asks all devices the same"
        )
    if isinstance(subject.public, CustomPublic):
        _require_same_everywhere(subject, subject.public)
    return subject


def _by_address(label: str) -> str:
    return (
        f"design {label} asks each device what its public address says, so that a report is read by who sent it: "
        "shuffling hides nobody, and the central epsilon is the local one; give grr, oue, subset or set"
    )


def _require_same_everywhere(subject: MechanismUnderTest, public: CustomPublic) -> None:
    """Refuse a custom mechanism that sketches or counts differently at other addresses, with the same coins."""
    size, own = MIDDLE, public.own.mechanism
    query = subject.query(size, Fraction(1))
    question, rows = question_of(query), inputs(size, np.random.default_rng(0))
    rated = stored(rows, range(len(rows)), size.items).rated(coins_of(query, 0, len(rows)).master, 0, len(rows))
    sketches, counts = [], []
    for first in (0, ADDRESSES):
        devices = np.arange(first, first + len(rows), dtype=np.int64)
        block = RatedBlock(devices=devices, starts=rated.starts, items=rated.items, likes=rated.values)
        coins = SketchCoins(coins_of(query, 0, len(rows)))
        sketches.append(guarded(own, "sketch", query.round, question, block, coins, private=True))
        random = np.random.default_rng(1)
        released = (
            random.integers(question.outputs, size=len(rows))
            if question.outputs
            else random.integers(2, size=(len(rows), question.bits)).astype(np.uint8)
        )
        counts.append(guarded(own, "count", query.round, question, released, devices))
    for method, (one, other) in (("sketch", sketches), ("count", counts)):
        if not np.array_equal(one, other):
            raise InputError(
                f"{where(own, method, query.round)}: it depends on addresses. {_by_address(subject.label)}"
            )


def _name_of(mechanism: str | Mechanism) -> str:
    return mechanism if isinstance(mechanism, str) else type(mechanism).__name__


def _result(
    name: str,
    randomizer: Randomizer,
    *,
    local: float,
    users: int,
    delta: float,
    settings: Mapping[str, int] | None = None,
) -> Amplification:
    def smallest(bound: ShufflerBound) -> float:
        return shuffled_epsilon(bound, local_epsilon=local, devices=users, delta=delta)

    below, central = randomizer.below, smallest(randomizer.bound)
    return Amplification(
        design=name,
        users=users,
        epsilon=central,
        epsilon_local=local,
        delta=delta,
        bound=randomizer.name,
        epsilon_at_least=None if below is None else min(smallest(below), central),  # both stand on one grid
        settings=settings or {},
    )


def finite_epsilon(epsilon: Fraction | float | str) -> Fraction:
    """Return an epsilon [nats], which must be finite."""
    nats = epsilon if isinstance(epsilon, Fraction) else parse_epsilon(epsilon)
    if nats is None or not math.isfinite(as_float(nats)):
        raise InputError("epsilon is inf; shuffling amplifies a finite one")
    return nats
