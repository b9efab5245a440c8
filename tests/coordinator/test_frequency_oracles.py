"""Frequency oracles: how often reports speak for values, hashes, and what another library says of both."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import worlds
from runs import Command, refused
from statistical import FALSE_ALARM, binomial_bounds, chi_square_fits
from worlds import in_world

from actors.device import Cohort
from actors.ratings import StoredRatings
from coordinator.protocol.arrays import Ints
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.channels import COIN, flipped_bits
from coordinator.protocol.errors import InputError
from coordinator.protocol.hashing import device_streams
from coordinator.protocol.mechanism import InWorld, World
from coordinator.protocol.mechanisms import mechanisms as registered_mechanisms
from coordinator.protocol.mechanisms.oracles import Frequencies, Oracle
from coordinator.protocol.messages import Query
from coordinator.protocol.public_draws import buckets_of
from coordinator.protocol.statistics.counts import CountStatistic, Rates
from coordinator.protocol.value_channels import kary_channel
from coordinator.server.aggregation import aggregate

ORACLES = {name: kind for name, kind in registered_mechanisms().items() if issubclass(kind, Oracle)}
"""Those that are told one random item."""
SECRET = bytes(range(16))
USERS = 40_000


def design_of(name: str, items: int, rated: int = 1, **settings: Any) -> InWorld:
    return in_world(ORACLES[name], items=items, rated=rated, **settings)


def reports(design: InWorld, query: Query) -> Rates:
    """How often a report speaks for a value."""
    assert isinstance(design.mechanism, Frequencies)
    return design.mechanism.reports(query)


def asked_of(design: InWorld, epsilon: Epsilon, seed: bytes = worlds.PUBLIC) -> Query:
    return design.query(round_number=0, public_seed=seed, epsilon=epsilon)


def counted(query: Query, ratings: StoredRatings) -> CountStatistic:
    statistic = aggregate(query, Cohort(ratings, SECRET, 0, ratings.users, None).answer(query, 0, ratings.users))
    assert isinstance(statistic, CountStatistic)
    return statistic


def who_like(rows: list[list[int]], items: int, users: int) -> StoredRatings:
    """Devices of which the i-th likes the items of row ``i`` modulo their number, and has rated nothing else."""
    behind = [device % len(rows) for device in range(users)]
    return worlds.stored_ratings([dict.fromkeys(row, True) for row in rows], behind, items)


def stated(name: str, epsilon: float, items: int, query: Query) -> tuple[float, float]:
    """The probabilities p and q of the papers."""
    odds = float(np.exp(epsilon))
    if name == "grr":
        return odds / (odds + items), 1 / (odds + items)
    size = int(query.parameters["buckets"]) if name == "olh" else 2 ** int(query.parameters["rows"])
    return odds / (odds + size - 1), 1 / size


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["grr", "olh", "hadamard"])
@pytest.mark.parametrize("epsilon", [Fraction(1), Fraction(3)])
def test_reports_speak_for_values_with_p_and_q(name: str, epsilon: Fraction) -> None:
    """All devices like item 5 alone: its count is binomial with p, all others with q. False alarm 1e-6 together.

    The twin: at an epsilon a tenth larger item 5 would be counted more often than that.
    """
    design = design_of(name, items=21)
    query = asked_of(design, epsilon)
    rates, counts = reports(design, query), counted(query, who_like([[5]], 21, USERS)).sums
    p, q = stated(name, float(epsilon), 21, query)
    assert [rates.mine, rates.others] == pytest.approx([p, q], rel=1e-12)
    for value, count in enumerate(counts.tolist()):
        low, high = binomial_bounds(USERS, p if value == 5 else q, comparisons=22)
        assert low <= count <= high
    assert counts[5] < binomial_bounds(USERS, stated(name, float(epsilon) * 1.1, 21, query)[0])[0]


@pytest.mark.statistical
@pytest.mark.parametrize("buckets", [2, 4, 56])
def test_hashes_of_two_values_are_uniform_pairs(buckets: int) -> None:
    """Over devices every pair of buckets is as frequent, whichever two values: chi-square, false alarm 1e-6 in all.

    The twins: one hash for two values is caught, and so is a bucket that loses a tenth to the next.
    """
    devices, pairs = 1 << 18, [(0, 1), (0, 2), (2, 3), (5, 1000), (999, 1000)]
    streams = device_streams(np.array([1, 2], np.uint64), 0, devices)
    even = np.full(buckets**2, buckets**-2.0)

    def hashed(value: int) -> Ints:
        return buckets_of(streams, np.full(devices, value, np.int32), buckets).astype(np.int64)

    def uniform(one: Ints, other: Ints) -> bool:
        counts = np.bincount(one * buckets + other, minlength=buckets**2)
        return chi_square_fits(counts, even, false_alarm=FALSE_ALARM / len(pairs))

    assert all(uniform(hashed(one), hashed(other)) for one, other in pairs)
    assert not uniform(hashed(6), hashed(6))
    moved = np.where((hashed(0) == 0) & (np.arange(devices) % 10 == 0), 1, hashed(0))
    assert not chi_square_fits(np.bincount(moved, minlength=buckets), even[:buckets])


def test_one_device_without_noise_is_no_certainty() -> None:
    design, one = design_of("grr", items=12), np.eye(1, 12, dtype=np.int64)[0]
    statistic = CountStatistic(sums=one, ones=0, devices=1, answered=1, refused=0)
    assert np.isfinite(design.read(asked_of(design, None), statistic).information).all()


@pytest.mark.parametrize("name", [*ORACLES, "set"])
def test_liked_items_are_asked_about_all_together(name: str, blindrec: Command) -> None:
    """How often a device names one item of a few depends on how it likes the others: no round tells that."""
    line = refused(blindrec, "run", "--design", name, "--policy", "eliminate")
    assert "choose one of one-round, fixed" in line
    assert ("set told to rated" in line) == (name != "set")
    half = registered_mechanisms()[name]
    design = half.design(half.settings(), World(items=12, rated=2, users=9, clusters=2, epsilon=Fraction(1)))
    assert isinstance(design, InWorld)
    with pytest.raises(InputError, match="about all items together"):
        design.query(round_number=0, public_seed=worlds.PUBLIC, epsilon=Fraction(1), pool=np.arange(3, dtype=np.int32))


EPSILONS = (Fraction(1, 10), Fraction(1), Fraction(3))
MISSING = "the package {} is not installed; pip install it"


def kept(epsilon: Fraction) -> float:
    return flipped_bits(1, epsilon).if_one / COIN


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_opendp_says_of_our_flips_what_our_channels_say(epsilon: Fraction) -> None:
    """Randomized response of one bit, and among k values: OpenDP's privacy map at our probabilities."""
    opendp = pytest.importorskip("opendp.prelude", reason=MISSING.format("opendp"))
    opendp.enable_features("contrib")
    measurement = opendp.m.make_randomized_response_bool(prob=kept(epsilon))
    assert measurement.map(1) == pytest.approx(flipped_bits(1, epsilon).epsilon, abs=1e-12)
    channel = kary_channel(epsilon, values=8)
    own = float(max(channel.chances(np.array([3]))))
    several = opendp.m.make_randomized_response(categories=list(range(8)), prob=own)
    assert several.map(1) == pytest.approx(channel.epsilon, abs=1e-12)
    off = opendp.m.make_randomized_response_bool(prob=kept(epsilon) + 0.01)
    assert off.map(1) > flipped_bits(1, epsilon).epsilon + 0.01
