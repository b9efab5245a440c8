"""Exact moments of what the server sees, one function a design; decoders, policies and the planner share them.

A design's function returns a `SketchMoments`, whose fields mean the same for every design that scores items by
``B_i = sum of the answers to the sets that held item i``. A new design is one more function beside
`maxsense_moments`; `subsets.mean_product` is the combinatorial sum such designs have in common.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from coordinator.protocol.arrays import Floats, Ints
from coordinator.protocol.errors import InputError
from coordinator.server.moments.subsets import mean_product

DECODERS = ("paper", "centred")


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockParameters:
    """Parameters of the bipartite stochastic block model, of which the moments are functions.

    Parameters
    ----------
    rated : int
        Items each user rated, w; 1 to N.
    like : array of float, shape (K, L)
        ``like[k, l]``: probability that a user of class k likes an item of cluster l.
    class_shares : array of float, shape (K,)
        Share of the users in each class, alpha; sums to 1.
    cluster_sizes : array of int, shape (L,)
        Number of items in each cluster, each at least 1; they sum to N.

    Raises
    ------
    InputError
        If shapes disagree or a value is outside its range.

    Notes
    -----
    The model of Banerjee, Hegde, Massoulié, *The Price of Privacy in Untrusted Recommendation Engines*, section 2:
    every user rates a uniform w-subset of the items, independently of the ratings' values.
    """

    rated: int
    like: Floats
    class_shares: Floats
    cluster_sizes: Ints

    def __post_init__(self) -> None:
        shape = (self.class_shares.size, self.cluster_sizes.size)
        if self.like.shape != shape:
            raise InputError(f"like has shape {self.like.shape}; (classes, clusters) asks for shape {shape}")
        if not bool(np.all((self.like >= 0) & (self.like <= 1))):
            raise InputError(f"like = {self.like.tolist()} holds a value outside 0 to 1; give probabilities")
        if not (bool(np.all(self.class_shares >= 0)) and abs(float(self.class_shares.sum()) - 1) < 1e-9):
            raise InputError(f"class_shares = {self.class_shares.tolist()}; give shares >= 0 that sum to 1")
        if self.cluster_sizes.size == 0 or int(self.cluster_sizes.min()) < 1:
            raise InputError(f"cluster_sizes = {self.cluster_sizes.tolist()}; leave out clusters without items")
        if not 1 <= self.rated <= self.items:
            raise InputError(f"rated = {self.rated}; each user rates 1 to {self.items} of the {self.items} items")

    @property
    def items(self) -> int:
        """Number of items, N."""
        return int(self.cluster_sizes.sum())


@dataclass(frozen=True, slots=True, kw_only=True)
class SketchMoments:
    """Moments of one design's answers and of the item scores ``B_i = sum_u H_ui S_u``.

    Parameters
    ----------
    sensing : float
        Expected number of a user's sensing sets that hold a given item; for MaxSense the sensing probability p.
    epsilon : float
        Privacy parameter of one answer [nats]; ``math.inf`` without noise.
    private_rate : float
        ``P(S0 = 1)``, the rate of the private bit.
    answer_rate : float
        ``q = P(S = 1)``, the rate of the released bit.
    effect : array of float, shape (L,)
        ``P(S = 1 | i sensed, C(i) = l) - q``, computed without subtracting, so that it is exact for large N too.
    noise_paper, noise_centred : float
        Variance that one user adds to one item's score, around shifts common to all items, for the decoder that
        sums ``H S`` and the one that sums ``H (S - mean S)``.
    """

    sensing: float
    epsilon: float
    private_rate: float
    answer_rate: float
    effect: Floats
    noise_paper: float
    noise_centred: float

    @property
    def profile(self) -> Floats:
        """What answers without noise tell of each cluster's items, one row a cluster."""
        return self.effect[:, None]

    @property
    def given_sensed(self) -> Floats:
        """``P(S = 1 | i sensed, C(i) = l)``, shape (L,)."""
        return self.answer_rate + self.effect

    def expected_score(self, users: int, decoder: str) -> Floats:
        """Give the expected score of an item of each cluster.

        Parameters
        ----------
        users : int
            Answers received, U.
        decoder : {"paper", "centred"}
            Score ``sum H S``, or ``sum H (S - mean S)`` with the mean of the same U answers.

        Returns
        -------
        array of float, shape (L,)
            ``U p P(S = 1 | i sensed)``; centred ``(U - 1) p (P(S = 1 | i sensed) - q)``.
        """
        if _checked(users, decoder) == "paper":
            return users * self.sensing * self.given_sensed
        return (users - 1) * self.sensing * self.effect

    def score_deviation(self, users: int, decoder: str) -> float:
        """Give the standard deviation of an item's score, around shifts common to all items.

        Arguments as `expected_score`. For MaxSense ``sqrt(U p (1-p) q)``; centred ``sqrt(U p (1-p) q (1-q))``.
        """
        noise = self.noise_paper if _checked(users, decoder) == "paper" else self.noise_centred
        return math.sqrt(users * noise)

    def estimate_deviation(self, users: int, decoder: str) -> float:
        """Give the standard deviation of ``B_i / (U p)``, which estimates ``P(S = 1 | i sensed)`` up to a shift.

        Arguments as `expected_score`. For MaxSense ``sqrt(q (1-p) / (U p))``; centred ``sqrt(q (1-q) (1-p) / (U p))``.
        """
        return self.score_deviation(users, decoder) / (users * self.sensing)


