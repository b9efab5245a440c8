"""Exact moments of Multi-MaxSense: several sensing sets a user, cut from one random partition of the items."""

from __future__ import annotations

import math

import numpy as np

from coordinator.protocol.arrays import Floats
from coordinator.protocol.errors import InputError
from coordinator.server.moments.blocks import BlockParameters, SketchMoments
from coordinator.server.moments.subsets import mean_product_in_a_set


def multi_maxsense_moments(
    parameters: BlockParameters, *, set_size: int, questions: int, epsilon: float
) -> SketchMoments:
    """Give the exact moments of Multi-MaxSense.

    Parameters
    ----------
    parameters : BlockParameters
        The block model.
    set_size : int
        Items in a sensing set, s; 1 to N.
    questions : int
        Sets that each user is asked about, Q: the first Q of a uniformly random ordered partition of the items;
        at most ``ceil(N / s)``.
    epsilon : float
        Privacy parameter of a user's whole answer [nats], above 0: each of the Q bits goes through randomized
        response at ``epsilon / Q``. ``math.inf`` releases the private bits.

    Returns
    -------
    SketchMoments
        ``sensing`` is ``Q s / N``, at most 1; ``epsilon`` that of one answer bit; ``private_rate`` and ``answer_rate``
        those of one bit. The noise is half the variance, from one user, of the difference between two items'
        scores, averaged over all pairs of items; the centred score subtracts the rate q from every bit.
        Everything is exact for finite N and w where ``Q s <= N``. Where s does not divide N, the last of
        ``ceil(N / s)`` sets is smaller; if it is asked too, rates and effects are those of full sets.

    Raises
    ------
    InputError
        If ``set_size``, ``questions`` or ``epsilon`` is out of range.

    Notes
    -----
    Multi-MaxSense is Fig. 3 of Banerjee, Hegde, Massoulié, *The Price of Privacy in Untrusted Recommendation Engines*.

    Rates. A set is silent if the user likes none of the r items it shares with the rated ones; r is hypergeometric,
    and given r they are a uniform subset. Two sets of size s are both silent if one set of size 2 s is.

    Effects. Sets have a fixed size, so the effects average to 0 over items, and only differences between clusters
    matter. Let i of cluster l be in the set and j of cluster m not, and swap them: the chance of silence changes only
    if the one inside is rated, by ``b_l - b_m`` times the chance that the rest of the set is silent. With ``J_lm`` for
    that chance, given that the one inside is rated, and t for the contrast of one bit,
    ``effect_l = t (w/N) (N-s)/(N-1) sum_m (n_m/N) (b_l - b_m) J_lm``, averaged over classes.

    Noise. Let ``x_i`` be what one user adds to item i's score, p = s/N and sigma the sum of the user's Q bits. Then
    ``sum_i x_i = s sigma`` and ``sum_i x_i^2 = s sigma``, hence, per item and around the items' mean,
    ``N/(N-1) (Q p q - p^2 E[sigma^2] - (Q p)^2 mean(effect^2))`` for the paper's score. Centred,
    ``Q p q (1-q)`` and ``Var(sigma)`` take the places of the first two. With every set asked (Q s = N) the two scores
    differ by a shift common to all items, and their noise agrees.

    Examples
    --------
    >>> model = BlockParameters(
    ...     rated=1,
    ...     like=np.array([[1.0, 0.0]]),
    ...     class_shares=np.array([1.0]),
    ...     cluster_sizes=np.array([2, 2]),
    ... )
    >>> moments = multi_maxsense_moments(model, set_size=2, questions=2, epsilon=math.inf)
    >>> round(moments.answer_rate, 12), moments.given_sensed.round(12).tolist()
    (0.25, [0.333333333333, 0.166666666667])
    """
    items = parameters.items
    _check(items, set_size, questions, epsilon)
    contrast = math.tanh(epsilon / questions / 2)
    silent, both_silent = _silent(parameters, set_size), _silent(parameters, min(2 * set_size, items))
    rate = 0.5 + contrast / 2 - contrast * silent
    effect = contrast * _pivotal(parameters, set_size)
    pairs = questions * (questions - 1) * contrast**2 * (both_silent - silent**2)
    variance = questions * rate * (1 - rate) + pairs
    coverage = min(1.0, questions * set_size / items)
    share = (coverage / questions) ** 2
    between = coverage**2 * float(parameters.cluster_sizes @ effect**2) / items
    paper = coverage * rate - share * (variance + (questions * rate) ** 2) - between
    centred = coverage * rate * (1 - rate) - share * variance - between
    finite = items / max(1, items - 1)
    return SketchMoments(
        sensing=coverage,
        epsilon=epsilon / questions,
        private_rate=1 - silent,
        answer_rate=rate,
        effect=effect,
        noise_paper=max(0.0, finite * paper),
        noise_centred=max(0.0, finite * centred),
    )


def _check(items: int, set_size: int, questions: int, epsilon: float) -> None:
    """Refuse a design that does not fit the items, or has no privacy parameter."""
    if not 1 <= set_size <= items:
        raise InputError(f"set_size = {set_size}; a sensing set holds 1 to {items} of the {items} items")
    sets = -(-items // set_size)
    if not 1 <= questions <= sets:
        raise InputError(f"questions = {questions}; {items} items in sets of {set_size} allow 1 to {sets}")
    if not epsilon > 0:
        raise InputError(f"epsilon = {epsilon} must be above 0; use inf for answers without noise")


def _silent(parameters: BlockParameters, held: int) -> float:
    """Chance that a user likes none of the rated items in a uniform set of ``held`` items."""
    chances = [
        mean_product_in_a_set(
            1 - row, parameters.cluster_sizes, population=parameters.items, marked=parameters.rated, drawn=held
        )
        for row in parameters.like
    ]
    return float(parameters.class_shares @ np.array(chances))


def _pivotal(parameters: BlockParameters, held: int) -> Floats:
    """P(S0 = 1 | i in the set, C(i) = l) - P(S0 = 1), shape (L,), as a sum over swaps with items outside the set.

    Given that the swapped item in the set is rated, w - 1 of the other N - 1 items are; the set holds s - 1 of those,
    none of them the item that it is swapped with.
    """
    items, sizes = parameters.items, parameters.cluster_sizes
    found = np.zeros(sizes.size)
    if held == items:
        return found
    for share, row in zip(parameters.class_shares, parameters.like, strict=True):
        for low in range(sizes.size):
            for high in range(low):
                if row[low] == row[high]:
                    continue
                others = sizes - (np.arange(sizes.size) == low) - (np.arange(sizes.size) == high)
                silent = mean_product_in_a_set(
                    1 - row, others, population=items - 1, marked=parameters.rated - 1, drawn=held - 1
                )
                swap = share * (row[high] - row[low]) * silent
                found[high] += sizes[low] * swap
                found[low] -= sizes[high] * swap
    return np.asarray(found * parameters.rated / items * (items - held) / (items - 1) / items)
