"""Laws of the sums of devices' answers: what an experimenter draws in the place of answers of one device each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias

import numpy as np

from coordinator.protocol.arrays import Floats, Floats2, Indices, Ints
from coordinator.protocol.errors import InputError
from coordinator.protocol.moments.blocks import BlockParameters
from coordinator.protocol.moments.count_moments import likes_of
from coordinator.protocol.moments.probabilities import hypergeometric_masses
from coordinator.protocol.statistics.statistic import Statistic

Weight: TypeAlias = Callable[[Floats], Floats]
"""Takes numbers of items that people like, or rated; returns a number for each of them, or a row of numbers."""


@dataclass(frozen=True, slots=True)
class Law:
    """The law of the sum of the answers to one query.

    Attributes
    ----------
    draw : callable
        Takes a number of devices and a random generator; returns the sum of their answers, drawn.
    """

    draw: Callable[[int, np.random.Generator], Statistic]


class People(Protocol):
    """The people whom devices are drawn from, as laws see them: means over people, exact, and no person's ratings.

    `BlockPeople` are those of a block model, and `scenarios.data.people.FilePeople` those of a file.
    An InputError says that a mean of these people has no formula.
    """

    @property
    def classes(self) -> Sequence[tuple[float, Floats]]:
        """The share of each class of a block model, and how its users like each item, shape (M,); none of a file."""

    @property
    def rated(self) -> int:
        """Items w that every user of a block model rated."""

    def among(self, pool: Indices | None) -> People:
        """Return the same people as if a pool's M items, by default all, were all there are; items are its places."""

    def likes(self, weight: Weight) -> Floats:
        """Return the mean over people of a weight of how many items a person likes."""

    def likers(self, weight: Weight) -> Floats:
        """Return the mean of a weight of it where a person likes an item, and of 0 elsewhere, shape (M,)."""

    def raters(self, weight: Weight) -> tuple[Floats, Floats]:
        """Return the mean of a weight of how many items a person rated, where it likes and where it dislikes each."""

    def pairs(self, weight: Weight) -> Floats:
        """Return the mean of a weight of how many items a person likes where it likes both of a pair, and of 0.

        Pairs are in the order of an upper triangle's rows, shape (M (M - 1) / 2,).
        """

    def pair_signs(self, centres: Indices, unit: int) -> Floats:
        """Return how much more often than not a device's sign is that of each pair; see `mechanisms.anchor`."""

    def totals(self, most: int, users: int, coins: np.random.Generator) -> Floats:
        """Draw how many people like each item if at most so many random likes of each person count; shape (M,)."""

    def pair_totals(self, most: int, users: int, coins: np.random.Generator) -> Floats2:
        """Draw how many like both of two items, or one of them on the diagonal, likewise; shape (M, M)."""