def maxsense_moments(parameters: BlockParameters, *, sensing: float, epsilon: float) -> SketchMoments:
    """Give the exact moments of MaxSense.

    Parameters
    ----------
    parameters : BlockParameters
        The block model.
    sensing : float
        Sensing probability ``p = theta / w`` of each item, strictly between 0 and 1.
    epsilon : float
        Privacy parameter of the released bit [nats], above 0; ``math.inf`` releases the private bit.

    Returns
    -------
    SketchMoments
        Rates exact for finite N and w. Noise to leading order: the sensing of one item and the answer are treated
        as independent, which leaves out a share of the variance of the order of ``effect / (q (1 - q))``.

    Raises
    ------
    InputError
        If ``sensing`` or ``epsilon`` is out of range.

    Notes
    -----
    MaxSense is Fig. 2 of Banerjee, Hegde, Massoulié. With ``Q_k(set)`` the mean over k-subsets of the product of
    ``1 - p b_j``, the private bit is 0 with probability ``Q_w(all) = (1 - w/N) Q_w(all but i)
    + (w/N) (1 - p b_l) Q_{w-1}(all but i)``, and, given that i of cluster l is sensed, with the same sum but
    ``1 - b_l``: so the two differ by ``(w/N) (1 - p) b_l Q_{w-1}(all but i)``, averaged over the user classes.

    Examples
    --------
    >>> model = BlockParameters(
    ...     rated=1,
    ...     like=np.array([[1.0, 0.0]]),
    ...     class_shares=np.array([1.0]),
    ...     cluster_sizes=np.array([1, 1]),
    ... )
    >>> moments = maxsense_moments(model, sensing=0.5, epsilon=math.inf)
    >>> round(moments.answer_rate, 12), moments.given_sensed.round(12).tolist()
    (0.25, [0.5, 0.25])
    """
    if not 0 < sensing < 1:
        raise InputError(f"sensing probability {sensing} must lie strictly between 0 and 1; choose theta below w")
    if not epsilon > 0:
        raise InputError(f"epsilon = {epsilon} must be above 0; use inf for answers without noise")
    rated, sizes, like = parameters.rated, parameters.cluster_sizes, parameters.like
    silent, pivotal = 0.0, np.zeros(sizes.size)
    for share, row in zip(parameters.class_shares.tolist(), like, strict=True):
        factors = 1 - sensing * row
        silent += share * mean_product(factors, sizes, rated)
        for cluster in range(sizes.size):
            others = sizes - (np.arange(sizes.size) == cluster)
            pivotal[cluster] += share * row[cluster] * mean_product(factors, others, rated - 1)
    contrast = math.tanh(epsilon / 2)
    rate = 0.5 + contrast / 2 - contrast * silent
    spread = sensing * (1 - sensing) * rate
    return SketchMoments(
        sensing=sensing,
        epsilon=epsilon,
        private_rate=1 - silent,
        answer_rate=rate,
        effect=contrast * (rated / parameters.items) * (1 - sensing) * pivotal,
        noise_paper=spread,
        noise_centred=spread * (1 - rate),
    )


def _checked(users: int, decoder: str) -> str:
    """Return the decoder's name, after checking it and the number of users."""
    if decoder not in DECODERS:
        raise InputError(f"decoder {decoder!r} is unknown; choose one of {', '.join(DECODERS)}")
    if users < 1:
        raise InputError(f"users = {users}; give at least 1")
    return decoder
