"""How far one liar moves each of r items that it promotes, exactly: one function for each kind of sketch.

A shift is the mean of a liar's contribution to a promoted item's estimate, less that to another item's; honest devices
contribute their cluster's level. Spec: s(r) of "Lying devices", section 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy

from actors.lying.lies import ANSWERS, SKETCHES
from coordinator.protocol.channels import bit_channel
from coordinator.protocol.channels.oracles import CHOSEN, PADDED
from coordinator.protocol.mechanisms.oracles import BUCKETS, ROWS, pool_size, values_of
from coordinator.protocol.messages import Query
from coordinator.server.decoding.count_decoding import Rates
from coordinator.server.moments.sign_moments import sign_contrast

DRAWS = 40_000
"""Draws of the fullest bucket's share, which has no short formula."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What a shift follows from."""

    query: Query  # Of one round about all items
    rated: int  # Items w that a device rated
    makes_up: str  # What liars make up; see `actors.lying.lies.Collusion`

    def reach(self, promoted: int) -> float:
        """Return the share of the promoted items that one liar claims to like: all, or as many as it may have rated."""
        return min(1.0, self.rated / promoted)


def sign_shift(inputs: Given, promoted: int) -> float:
    """Return s(r) of sign sensing, in units of the answer's sign.

    Examples
    --------
    With pools of all items ``C(r - 1, floor((r - 1) / 2)) / 2^(r - 1)``: .246 for 10 items.
    """
    query = inputs.query
    vectors, best_count, epsilon = int(query.parameters["vectors"]), int(query.parameters["kept"]), query.epsilon
    if inputs.makes_up == ANSWERS:
        best_count, epsilon = 1, None
    own = promoted if inputs.makes_up in (ANSWERS, SKETCHES) else inputs.rated
    one = sign_contrast(own, items=own, rated=own, vectors=vectors, best_count=best_count, epsilon=epsilon)
    if inputs.makes_up in (ANSWERS, SKETCHES):
        return one
    some, rest = min(inputs.rated, promoted), inputs.query.items - promoted
    return one * (some / promoted + (inputs.rated - some) / max(rest, 1))


def sets_shift(inputs: Given, promoted: int) -> float:
    """Return s(r) of MaxSense, in units of ``P(S = 1 | item sensed) - P(S = 1)``."""
    sensing = inputs.query.parameters["sensing"]
    contrast = 1.0 if inputs.makes_up == ANSWERS else bit_channel(inputs.query.epsilon).contrast
    if inputs.makes_up in (ANSWERS, SKETCHES):
        counts = np.arange(promoted + 1)
        mean = sensing * promoted
        excess = float(np.where(counts > mean, counts - mean, 0) @ scipy.stats.binom.pmf(counts, promoted, sensing))
        return contrast * excess / mean
    some = min(promoted, inputs.rated)
    return contrast * (1 - sensing) ** some * inputs.reach(promoted)


def parts_shift(inputs: Given, promoted: int) -> float:
    """Return s(r) of Multi-MaxSense: sets have a fixed size, so that another item's presence leaves less room."""
    query = inputs.query
    size, items = int(query.parameters["set_size"]), query.items
    contrast = 1.0 if inputs.makes_up == ANSWERS else bit_channel(query.epsilon_per_question).contrast
    if inputs.makes_up in (ANSWERS, SKETCHES):
        most = size * promoted // items  # the answer is 1 if the set holds more of the promoted items
        with_one = scipy.stats.hypergeom.sf(most - 1, items - 1, promoted - 1, size - 1)
        without = scipy.stats.hypergeom.sf(most, items - 1, promoted, size - 1)
        return contrast * float(with_one - without)
    some = min(promoted, inputs.rated)
    return contrast * float(scipy.stats.hypergeom.pmf(0, items - 1, some, size - 1)) * inputs.reach(promoted)


def values_shift(inputs: Given, promoted: int, rates: Rates) -> float | None:
    """Return s(r) of a frequency oracle that is told what devices liked, in units of shares of the devices."""
    query, design = inputs.query, inputs.query.design
    if inputs.makes_up == ANSWERS:
        support = _support(query, promoted, rates)
        return None if support is None else (support[0] - support[1]) / rates.contrast
    if design == "set":
        return min(promoted, inputs.rated, int(query.parameters[PADDED])) / promoted
    if inputs.makes_up == SKETCHES and (codes := _codes(query)):
        return (_fullest(promoted, codes) - 1 / codes) / (1 - 1 / codes)
    return 1 / promoted


def _support(query: Query, promoted: int, rates: Rates) -> tuple[float, float] | None:
    """Return how often a liar's report speaks for a promoted item, and for another one."""
    design = query.design
    if codes := _codes(query):
        return _fullest(promoted, codes), 1 / codes
    if design == "grr":
        return 1 / promoted, 0.0
    if design == "oue":
        return 1.0, rates.others
    if design in ("subset", "set"):
        subset_size = int(query.parameters[CHOSEN])
        values = values_of(query) if design == "subset" else pool_size(query) + int(query.parameters[PADDED])
        promoted_inside = min(subset_size, promoted)
        return promoted_inside / promoted, (subset_size - promoted_inside) / (values - promoted)
    return None


def _codes(query: Query) -> int:
    """Return the number of codes that public coins give to values, 0 where values are told by themselves."""
    if query.design == "olh":
        return int(query.parameters[BUCKETS])
    return 1 << int(query.parameters[ROWS]) if query.design == "hadamard" else 0


@lru_cache(maxsize=1024)
def _fullest(balls: int, buckets: int) -> float:
    """Return the expected share of so many balls in the fullest bucket."""
    thrown = np.random.default_rng(0).multinomial(balls, np.full(buckets, 1 / buckets), size=DRAWS)
    return float(thrown.max(axis=1).mean()) / balls
