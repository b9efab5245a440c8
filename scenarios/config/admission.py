"""Admission of a custom mechanism: it gets a name, and its question, its channel and its sampler are checked."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from actors.ratings import RatingsBlock, StoredRatings
from actors.seeds import Coins
from coordinator.protocol.arrays import Bits2, Floats, Ints, Words
from coordinator.protocol.budget import Epsilon, as_float
from coordinator.protocol.channels import COIN, CoinOf, Likelihood, LogRatio, MatrixChannel
from coordinator.protocol.coins import as_words
from coordinator.protocol.custom import (
    UNCHECKED,
    CoinsBlock,
    CustomMechanism,
    Mechanism,
    MechanismError,
    admit,
    defines,
    guarded,
    hold,
    question_of,
    require_whole_class,
    where,
)
from coordinator.protocol.custom import RatingsBlock as ShortRatings
from coordinator.protocol.custom_adapter import adapter
from coordinator.protocol.errors import BlindrecError, InputError
from coordinator.protocol.hashing import device_streams
from coordinator.protocol.mechanism import World
from coordinator.protocol.mechanisms import check_question
from coordinator.protocol.messages import Query, Release
from coordinator.protocol.randomizers import by_address
from coordinator.protocol.rating_table import Likes, RowTable
from coordinator.protocol.short_adapter import counts_itself
from scenarios.config.identity import identity

DRAWS = 20_000  # Draws for each private value
BLOCK = 1 << 16  # Devices that are sampled at once; their private values are mixed like those of real devices.
FALSE_ALARM = 1e-9  # Largest probability that correct draws are refused, for one public coin
CLOSE = Fraction(1, 10**6)
"""A warning is given where a channel reveals less than its claim by more than this share of it."""
PUBLIC_COINS = 4  # Number of devices with whose public coins a likelihood is checked
MOST_CELLS = 1 << 16  # Most cells of a likelihood's matrix that are checked
MOST_SAMPLED = 256
"""Most private values of a likelihood for which its sampler is tested; with more values it is only claimed."""
EXACT, FOR_SOME = "checked exactly", f"likelihood checked for {PUBLIC_COINS} public coins, sampler sampled"
OWN_DRAWS = "channel checked exactly, the class's draws from it claimed"
OWN_LEVELS = "channel checked exactly, the levels that shuffling counts on claimed"
OF_SUMS = "checked exactly, as noise of published sums"
PARTLY = (FOR_SOME, OWN_DRAWS, OWN_LEVELS)
SMALL = 4  # Items of a small catalogue in which a channel can be checked that is too large to check at the run's size


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelCheck:
    """The result of a check."""

    epsilon: float  # the largest log-ratio [nats]
    how: str  # how much of the channel was checked: `EXACT`, one of `PARTLY` or `admitted.UNCHECKED`
    warning: str | None = None  # one line if the channel reveals less than it might


def check_channel(custom: CustomMechanism, query: Query) -> ChannelCheck:
    """Check the channel of a query against the query's epsilon."""
    if adapter(custom).shares:
        adapter(custom).check(query)
        return ChannelCheck(epsilon=as_float(query.epsilon), how=OF_SUMS)
    channel = adapter(custom).channel(query)
    if isinstance(channel, Likelihood):
        return _check_likelihood(custom, query, channel)
    kind, how = type(custom.mechanism), EXACT
    if custom.native and defines(kind, "randomize", "packed"):
        how = OWN_DRAWS
    elif custom.native and defines(kind, "levels"):
        how = OWN_LEVELS
    return ChannelCheck(epsilon=channel.epsilon, how=how, warning=_warning(custom, channel.log_ratio, query.epsilon))


def _warning(custom: CustomMechanism, largest: LogRatio, claimed: Epsilon) -> str | None:
    if claimed is None or not largest.within(claimed * (1 - CLOSE)):
        return None
    gives = f"gives away {float(largest):.9g} nats at most, its question claims {as_float(claimed):.9g}"
    return f"mechanism {type(custom.mechanism).__name__}: its channel {gives}"


