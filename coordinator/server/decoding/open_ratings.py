"""Decoders of open ratings: shares of likes, and the trusted curator's noisy totals."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from coordinator.protocol.budget import Epsilon
from coordinator.protocol.messages import Model
from coordinator.server.decoding.curator import (
    item_sensitivity,
    noisy_symmetric,
    noisy_totals,
    pair_sensitivity,
)
from coordinator.server.decoding.line import kmeans_on_line
from coordinator.server.decoding.spectral import decode_affinity
from coordinator.server.statistics.pairs import PairStatistic
from coordinator.server.statistics.scores import ScoreStatistic


@dataclass(frozen=True, slots=True, kw_only=True)
class Curator:
    """A trusted curator, who sees ratings and publishes a model under ``epsilon``-differential privacy of one user."""

    epsilon: Epsilon  # Privacy parameter of everything that is published [nats]; None for no noise
    rated: int  # Most ratings w of a user, to which the noise of totals is scaled
    seed: bytes = field(repr=False)  # Sixteen bytes that key the curator's own coins, which nobody else knows


def decode_shares(statistic: ScoreStatistic, *, clusters: int) -> Model:
    """Cluster items by the share of likes among their known ratings; an item without any gets the mean of all."""
    seen, liked = statistic.sensed, statistic.scores
    everywhere = liked.sum() / max(1, seen.sum())
    share = np.where(seen > 0, liked / np.maximum(seen, 1), everywhere)
    smooth = (liked + 1) / (seen + 2)
    error = np.sqrt(smooth * (1 - smooth) / np.maximum(seen, 1))
    return Model(cluster=kmeans_on_line(share, clusters), score=share, error=error, clusters=clusters)


def decode_item_totals(statistic: ScoreStatistic, curator: Curator, *, clusters: int) -> Model:
    """Cluster items by the curator's noisy totals of likes less dislikes; nothing else about users is published."""
    sensitivity = item_sensitivity(curator.rated)
    totals = 2 * statistic.scores - statistic.sensed
    noisy, noise = noisy_totals(totals, epsilon=curator.epsilon, sensitivity=sensitivity, seed=curator.seed)
    # the error of the noise alone: that of sampling depends on the private number of users
    error = math.sqrt(noise.variance)
    return Model(
        cluster=kmeans_on_line(noisy, clusters), score=noisy, error=np.full(totals.size, error), clusters=clusters
    )


def decode_pair_totals(statistic: PairStatistic, curator: Curator, *, clusters: int) -> Model:
    """Cluster items by the spectrum of the curator's noisy totals of agreements less disagreements about pairs."""
    sensitivity = pair_sensitivity(curator.rated)
    totals = 2 * statistic.agreed - statistic.pairs
    noisy, noise = noisy_symmetric(totals, epsilon=curator.epsilon, sensitivity=sensitivity, seed=curator.seed)
    return decode_affinity(noisy, clusters=clusters, error=math.sqrt((len(totals) - 1) * noise.variance))
