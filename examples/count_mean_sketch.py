"""Count mean sketch: a frequency oracle whose statistic does not grow with the number of items (Apple, 2017).

A device takes one random rated item, liked or disliked. A public hash, which its public coin chooses among many, sends
that to one of a few buckets; the device releases the bucket as a row of bits, each flipped with probability
``1 / (1 + exp(epsilon / 2))``. The server adds bits up by hash and bucket, and reads every item from its buckets.
"""

import math

import numpy as np
import numpy.typing as npt

from blindrec import Catalogue, CoinsBlock, Mechanism, Question, RatingsBlock, Tally, independent_bits

PRIME = 2**31 - 1
CONSTANTS = 2**40
"""Public coins from this address on make the hashes; no device has it."""

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class CountMeanSketch(Mechanism):
    """A bit for every bucket, about one hashed item."""

    hashes: int = 4096
    buckets: int = 32

    def query(self, catalogue: Catalogue) -> Question:  # noqa: ARG002 (the answer is as long for any catalogue)
        """Ask for a bit of every bucket."""
        return Question(bits=self.buckets)

    def keeps(self, question: Question) -> float:
        """Return how probably a bit is told as it is: two bits tell buckets apart, each for half of epsilon."""
        return 1 / (1 + math.exp(-question.nats / 2))

    def channel(self, question: Question):  # type: ignore[no-untyped-def]
        """Flip every bit."""
        keep = self.keeps(question)
        return independent_bits(count=question.bits, if_one=keep, if_zero=1 - keep, epsilon=question.epsilon, ones=1)

    def chosen(self, question: Question, devices: Ints) -> Ints:
        """Return which hash each device uses."""
        return (question.public_streams(devices) % np.uint64(self.hashes)).astype(np.int64)

    def bucket(self, question: Question, chosen: Ints, value: Ints) -> Ints:
        """Return the bucket of each value under the chosen hash: ``(a value + b) mod PRIME mod buckets``."""
        coins = question.public_streams(CONSTANTS + np.arange(2 * self.hashes)) % np.uint64(PRIME - 1)
        slope, offset = coins.astype(np.int64).reshape(2, -1)
        found: Ints = ((slope[chosen] + 1) * (value + 1) + offset[chosen]) % PRIME % self.buckets
        return found

    def sketch(self, question: Question, ratings: RatingsBlock, coins: CoinsBlock) -> npt.NDArray[np.uint8]:
        """Return the bucket of one random rated item as a row of bits; who rated nothing takes any bucket."""
        item, liked = ratings.random_item(coins.words())
        value = np.where(item >= 0, item + question.items * ~liked, 0).astype(np.int64)
        bucket = self.bucket(question, self.chosen(question, ratings.devices), value)
        anywhere = (coins.words(1) % np.uint64(self.buckets)).astype(np.int64)
        row: npt.NDArray[np.bool_] = np.where(item >= 0, bucket, anywhere)[:, None] == np.arange(self.buckets)
        return row.astype(np.uint8)

    def count(self, question: Question, released: npt.NDArray[np.uint8], devices: Ints) -> Ints:
        """Add the bits up by hash and bucket."""
        device, bucket = np.nonzero(released)
        places = self.chosen(question, devices)[device] * self.buckets + bucket
        return np.bincount(places, minlength=self.hashes * self.buckets).astype(np.int64)

    def estimate(self, question: Question, tally: Tally) -> tuple[Floats, Floats]:
        """Return how much more each item is liked than disliked: the mean over hashes of its buckets, without noise."""
        keep, table = self.keeps(question), tally.sums.reshape(self.hashes, self.buckets)
        rows, values = np.arange(self.hashes), np.arange(2 * question.items)
        told = np.array([table[rows, self.bucket(question, rows, np.full(rows.size, v))].sum() for v in values])
        share, scale = told / tally.devices, self.buckets / (self.buckets - 1) / (2 * keep - 1)
        liked, disliked = (scale * (share - (1 - keep) - (2 * keep - 1) / self.buckets)).reshape(2, -1)
        noise = scale * np.sqrt((share * (1 - share)).reshape(2, -1).sum(axis=0) / tally.devices)
        return question.items * (liked - disliked), question.items * noise