def _check_likelihood(custom: CustomMechanism, query: Query, channel: Likelihood) -> ChannelCheck:
    question, largest = question_of(query), LogRatio.of(Fraction(1))
    values, devices = question.values, np.arange(PUBLIC_COINS, dtype=np.int64)
    if custom.native or not values or values << channel.bits > MOST_CELLS:
        return ChannelCheck(epsilon=as_float(query.epsilon), how=UNCHECKED)
    rows = [np.array([value], np.int32) for value in range(values)]
    for public in question.public_streams(devices):
        try:
            table = guarded(custom.mechanism, "likelihood", query.round, rows, public, function=channel.matrix)
        except MechanismError as error:
            raise MechanismError(f"{error}; no device was asked") from None
        hold(custom, query, table)
        largest = max(largest, table.log_ratio, key=float)
        if values <= MOST_SAMPLED and (complaint := _complaint_about_sampler(custom, channel, table, public, query)):
            raise custom.fail("sampler", query.round, complaint)
    how = FOR_SOME if values <= MOST_SAMPLED else UNCHECKED
    return ChannelCheck(epsilon=float(largest), how=how, warning=_warning(custom, largest, query.epsilon))


def _complaint_about_sampler(
    custom: CustomMechanism, channel: Likelihood, table: MatrixChannel, public: np.uint64, query: Query
) -> str | None:
    """Return how a class's draws differ from the likelihood that it states for a public coin, or None."""
    width, values = channel.bits, len(table.rows)
    everybody = np.random.default_rng(20261122).permutation(np.repeat(np.arange(values, dtype=np.int32), DRAWS))
    counts = np.zeros((values, 1 << width), np.int64)
    for first in range(0, everybody.size, BLOCK):
        block = everybody[first : first + BLOCK]
        inputs = block[:, None].copy(), np.full(block.size, public, np.uint64), _coins(first, block.size)
        bits = guarded(custom.mechanism, "sampler", query.round, *inputs, function=channel.draw)
        if type(bits) is not np.ndarray or bits.shape != (block.size, width) or not np.isin(bits, (0, 1)).all():
            return f"it draws no {width} bits a device, uint8 of 0 and 1; return shape (devices, {width})"
        add_draws(counts, block, bits)
    stated = np.zeros(counts.shape)
    stated[:, : len(table.rows[0])] = [[coins / COIN for coins in row] for row in table.rows]
    if (cell := improbable_count(counts, stated, FALSE_ALARM)) is None:
        return None
    often = f"in {counts[cell]} of {DRAWS} draws, {stated[cell] * DRAWS:.6g} are stated"
    line = f"private value {cell[0]} gave release {cell[1]} {often}"
    return f"its draws differ from its likelihood: {line}; no device was asked"


def _coins(block: int, devices: int) -> CoinOf:
    """Return coins for a test, in place of devices' coins."""

    def coin(question: int) -> Words:
        return np.random.default_rng([20261122, block, question]).integers(0, 1 << 64, devices, dtype=np.uint64)

    return coin


def add_draws(counts: Ints, values: Ints | int, bits: Bits2) -> None:
    """Count the released bits of devices in a table by their private values, shape (values, releases)."""
    width = bits.shape[1]
    releases = bits.astype(np.int64) @ (1 << np.arange(width - 1, -1, -1, dtype=np.int64))
    places = (np.asarray(values, np.int64) << width) + releases
    counts += np.bincount(places, minlength=counts.size).reshape(counts.shape)


def improbable_count(counts: Ints, chances: Floats, false_alarm: float) -> tuple[int, int] | None:
    """Return the private value and release whose count differs most from its chance, if that is improbable."""
    draws = counts.sum(axis=1, keepdims=True)
    seen = counts / draws
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = [
            np.where(share > 0, share * (np.log(share) - np.log(chance)), 0.0)
            for share, chance in ((seen, chances), (1 - seen, 1 - chances))
        ]
    exponent = draws * (parts[0] + parts[1])  # minus the logarithm of that one-sided bound
    if exponent.max() <= math.log(2 * counts.size / false_alarm):
        return None
    value, release = np.unravel_index(int(exponent.argmax()), counts.shape)
    return int(value), int(release)


