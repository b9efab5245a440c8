"""Admitting a user's own mechanism: it gets a name, and its question, its channel and its draws are checked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from coordinator.protocol.admitted import UNCHECKED, Own, OwnPublic, admit, hold, question_of
from coordinator.protocol.arrays import Floats, Ints, Words
from coordinator.protocol.budget import Epsilon, as_float
from coordinator.protocol.channels import COIN, CoinOf, Likelihood, LogRatio, MatrixChannel
from coordinator.protocol.guarding import guarded
from coordinator.protocol.messages import Query
from coordinator.protocol.own import Mechanism, MechanismError, require_whole_class
from coordinator.protocol.questions import check_question
from coordinator.server.design import World
from coordinator.server.own import OwnDesign, counts_itself
from scenarios.own.halves import OwnSettings
from scenarios.own.identity import identity

DRAWS = 20_000
"""Draws for each private value."""
BLOCK = 1 << 16
"""Devices that draw at once; their private values are mixed like those of real devices."""
FALSE_ALARM = 1e-9
"""Largest probability that correct draws are refused, for one public coin."""


def _coins(block: int, devices: int) -> CoinOf:
    """Return coins for a test, instead of devices' own."""

    def coin(question: int) -> Words:
        return np.random.default_rng([20261122, block, question]).integers(0, 1 << 64, devices, dtype=np.uint64)

    return coin


def complaint_about_sampler(
    own: Own, channel: Likelihood, table: MatrixChannel, public: np.uint64, query: Query
) -> str | None:
    """Return how a class's draws differ from the likelihood that it states for a public coin, or None.

    The count of each release for each private value is compared with Chernoff's bound of its binomial law, for all of
    them together (Bonferroni).
    """
    width, values = channel.bits, len(table.rows)
    everybody = np.random.default_rng(20261122).permutation(np.repeat(np.arange(values, dtype=np.int32), DRAWS))
    counts, weights = np.zeros(values << width, np.int64), 1 << np.arange(width - 1, -1, -1, dtype=np.int64)
    for first in range(0, everybody.size, BLOCK):
        some = everybody[first : first + BLOCK]
        given = some[:, None].copy(), np.full(some.size, public, np.uint64), _coins(first, some.size)
        drawn = guarded(own.mechanism, "sampler", query.round, *given, function=channel.draw)
        if type(drawn) is not np.ndarray or drawn.shape != (some.size, width) or not np.isin(drawn, (0, 1)).all():
            return f"it draws no {width} bits a device, uint8 of 0 and 1; return shape (devices, {width})"
        released = drawn.astype(np.int64) @ weights
        counts += np.bincount((some.astype(np.int64) << width) + released, minlength=counts.size)
    stated = np.zeros((values, 1 << width))
    stated[:, : len(table.rows[0])] = [[coins / COIN for coins in row] for row in table.rows]
    counts = counts.reshape(stated.shape)
    doubt = _surprise(counts, stated)
    if doubt.max() <= math.log(2 * stated.size / FALSE_ALARM):
        return None
    value, release = np.unravel_index(int(doubt.argmax()), doubt.shape)
    seen, meant = counts[value, release], stated[value, release] * DRAWS
    told = f"private value {value} gave release {release} in {seen} of {DRAWS} draws, {meant:.6g} are stated"
    return f"its draws differ from its likelihood: {told}; no device was asked"


def _surprise(counts: Ints, stated: Floats) -> Floats:
    """Return Chernoff's exponent [nats]: the one-sided improbability of a count so far from its expected value."""
    seen = counts / DRAWS
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = [
            np.where(share > 0, share * (np.log(share) - np.log(chance)), 0.0)
            for share, chance in ((seen, stated), (1 - seen, 1 - stated))
        ]
    surprise: Floats = DRAWS * (parts[0] + parts[1])
    return surprise


