"""Checking a mechanism's channel against the epsilon that it claims, before any device is asked."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from coordinator.protocol.admitted import UNCHECKED, Own, OwnPublic, hold, question_of
from coordinator.protocol.budget import Epsilon, as_float
from coordinator.protocol.channels import Likelihood, LogRatio
from coordinator.protocol.guarding import guarded
from coordinator.protocol.messages import Query
from coordinator.protocol.own import MechanismError
from scenarios.own.drawing import complaint_about_sampler

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