def admitted_for(mechanism: Mechanism, world: World, *, epsilon: Epsilon) -> tuple[CustomMechanism, ChannelCheck]:
    """Admit a mechanism in this process, and return it in the form in which all processes of the run will admit it."""
    require_whole_class(mechanism)
    custom = CustomMechanism(mechanism=mechanism, name=f"{type(mechanism).__name__}@{identity(mechanism)}")
    query = adapter(custom).query(world, round_number=0, public_seed=bytes(16), epsilon=epsilon)
    custom = replace(custom, parameters=frozenset(query.parameters), arrays=frozenset(query.arrays))
    checked = check_channel(custom, query)
    if checked.how == UNCHECKED:
        _check_small(custom, world, epsilon)
    custom = _as_checked(custom, checked.how)
    admit(custom)
    check_question(query)
    if (
        not custom.native
        and not counts_itself(custom.mechanism)
        and not isinstance(adapter(custom).channel(query), Likelihood)
    ):
        adapter(custom).rates(query, world)  # so that an invalid estimate is reported before any device is asked
    return custom, checked


def _as_checked(custom: CustomMechanism, how: str) -> CustomMechanism:
    return replace(custom, unchecked=how == UNCHECKED, partly=how if how in PARTLY else "")


def checked_guarantee(custom: CustomMechanism, query: Query) -> str:
    """Return the promise of a mechanism in this query, with how much of it was checked; one that fails is a claim."""
    try:
        how = check_channel(custom, query).how
    except BlindrecError:
        how = UNCHECKED
    return _as_checked(custom, how).guarantee


def _check_small(custom: CustomMechanism, world: World, epsilon: Epsilon) -> None:
    """Check the whole channel in a catalogue of a few items, if the class can ask there."""
    few = replace(world, items=SMALL, rated=min(world.rated, SMALL))
    try:
        query = adapter(custom).query(few, round_number=0, public_seed=bytes(16), epsilon=epsilon)
    except MechanismError:
        return
    check_channel(custom, query)


ADDRESSES = 7_000_003  # Other addresses, at which a mechanism that does not know them must do the same
TRIED = 300  # Devices that are tried there
BLOCKS = (0, 1, 8, 58, TRIED)  # Where smaller blocks begin: of sizes that share no factor, at places that share none


Trial: TypeAlias = Callable[[int, int, int], Any]
"""What a class makes of devices from one to another, at addresses that are so much higher."""


def _short_trial(
    custom: CustomMechanism, query: Query, rows: Likes, random: np.random.Generator
) -> tuple[Trial, Trial]:
    """Return how a short class sketches, and how it counts."""
    question, starts = question_of(query), rows.starts
    released = (
        random.integers(question.outputs, size=TRIED)
        if question.outputs
        else random.integers(2, size=(TRIED, question.bits)).astype(np.uint8)
    )

    def sketch(begin: int, end: int, address: int) -> Any:
        part = slice(starts[begin], starts[end])
        block = ShortRatings(
            devices=np.arange(begin, end, dtype=np.int64) + address,
            starts=starts[begin : end + 1] - starts[begin],
            items=rows.items[part],
            likes=rows.values[part].copy(),
        )
        coins = CoinsBlock(Coins(as_words(bytes(16)), begin, end - begin, query.words).sketch)
        sketches = guarded(custom.mechanism, "sketch", query.round, question, block, coins, private=True)
        if np.shape(sketches)[:1] != (end - begin,):
            shape = f"it returned shape {np.shape(sketches)} for a block of {end - begin} devices"
            raise custom.fail("sketch", query.round, f"{shape}; return a sketch of each")
        return sketches

    def count(begin: int, end: int, address: int) -> Any:
        devices = np.arange(begin, end, dtype=np.int64) + address
        return guarded(custom.mechanism, "count", query.round, question, released[begin:end].copy(), devices)

    return sketch, count


