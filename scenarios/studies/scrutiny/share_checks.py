"""The checks of designs that devices answer in shares: they add up to a vector, and one alone says nothing of it."""

import hashlib
import pickle
from fractions import Fraction

import numpy as np

from actors.absence import Absence
from actors.device import Cohort
from actors.ratings import StoredRatings
from coordinator.protocol.arrays import Words32
from coordinator.protocol.budget import as_float
from coordinator.protocol.hashing import add_rows, expansions
from coordinator.protocol.mechanisms.totals import SharedVector
from coordinator.protocol.messages import Query
from coordinator.protocol.shares import SEEDS_SERVER, SIDES, WORDS_SERVER, SeedShare, WordShare
from coordinator.server.fleet.cohorts import cut
from scenarios.studies.scrutiny.mechanism import PLAIN, SECRET, TINY, MechanismUnderTest
from scenarios.studies.scrutiny.verdicts import Failed

UNKNOWN = "devices give shares, through no channel of their own; the noise is that of published sums"


def both_shares(devices: Cohort, query: Query) -> tuple[WordShare, SeedShare]:
    """Return what both servers get of all devices."""
    words, seeds = (devices.share(side, query, devices.first, devices.stop) for side in SIDES)
    if not isinstance(words, WordShare) or not isinstance(seeds, SeedShare):
        raise Failed(f"servers get a {type(words).__name__} and a {type(seeds).__name__}, no words and seeds")
    return words, seeds


def _sums(words: WordShare, seeds: SeedShare) -> Words32:
    heard = words.heard()[:, None].astype(np.uint32)
    return words.rows() + expansions(seeds.keys(), seeds.width) * heard


def share_crossing(subject: MechanismUnderTest, ratings: StoredRatings) -> str:
    """Check types and sizes of shares, that they add up to vectors of zeros and ones, and that silence is zeros."""
    query, half = subject.query(TINY, PLAIN), _half(subject)
    devices = Cohort(ratings, SECRET, 0, ratings.users, None, absence=Absence(dropout=0.3))
    words, seeds = both_shares(devices, query)
    silent = words.heard() == 0
    if words.answered != seeds.answered or not silent.any():
        raise Failed("other devices answer one server than the other one")
    if words.rows()[silent].any() or seeds.keys()[silent].any():
        raise Failed("a device that does not answer gives more than zeros")
    vectors = _sums(words, seeds)[~silent]
    most = half.ones(query)
    if not half.by_devices(query) and ((vectors > 1).any() or (vectors.sum(axis=1) > most).any()):
        raise Failed(f"shares add up to other vectors than of zeros and at most {most} ones")
    if SECRET in pickle.dumps([query, words, seeds]):
        raise Failed("the devices' secret is in what crosses")
    nobody = Cohort(StoredRatings(rows=ratings.rows, user=np.zeros_like(ratings.user)), SECRET, 0, ratings.users, None)
    alike = Cohort(ratings, SECRET, 0, ratings.users, None)
    if nobody.share(SEEDS_SERVER, query, 0, ratings.users) != alike.share(SEEDS_SERVER, query, 0, ratings.users):
        raise Failed("seeds depend on ratings")
    return f"{half.width(query)} words and a seed a device, {int(silent.sum())} of {silent.size} silent"


def share_layouts(subject: MechanismUnderTest, ratings: StoredRatings) -> str:
    """Check that shares are the same in any cut, and others in the next round."""

    def digest(query: Query, size: int) -> str:
        hashed = [hashlib.sha256(), hashlib.sha256()]
        for first, stop in cut(0, ratings.users, size):
            devices = Cohort(ratings, SECRET, first, stop, None, absence=Absence(dropout=0.2))
            words, seeds = both_shares(devices, query)
            hashed[0].update(words.content)
            hashed[1].update(seeds.content)
        return "".join(one.hexdigest() for one in hashed)

    wholes = []
    for number in (0, 1):
        query = subject.query(TINY, PLAIN, round_number=number)
        wholes.append(digest(query, ratings.users))
        for size in (1, 7, 50):
            if digest(query, size) != wholes[number]:
                raise Failed(f"cohorts of {size} devices give other shares than one cohort of all")
    if wholes[0] == wholes[1]:
        raise Failed("the next round's query has the same shares: its coins are not keyed by the query")
    return f"{ratings.users} devices, digest {wholes[0][:8]}"


def share_ledger(subject: MechanismUnderTest, ratings: StoredRatings) -> str:
    """Check that both shares cost one epsilon, a repeat nothing, and one query too many is refused."""
    query, later = subject.query(TINY, PLAIN), subject.query(TINY, PLAIN, round_number=1)
    assert query.epsilon is not None  # asked so
    devices = Cohort(ratings, SECRET, 0, ratings.users, query.epsilon * Fraction(3, 2))
    first = both_shares(devices, query)
    if both_shares(devices, query) != first:
        raise Failed("asked again, devices give other shares")
    if (spent := devices.ledger.spent(0)) != query.epsilon:
        raise Failed(
            f"device 0 has spent {as_float(spent):g} after both shares, twice, not {as_float(query.epsilon):g}"
        )
    if any(share.refused != ratings.users or any(share.content) for share in both_shares(devices, later)):
        raise Failed("beyond their budget devices give shares")
    return f"{as_float(query.epsilon):g} for both shares, 0 for their repeat, the next query is refused"


def share_merging(subject: MechanismUnderTest, ratings: StoredRatings) -> str:
    """Check that sums of blocks of shares add up to that of all, modulo 2**32."""
    query = subject.query(TINY, PLAIN)
    width = _half(subject).width(query)
    sums = []
    for size in (ratings.users, 10, 1):
        total = np.zeros(width, np.uint32)
        for first, stop in cut(0, ratings.users, size):
            share = Cohort(ratings, SECRET, first, stop, None).share(WORDS_SERVER, query, first, stop)
            assert isinstance(share, WordShare)  # of this server
            add_rows(share.rows(), share.heard(), total)
        sums.append(total)
    if any((one != sums[0]).any() for one in sums):
        raise Failed(f"blocks of shares have another sum than one block of {ratings.users}")
    return f"{ratings.users} devices in one block, by ten and one by one"


def _half(subject: MechanismUnderTest) -> SharedVector:
    assert isinstance(subject.public, SharedVector)  # looked at by the caller
    return subject.public
