"""What crosses in the two-tier model: one question to a private device, and its one second-order release."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass, field

import numpy as np

from coordinator.protocol.arrays import Floats, Floats2, Words
from coordinator.protocol.budget import Epsilon, as_float, require_epsilon
from coordinator.protocol.candidates import candidate
from coordinator.protocol.checked import (
    LARGEST,
    MOST_DEVICES,
    Checked,
    require_bytes,
    require_name,
    require_truth,
    require_whole,
)
from coordinator.protocol.coins import as_words
from coordinator.protocol.errors import InputError
from coordinator.protocol.features import ItemFeatures
from coordinator.protocol.payloads import check_payload, moment_channel
from coordinator.protocol.second_order_mechanisms import MECHANISMS, check_mechanism

MOST_CANDIDATES = 255
"""Ratings that PMD chooses from at most: a place is one byte."""
MOST_DIRECTIONS = 512
"""Rank of a model at most for a mechanism that tells moments of its directions: 131,328 numbers a device."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SecondOrderQuery(Checked):
    """What the server asks of private devices, once; all of it is public.

    Attributes
    ----------
    model : bytes
        `ItemFeatures.digest` of the one model that devices complete their vectors with; announced before anyone
        answers, and the only one that a device will ever answer.
    mechanism : str
        One of `MECHANISMS`.
    epsilon : Fraction or None
        The mechanism's privacy parameter [nats]; None where it has none.
    batch : int
        Which batch of devices, from 0.
    own_h : bool
        PMC: the device releases its own h instead of the public one, in full precision; nothing is private then.
    """

    model: bytes
    mechanism: str
    epsilon: Epsilon = None
    batch: int = 0
    own_h: bool = False

    def check(self) -> None:
        """Refuse what no device could answer; see `Checked.check`."""
        require_bytes("model", self.model, 16)
        require_name("mechanism", self.mechanism)
        require_epsilon(self.epsilon)
        require_whole("batch", self.batch, 0, MOST_DEVICES)
        require_truth("own_h", self.own_h)
        check_mechanism(self.mechanism, self.epsilon)
        if self.own_h and not self.mechanism.startswith("pmc"):
            raise InputError(f"own_h is True, which is about pmc; the mechanism is {self.mechanism}, leave it out")

    @property
    def id(self) -> bytes:
        """Sixteen bytes: digest of the whole content, computed at each look."""
        content = {
            "kind": "second-order",
            "model": self.model.hex(),
            "mechanism": self.mechanism,
            "epsilon": None if self.epsilon is None else str(self.epsilon),
            "batch": self.batch,
            "own_h": self.own_h,
        }
        return hashlib.blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=16).digest()

    @property
    def words(self) -> Words:
        """The id as two 64-bit words, as coins are keyed."""
        return as_words(self.id)

    def require(self, features: ItemFeatures) -> None:
        """Refuse a model that is not the one the query names, or that the mechanism cannot be used with.

        Raises
        ------
        InputError
        """
        if features.digest != self.model:
            raise InputError(
                f"model {features.digest.hex()[:8]} is not the announced one, {self.model.hex()[:8]}; send that one"
            )
        kind, levels = MECHANISMS[self.mechanism], len(features.scale or ())
        if kind.needs_scale and not 2 <= levels <= MOST_CANDIDATES:
            raise InputError(
                f"scale is {features.scale}; {self.mechanism} needs at least K = 2 ratings to choose from, and at most "
                f"{MOST_CANDIDATES}, give such a scale"
            )
        if kind.moment and not 1 <= features.rank <= MOST_DIRECTIONS:
            raise InputError(
                f"rank is {features.rank}; {self.mechanism} is about directions, give 1 to {MOST_DIRECTIONS}"
            )
        if kind.needs_range and not features.highest - features.lowest >= 1 / LARGEST:
            raise InputError(f"all ratings are {features.lowest:g}; {self.mechanism} divides by their range")


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondOrderRelease(Checked):
    """The one thing that a private device ever lets out.

    Attributes
    ----------
    query_id : bytes
        Which query it answers.
    device : int
        Public address of the device.
    mechanism : str
        As in the query.
    payload : bytes
        ``pmc``, ``pmc-rr`` and ``sslp``: m signs, packed, 1 for plus, most significant bit first; with ``own_h`` then
        h, little-endian float64. ``pmd``: m places in the scale S, uint8. ``laplace`` and ``exact``: m numbers in the
        scale of the ratings, little-endian float64. ``privunit``: ``2 v`` for the device's public candidate v, or
        ``2 v + 1`` for its opposite, little-endian uint16; over the channel's length it is an unbiased estimate of
        the ``r (r + 1) / 2`` numbers of `pack_moment`.
    """

    query_id: bytes
    device: int
    mechanism: str
    payload: bytes = field(repr=False)

    def check(self) -> None:
        """Refuse what is no release of any mechanism; see `Checked.check`."""
        require_bytes("query id", self.query_id, 16)
        require_whole("device", self.device, 0, MOST_DEVICES)
        if require_name("mechanism", self.mechanism) not in MECHANISMS:
            raise InputError(f"mechanism is {self.mechanism!r}; choose one of {', '.join(MECHANISMS)}")
        if type(self.payload) is not bytes:
            raise InputError(f"payload is a {type(self.payload).__name__}; it must be bytes")

    def as_vector(self, features: ItemFeatures, query: SecondOrderQuery, *, rescale: bool = True) -> Floats:
        """Return the row z whose ``z z^T`` the server adds to its second moment of residuals, float64, shape (m,).

        Parameters
        ----------
        features : ItemFeatures
            The model that was answered.
        query : SecondOrderQuery
            What was asked.
        rescale : bool
            PMD: bring every coordinate to the public users' energy, see `pmd_factors`; False is the paper's x - mu.

        Raises
        ------
        InputError
            If this is no release of the query, or not a vector.
        """
        self.require(query, features)
        if self.mechanism == "pmd":
            levels = np.array(features.scale, np.float64)
            row: Floats = levels[np.frombuffer(self.payload, np.uint8)] - features.mean
            return row * pmd_factors(features) if rescale else row
        if self.mechanism in ("laplace", "exact"):
            told: Floats = np.frombuffer(self.payload, "<f8") - features.mean
            return told
        bits = np.unpackbits(np.frombuffer(self.payload, np.uint8), count=features.items)
        signs = bits.astype(np.float64) * 2.0 - 1.0
        if self.mechanism == "sslp":
            return signs * sslp_bound(features, query.epsilon)
        own = float(np.frombuffer(self.payload[-8:], "<f8")[0]) if query.own_h else features.common_h
        return signs * own

    def as_moment(self, features: ItemFeatures, query: SecondOrderQuery) -> Floats2:
        """Return the released r x r moment of directions, symmetric; mechanisms with `Mechanism.moment` only.

        Raises
        ------
        InputError
            If this is no release of the query, or not a moment.
        """
        self.require(query, features)
        return unpack_moment(self._told_moment(features, query), features.rank)

    def _told_moment(self, features: ItemFeatures, query: SecondOrderQuery) -> Floats:
        """Return the unbiased estimate that a named candidate stands for, as `pack_moment`."""
        channel, answer = moment_channel(features, query.epsilon), int.from_bytes(self.payload, "little")
        told = candidate(query.id, self.device, answer // 2, channel.dimension) / channel.length
        return -told if answer % 2 else told

    def require(self, query: SecondOrderQuery, features: ItemFeatures) -> None:
        """Raise InputError if this is no release of ``query`` about ``features``, or its payload is none."""
        if self.query_id != query.id or self.mechanism != query.mechanism:
            raise InputError(f"release of query {self.query_id.hex()[:8]} is no answer to {query.id.hex()[:8]}")
        check_payload(self.payload, query.mechanism, features, epsilon=query.epsilon, own_h=query.own_h)


def pmd_factors(features: ItemFeatures) -> Floats:
    """Return what brings PMD's coordinates to public energy: common h over ``(E (x - mu)^2)^(1/2)``, x uniform on S.

    Returns
    -------
    ndarray of float64, shape (m,)
    """
    scale = np.array(features.scale, np.float64)
    energy = scale.var() + np.square(scale.mean() - features.mean)
    factors: Floats = features.common_h / np.sqrt(energy)
    return factors


def sslp_clip(features: ItemFeatures) -> float:
    """Return M, half the width of the range of ratings: SSLP clips residuals to ``[-M, M]``."""
    return (features.highest - features.lowest) / 2


def sslp_bound(features: ItemFeatures, epsilon: Epsilon) -> float:
    """Return B, the size of SSLP's coordinates that makes the release unbiased (Duchi, Jordan and Wainwright, 2013).

    ``B = M (e^eps + 1) / (e^eps - 1) 2^(m - 1) / binom(m - 1, floor(m / 2))``, M of `sslp_clip`; what is estimated is
    the clipped vector.
    """
    count, half = features.items, features.items // 2
    log_central = (count - 1) * math.log(2) - (math.lgamma(count) - math.lgamma(half + 1) - math.lgamma(count - half))
    return sslp_clip(features) / math.tanh(as_float(epsilon) / 2) * math.exp(log_central)


def basis_of(features: ItemFeatures) -> Floats2:
    """Return the model's own directions: V's columns, which are orthogonal, at length 1, shape (m, r); 0 stays 0."""
    lengths = np.sqrt(np.square(features.vectors).sum(axis=0))
    return features.vectors / np.where(lengths > 0, lengths, 1.0)


def pack_moment(moment: Floats2) -> Floats:
    """Return the lower triangle of a symmetric matrix with its inner product: off the diagonal times sqrt(2)."""
    rows, columns = np.tril_indices(moment.shape[0])
    packed: Floats = moment[rows, columns] * np.where(rows == columns, 1.0, math.sqrt(2))
    return packed


def unpack_moment(packed: Floats, rank: int) -> Floats2:
    """Return the symmetric matrix behind `pack_moment`, shape (r, r)."""
    rows, columns = np.tril_indices(rank)
    moment = np.zeros((rank, rank))
    moment[rows, columns] = packed / np.where(rows == columns, 1.0, math.sqrt(2))
    moment[columns, rows] = moment[rows, columns]
    return moment