CLOSE = Fraction(1, 10**6)
"""A line says if a channel reveals less than its claim by more than this share of it."""
PUBLIC_COINS = 4
"""Number of devices with whose public coins a likelihood is checked."""
MOST_CELLS = 1 << 16
"""Most cells of a likelihood's matrix that are checked."""
MOST_SAMPLED = 256
"""Most private values of a likelihood for which its sampler is tested; with more values it is only claimed."""
EXACT, FOR_SOME = "checked exactly", f"likelihood checked for {PUBLIC_COINS} public coins, sampler sampled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """The result of a check.

    Attributes
    ----------
    epsilon : float
        Largest log-ratio that was found [nats].
    how : str
        How much of the channel was checked: `EXACT`, `FOR_SOME` or `admitted.UNCHECKED`.
    warning : str or None
        One line if the channel reveals less than it might.
    """

    epsilon: float
    how: str
    warning: str | None = None


def check_channel(own: Own, query: Query) -> Checked:
    """Check the channel of a query against the query's epsilon.

    Returns
    -------
    Checked

    Raises
    ------
    MechanismError
        If a release reveals more than the query claims, rows are no distributions, or draws do not follow the channel.
    """
    channel = OwnPublic(own).channel(query)
    if isinstance(channel, Likelihood):
        return _of_likelihood(own, query, channel)
    return Checked(epsilon=channel.epsilon, how=EXACT, warning=_less(own, channel.log_ratio, query.epsilon))


def _less(own: Own, largest: LogRatio, claimed: Epsilon) -> str | None:
    if claimed is None or not largest.within(claimed * (1 - CLOSE)):
        return None
    gives = f"gives away {float(largest):.9g} nats at most, its question claims {as_float(claimed):.9g}"
    return f"mechanism {type(own.mechanism).__name__}: its channel {gives}"


def _of_likelihood(own: Own, query: Query, channel: Likelihood) -> Checked:
    question, largest = question_of(query), LogRatio.of(Fraction(1))
    values, devices = question.values, np.arange(PUBLIC_COINS, dtype=np.int64)
    if not values or values << channel.bits > MOST_CELLS:
        return Checked(epsilon=as_float(query.epsilon), how=UNCHECKED)
    rows = [np.array([value], np.int32) for value in range(values)]
    for public in question.public_streams(devices):
        try:
            table = guarded(own.mechanism, "likelihood", query.round, rows, public, function=channel.matrix)
        except MechanismError as error:
            raise MechanismError(f"{error}; no device was asked") from None
        hold(own, query, table)
        largest = max(largest, table.log_ratio, key=float)
        if values <= MOST_SAMPLED and (complaint := complaint_about_sampler(own, channel, table, public, query)):
            raise own.fail("sampler", query.round, complaint)
    how = FOR_SOME if values <= MOST_SAMPLED else UNCHECKED
    return Checked(epsilon=float(largest), how=how, warning=_less(own, largest, query.epsilon))


SMALL = 4
"""Items of a small catalogue in which a channel can be checked that is too large to check at the run's size."""


def admitted_for(
    mechanism: Mechanism, world: World, *, epsilon: Epsilon, helpers: Sequence[str] = ()
) -> tuple[Own, Checked]:
    """Admit a mechanism in this process, and return it in the form in which all processes of the run will admit it.

    Parameters
    ----------
    mechanism : Mechanism
        The class with its settings.
    world : World
        Public numbers of the run.
    epsilon : Fraction or None
        What one answer may cost [nats].
    helpers : sequence of str
        Packages that are sent with it.

    Raises
    ------
    MechanismError
        If its class asks an impossible question, or its channel reveals more than it claims. No device was asked.
    InputError
        If it is no mechanism, or its source cannot be read.
    """
    require_whole_class(mechanism)
    own = Own(
        mechanism=mechanism,
        name=f"{type(mechanism).__name__}@{identity(mechanism, helpers)}",
        helpers=tuple(helpers),
    )
    query = OwnDesign(own, world).query(round_number=0, public_seed=bytes(16), epsilon=epsilon)
    own = replace(own, parameters=frozenset(query.parameters), arrays=frozenset(query.arrays))
    checked = check_channel(own, query)
    if checked.how == UNCHECKED:
        _check_small(own, world, epsilon)
    own = replace(own, unchecked=checked.how == UNCHECKED, partly=FOR_SOME if checked.how == FOR_SOME else "")
    admit(own)
    check_question(query)
    if not counts_itself(own.mechanism) and not isinstance(OwnPublic(own).channel(query), Likelihood):
        OwnDesign(own, world).rates(query)  # so that an invalid estimate is reported before any device is asked
    return own, checked


def _check_small(own: Own, world: World, epsilon: Epsilon) -> None:
    """Check the whole channel in a catalogue of a few items, if the class can ask there."""
    few = replace(world, items=SMALL, rated=min(world.rated, SMALL))
    try:
        query = OwnDesign(own, few).query(round_number=0, public_seed=bytes(16), epsilon=epsilon)
    except MechanismError:
        return
    check_channel(own, query)


_RUNS: dict[tuple[str, tuple[str, ...], World, Epsilon], tuple[Own, Checked]] = {}


def of_run(settings: object, world: World, epsilon: Epsilon) -> tuple[Own, Checked] | None:
    """Return a run's admitted mechanism and the result of its check; None if the mechanism is not a user's own.

    Parameters
    ----------
    settings : Settings
        The scenario's.
    world : World
        The run's.
    epsilon : Fraction or None
        What one answer may cost [nats].

    Raises
    ------
    MechanismError, InputError
        As `admitted_for`.
    """
    if not isinstance(settings, OwnSettings):
        return None
    mechanism, helpers = settings.mechanism(), settings.helpers
    key = identity(mechanism, helpers), helpers, world, epsilon
    if key not in _RUNS:
        _RUNS[key] = admitted_for(mechanism, world, epsilon=epsilon, helpers=helpers)
    return _RUNS[key]