class MovedCoins(Coins):
    """The coins of devices as they would be at other addresses: private ones are the same."""

    def streams(self, query: Query) -> Words:
        """Return the streams of devices at these addresses, unless they draw their own questions."""
        here = super().streams(query)
        return here if query.own_questions else device_streams(query.key, self.first + ADDRESSES, self.devices)


def _native_trial(
    custom: CustomMechanism, query: Query, rows: Likes, random: np.random.Generator
) -> tuple[Trial, Trial]:
    """Return how a class that is written as blindrec's own sketches, and how it counts."""
    ratings = StoredRatings(rows=rows, user=np.arange(TRIED, dtype=np.int32))
    everybody = Coins(as_words(bytes(16)), 0, TRIED, query.words)
    private = adapter(custom).sketch(query, RatingsBlock(ratings, everybody), everybody).private
    bits = adapter(custom).randomize(private, query, everybody)
    questions = random.integers(1 << 63, size=TRIED, dtype=np.uint64)

    def sketch(begin: int, end: int, address: int) -> Any:
        there = as_words(bytes(16)), begin, end - begin, query.words
        coins = (MovedCoins if address else Coins)(*there)
        return adapter(custom).sketch(query, RatingsBlock(ratings, Coins(*there)), coins).private

    def count(begin: int, end: int, address: int) -> Any:
        release = Release(
            query_id=query.id,
            first=begin + address,
            count=end - begin,
            width=query.bits,
            bits=np.packbits(bits[begin:end]).tobytes(),
            questions=questions[begin:end].astype("<u8").tobytes() if query.own_questions else None,
        )
        statistic = adapter(custom).count(query, release)
        return np.concatenate([np.ravel(getattr(statistic, name)) for name in statistic.counts])

    return sketch, count


def require_same_everywhere(custom: CustomMechanism, query: Query) -> None:
    """Refuse a custom mechanism whose devices sketch or count by more than their ratings and coins.

    They must do the same at other addresses, at other places of a block, and in blocks of other sizes.
    """
    random = np.random.default_rng(20261126)
    rated = random.integers(1, min(400, query.items) + 1, TRIED)
    items = np.concatenate([np.sort(random.choice(query.items, count, replace=False)) for count in rated])
    starts, likes = np.cumsum([0, *rated]), random.random(items.size) < 0.5
    rows = RowTable(starts=starts, items=items.astype(np.int32), values=likes, count=query.items)
    sketch, count = (_native_trial if custom.native else _short_trial)(custom, query, rows, random)

    for method, whole, elsewhere in (
        ("sketch", sketch(0, TRIED, 0), sketch(0, TRIED, ADDRESSES)),
        ("count", count(0, TRIED, 0), count(0, TRIED, ADDRESSES)),
    ):
        name = where(custom.mechanism, method, query.round)
        if not np.array_equal(whole, elsewhere):
            raise InputError(f"{name}: it depends on addresses. {by_address(type(custom.mechanism).__name__)}")
        blocks = list(pairwise(BLOCKS))
        if method == "sketch":
            alike = all(np.array_equal(whole[begin:end], sketch(begin, end, 0)) for begin, end in blocks)
        else:
            alike = np.array_equal(whole, sum(np.asarray(count(begin, end, 0)) for begin, end in blocks))
        if not alike:
            raise InputError(
                f"{name}: it depends on a device's place in a block, or on the others in it; use each device's own "
                "ratings and coins"
            )


_RUNS: dict[tuple[str, tuple[str, ...], World, Epsilon], tuple[CustomMechanism, ChannelCheck]] = {}


def admitted_of_run(settings: object, world: World, epsilon: Epsilon) -> tuple[CustomMechanism, ChannelCheck] | None:
    """Return a run's admitted mechanism and the result of its check; None if it is no custom mechanism."""
    if not isinstance(settings, Mechanism):
        return None
    key = identity(settings), settings.helpers, world, epsilon
    if key not in _RUNS:
        _RUNS[key] = admitted_for(settings, world, epsilon=epsilon)
    return _RUNS[key]
