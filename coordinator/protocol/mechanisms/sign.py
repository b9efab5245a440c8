"""Sign sensing in public: a device names one of the signed sign vectors that suit its ratings best.

A query brings one sign vector or several. Device u's sign in vector a of the item at place j of the pool is bit
``j mod 64`` of lane ``a * sign_words(pool) + j // 64`` of its public stream: 1 for +1, 0 for -1.

A query may bring centres: a rating then counts ``CENTRE_UNIT`` for a like and ``-CENTRE_UNIT`` for a dislike, less its
item's centre.

A device's answer is a signed vector: the bit of its sign first, then the vector's number, highest bit first.
"""

import numpy as np

from coordinator.protocol.amplification import TwoLevels
from coordinator.protocol.arrays import Bits2, Bools, Ints, Words
from coordinator.protocol.errors import InputError
from coordinator.protocol.messages import Query, Release
from coordinator.protocol.public_draws import streams_of
from coordinator.protocol.public_half import PublicHalf
from coordinator.protocol.statistics.scores import ScoreStatistic, score_statistic
from coordinator.protocol.statistics.signs import agreements
from coordinator.protocol.value_channels import ChoiceChannel, choice_channel

MOST_VECTORS = 64


def sign_words(pool: int) -> int:
    """Return how many 64-bit words the signs of ``pool`` items fill in one vector."""
    return -(-pool // 64)


def answer_bits(vectors: int) -> int:
    """Return how many bits name a signed vector of ``vectors``, a power of two."""
    return vectors.bit_length()


def to_bits(positive: Bools, vector: Ints, vectors: int) -> Bits2:
    """Return answers as bits, uint8, shape (devices, answer bits); see `from_bits`."""
    shifts = np.arange(answer_bits(vectors) - 1)[::-1]
    numbers = (vector[:, None] >> shifts) & 1
    return np.concatenate([positive[:, None], numbers], axis=1).astype(np.uint8)


def from_bits(bits: Bits2) -> tuple[Bools, Ints]:
    """Return the sign and the vector's number of every answer."""
    shifts = np.arange(bits.shape[1] - 1)[::-1]
    return bits[:, 0].astype(np.bool_), (bits[:, 1:].astype(np.int64) << shifts).sum(axis=1)


def aggregate_signs(query: Query, release: Release) -> ScoreStatistic:
    """Return the statistic of one block's release, regenerating the signs; see `mechanisms.aggregate`."""
    # ``sensed`` holds the answering devices, for every item of the pool; ``scores`` those of them that named a vector
    # whose sign of the item is +1, so that ``sum_u H_ui S_u = 2 scores - sensed``.
    release.require(query)
    assert query.pool is not None  # a device answers no other
    answered = release.answered_mask()
    agreed = count_agreements(query, streams_of(query, release), release.unpacked(), answered)
    return score_statistic(query, release, np.stack([np.full_like(agreed, answered.sum()), agreed]))


def count_agreements(query: Query, streams: Words, bits: Bits2, answered: Bools) -> Ints:
    """Return how many devices named a vector whose sign of an item is +1, int64, one count an item of the pool."""
    # Shapes: ``streams``, ``answered`` (devices,); ``bits`` (devices, answer bits).
    assert query.pool is not None  # a device answers no other
    positive, vector = from_bits(bits)
    pool = query.pool.size
    return agreements(streams, positive, answered, pool, vector * sign_words(pool))


class Sign(PublicHalf):
    """Signs are those of a pool's items; ratings may be counted from centres."""

    name = "sign"
    parameters = frozenset({"vectors", "kept"})
    pooled = True
    centred = True
    by_address = True

    def check(self, query: Query) -> None:
        vectors, best_count = query.parameters["vectors"], query.parameters["kept"]
        if vectors not in {1 << power for power in range(MOST_VECTORS.bit_length())}:
            raise InputError(f"{query} has {vectors:g} sign vectors; give a power of two, 1 to {MOST_VECTORS}")
        if not (1 <= best_count <= vectors and float(best_count).is_integer()):
            raise InputError(f"{query} keeps {best_count:g} signed vectors; give a whole number, 1 to {vectors:g}")

    def answer_bits(self, query: Query) -> int:
        return answer_bits(int(query.parameters["vectors"]))

    def channel(self, query: Query) -> ChoiceChannel:
        vectors, best_count = int(query.parameters["vectors"]), int(query.parameters["kept"])
        return choice_channel(query.epsilon, choices=2 * vectors, best_count=best_count)

    def levels(self, query: Query) -> TwoLevels | None:
        """Return the levels of the best answers: two inputs may share none, as opposite ratings of the pool do."""
        share = query.parameters["kept"] / (2 * query.parameters["vectors"])
        return TwoLevels(share, share) if query.own_questions else None


PUBLIC = (Sign(),)