@dataclass(frozen=True, slots=True)
class BlockPeople:
    """Users who all rated as many items, and like those of a cluster alike."""

    like: Floats2  # shape (K, L); Probability that a user of each class likes an item of each cluster
    class_shares: Floats  # shape (K,)
    sizes: Ints  # shape (L + 1,); Items of each cluster that count, and items that do not
    rated: int  # Number of items w that every user rated, whether they count or not
    clusters: Indices  # shape (M,); The cluster of every item that counts

    @classmethod
    def of(cls, block: BlockParameters, clusters: Indices | None = None) -> BlockPeople:
        """Return the users of a block model; by default one item stands for each cluster, shape (L,)."""
        sizes = np.append(block.cluster_sizes, 0)
        names = np.arange(block.cluster_sizes.size, dtype=np.int32) if clusters is None else clusters
        return cls(block.like, block.class_shares, sizes, block.rated, names)

    @property
    def classes(self) -> Sequence[tuple[float, Floats]]:
        """The share of each class, and how much its users like each item."""
        return [(share, like[self.clusters]) for share, like in zip(self.class_shares, self.like, strict=True)]

    def among(self, pool: Indices | None) -> BlockPeople:
        """Return the same users with only the ratings of a pool's items."""
        if pool is None or pool.size == self.clusters.size:
            return self
        clusters = self.clusters[pool]
        inside = np.bincount(clusters, minlength=self.sizes.size - 1)
        return replace(self, sizes=np.append(inside, self.sizes.sum() - inside.sum()), clusters=clusters)

    def _means(self, weight: Weight, liked: Sequence[int]) -> list[Any]:
        """Return each class's mean weight of the number of likes, given that it likes items of some clusters."""
        sizes, count = self.sizes - np.bincount(liked, minlength=self.sizes.size), len(liked)
        weights = weight(np.arange(count, self.rated + 1.0))
        return [likes_of(np.append(like, 0.0), sizes, self.rated - count) @ weights for like in self.like]

    def likes(self, weight: Weight) -> Floats:
        """Return the mean of a weight of how many items a user likes."""
        return np.asarray(np.tensordot(self.class_shares, np.array(self._means(weight, ())), 1))

    def likers(self, weight: Weight) -> Floats:
        """Return the mean of it where a user likes an item, and of 0 elsewhere."""
        means = np.zeros(self.sizes.size)
        for cluster in np.unique(self.clusters).tolist():
            of_classes = self._means(weight, (cluster,))
            for share, like, mean in zip(self.class_shares.tolist(), self.like[:, cluster], of_classes, strict=True):
                means[cluster] += share * like * float(mean)
        of_items: Floats = (means * self.rated / self.sizes.sum())[self.clusters]
        return of_items

    def raters(self, weight: Weight) -> tuple[Floats, Floats]:
        """Return the mean of a weight of how many items a user rated where it likes an item, and where it does not."""
        items, inside = int(self.sizes.sum()), int(self.sizes[:-1].sum())
        others, shares = hypergeometric_masses(items - 1, inside - 1, self.rated - 1)
        mean = float(shares @ weight(np.arange(others + 1.0, others + shares.size + 1.0))) * self.rated / items
        liked: Floats = (self.class_shares @ self.like)[self.clusters]
        return liked * mean, (1 - liked) * mean

    def pairs(self, weight: Weight) -> Floats:
        """Return the mean of a weight of how many items a user likes where it likes both of a pair."""
        items, count = int(self.sizes.sum()), self.sizes.size - 1
        means = np.zeros((count, count))
        for low in range(count if self.rated > 1 else 0):
            for high in range(low, count):
                if min(self.sizes[low] - (low == high), self.sizes[high]) < 1:
                    continue  # no pair of such items counts
                of_classes = self._means(weight, (low, high))
                both = self.class_shares * self.like[:, low] * self.like[:, high] * of_classes
                means[low, high] = means[high, low] = both.sum()
        rows, columns = np.triu_indices(self.clusters.size, 1)
        rate = self.rated * (self.rated - 1) / (items * max(items - 1, 1))
        of_pairs: Floats = rate * means[self.clusters[rows], self.clusters[columns]]
        return of_pairs

    def pair_signs(self, centres: Indices, unit: int) -> Floats:  # noqa: ARG002 (the same whatever they are)
        """Refuse: signs of pairs have no law in a block model but for two classes, which `pair_contrast` has."""
        raise InputError("signs of pairs have no law in a block model; let devices answer")

    def totals(self, most: int, users: int, coins: np.random.Generator) -> Floats:
        """Draw how many users like each item if at most so many likes of each user count."""
        chances = self.likers(lambda likes: np.minimum(1.0, most / likes))
        return coins.binomial(users, np.clip(chances, 0, 1)).astype(np.float64)

    def pair_totals(self, most: int, users: int, coins: np.random.Generator) -> Floats2:
        """Draw how many like both of two items, each pair apart."""
        size = self.clusters.size

        def counted(likes: Floats) -> Floats:
            pairs: Floats = likes * (likes - 1)
            return np.minimum(1, most * (most - 1) / np.maximum(pairs, 1))

        both = self.pairs(counted)
        gram = np.zeros((size, size))
        gram[np.triu_indices(size, 1)] = coins.binomial(users, np.clip(both, 0, 1))
        return gram + gram.T + np.diag(self.totals(most, users, coins))
