"""The checks of a mechanism's amplification: its two levels, its bound of delta, and the local epsilon that follows."""

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise, permutations, product

import numpy as np

from coordinator.protocol.amplification import (
    BitsExactly,
    LevelsFromBelow,
    ShufflerBound,
    TwoLevels,
    largest_local_epsilon,
)
from coordinator.protocol.arrays import Floats2
from coordinator.protocol.budget import Epsilon, as_float
from coordinator.protocol.channels import LARGEST_EPSILON, Likelihood
from coordinator.protocol.custom import Mechanism
from coordinator.protocol.errors import InputError
from coordinator.protocol.messages import Query
from coordinator.protocol.randomizers import randomizer_of
from coordinator.protocol.trust_models import LOCAL, SHUFFLED, TWO_SERVERS, require_trust
from scenarios.config.compatibility import check_channel
from scenarios.studies.scrutiny.checks import Check, check_plain, conformance
from scenarios.studies.scrutiny.mechanism_under_test import (
    PLAIN,
    TINY,
    Choice,
    MechanismUnderTest,
    every_rating,
    kind_and_settings,
    subjects,
)
from scenarios.studies.scrutiny.release_laws import ClaimedLaw
from scenarios.studies.scrutiny.shuffler_view import worst_trio
from scenarios.studies.scrutiny.shuffling import shuffled_subject
from scenarios.studies.scrutiny.verdicts import Conformance, Failed, Unchecked

NEAR = 1e-6  # by how much a level may differ: coins are rounded towards more noise
SLACK = 1e-3  # by how much a delta may rise where it should fall: grids of bounds differ
DEVICES = (30, 300, 3000)
LOCALS = (Fraction(1, 2), Fraction(1), Fraction(2), Fraction(3))
SHARES = (0.2, 0.4, 0.7)  # central epsilons that are looked at, as shares of the local one
DELTA = 1e-4


def levels(subject: MechanismUnderTest) -> str:
    """Check pi and kappa against the channel, enumerated over all that a device of a tiny catalogue can have rated."""
    figures = []
    for epsilon in LOCALS:
        query = subject.query(TINY, epsilon)
        stated = subject.public.levels(query)
        if stated is None:
            raise Unchecked("it states no levels: its channel is bounded as a matrix, or as any randomizer")
        pi, kappa = _levels_of(_rows(subject, query), math.exp(epsilon), stated.pi)
        for name, mine, theirs in (("pi", stated.pi, pi), ("kappa", stated.kappa, kappa)):
            if abs(mine - theirs) > NEAR * max(theirs, NEAR):
                at = f"epsilon {as_float(epsilon):g}"
                raise Failed(f"{at}: {name} is stated as {mine:.9g}, the channel has {theirs:.9g}")
        figures.append(f"{pi:.5g} and {kappa:.5g}")
    return f"pi and kappa {'; '.join(figures)}"


def _rows(subject: MechanismUnderTest, query: Query) -> Floats2:
    law = ClaimedLaw(subject, query)
    if not law.enumerable or isinstance(law.channel, Likelihood):
        raise Unchecked(f"releases of {query.bits} bits are too many to enumerate, or depend on addresses")
    (shares,) = law.enumeration(every_rating(TINY)).comparable
    rows = np.array([[float(share) for share in row] for row in shares.values()])
    chances: Floats2 = rows / rows.sum(axis=1, keepdims=True)
    return chances[:, chances.max(axis=0) > 0]


def _levels_of(rows: Floats2, odds: float, pi: float) -> tuple[float, float]:
    """Return pi and kappa of a channel whose chances have two levels; it fails if they have others."""
    # Reports whose chances are the same for all inputs meet all of them or none: how much of them does follows from the
    # sum of omega, which is 1.
    least, most = rows.min(axis=0), rows.max(axis=0)
    alike = most < least * (1 + NEAR)
    met = rows > least * math.sqrt(odds)
    expected = np.where(met, least * odds, least)
    if (np.abs(rows - np.where(alike, least, expected)) > 10 * NEAR * expected).any():
        raise Failed(f"a report's chances have other ratios than 1 and {odds:.6g}")
    scale = 1 + (odds - 1) * pi
    omega, same = least[~alike] * scale, float(least[alike].sum()) * scale
    common = (omega.sum() + same - 1) / (1 - 1 / odds)  # the part of them that meets all inputs, times odds
    if not -NEAR <= common <= same + NEAR:
        total = omega.sum() + same
        raise Failed(f"with the pi that is stated, {pi:.9g}, the law of reports sums to {total:.9g}, not to 1")
    meeting = met[:, ~alike] @ omega + common / odds
    ours = met[:, ~alike]
    kappa = max(float((ours[first] & ~ours[other]) @ omega) for first, other in permutations(range(len(ours)), 2))
    far = int(np.argmax(np.abs(meeting - pi)))
    return float(meeting[far]), kappa


def monotone(subject: MechanismUnderTest) -> str:
    """Check that delta falls in devices and in the central epsilon, and rises in the local one."""
    at = {local: _bound(subject, local) for local in LOCALS}

    def delta(local: Fraction, devices: int, epsilon: float) -> float:
        return at[local].delta(epsilon, float(local), devices)

    rising: list[tuple[str, list[float]]] = []
    for devices, share in product(DEVICES, SHARES):
        epsilon = share * float(LOCALS[0])
        description = f"{devices} devices and epsilon {epsilon:g}, in the local epsilon"
        rising.append((description, [delta(local, devices, epsilon) for local in LOCALS]))
    for local, share in product(LOCALS, SHARES):
        epsilon = share * float(local)
        description = f"local epsilon {float(local):g} and epsilon {epsilon:g}, as devices get fewer"
        rising.append((description, [delta(local, devices, epsilon) for devices in reversed(DEVICES)]))
    for local, devices in product(LOCALS, DEVICES):
        description = f"local epsilon {float(local):g} and {devices} devices, as epsilon falls"
        rising.append((description, [delta(local, devices, share * float(local)) for share in reversed(SHARES)]))
    for description, deltas in rising:
        for earlier, other in pairwise(deltas):
            if earlier > other * (1 + SLACK) + 1e-12:
                raise Failed(f"{description}, delta falls from {earlier:.6g} to {other:.6g}")
    return f"{sum(len(deltas) - 1 for _, deltas in rising)} pairs of deltas"


def _bound(subject: MechanismUnderTest, local: Fraction) -> ShufflerBound:
    query = replace(subject.query(TINY, PLAIN), epsilon=local)  # with the numbers that it has at one epsilon
    return randomizer_of(subject.public, query, subject.label).bound


def tightness(subject: MechanismUnderTest) -> str:
    """Check that the bound of delta is never below what the multiset gives away where all others are known."""
    closest = math.inf
    for local in LOCALS[1:]:
        bound = _bound(subject, local)
        lowers = list(_from_below(subject, local, bound))
        for devices, share in product(DEVICES[:2], SHARES):
            epsilon = share * float(local)
            above = bound.delta(epsilon, float(local), devices)
            for name, lower in lowers:
                below = lower.delta(epsilon, float(local), devices)
                if above < below * (1 - SLACK):
                    at = f"local epsilon {float(local):g}, {devices} devices, epsilon {epsilon:g}"
                    raise Failed(f"{at}: delta is at most {above:.6g} by the bound, and at least {below:.6g} by {name}")
                closest = min(closest, above / below if below else math.inf)
    return f"delta is at least {closest:.4f} times what is given away"


def _from_below(
    subject: MechanismUnderTest, local: Fraction, bound: ShufflerBound
) -> Iterator[tuple[str, ShufflerBound]]:
    if isinstance(bound, TwoLevels):
        yield "two levels from below", LevelsFromBelow(bound)
        if (bound.pi, bound.kappa) == (0.5, 0.5):
            yield "the law of bits", BitsExactly()
    law = ClaimedLaw(subject, replace(subject.query(TINY, PLAIN), epsilon=local))
    if law.enumerable and not isinstance(law.channel, Likelihood):
        few = DEVICES[0]
        yield "three inputs", worst_trio(law, TINY, epsilon=SHARES[1] * float(local), users=few).bound


def rounding(subject: MechanismUnderTest) -> str:
    """Check that a local epsilon is in whole thousandths, keeps the central one, is not below it, and largest."""
    figures = []
    for devices, central in product(DEVICES, (Fraction(1, 10), Fraction(1), Fraction(7, 3))):
        query = subject.query(TINY, PLAIN)

        def bound(nats: float | Fraction, query: Query = query) -> ShufflerBound:
            local = Fraction(nats).limit_denominator(10**9)
            return randomizer_of(subject.public, replace(query, epsilon=local), subject.label).bound

        local = largest_local_epsilon(bound, epsilon=central, devices=devices, delta=DELTA)
        at = f"{devices} devices, central epsilon {float(central):g}: the local one is {float(local):.6g}"
        if local < central:
            raise Failed(f"{at}, which is below it")
        if local > central:
            if (1000 * local).denominator != 1 and local != LARGEST_EPSILON:
                raise Failed(f"{at}, which is no whole number of thousandths")
            delta = bound(local).delta(float(central), float(local), devices)
            if delta > DELTA:
                raise Failed(f"{at}, where delta is {delta:.6g}, above {DELTA:g}")
        more = float(local) + 0.005
        if more <= LARGEST_EPSILON and bound(more).delta(float(central), more, devices) <= DELTA:
            raise Failed(f"{at}, and {more:.6g} keeps it, too")
        figures.append(f"{float(local):.4g}")
    return f"local epsilons {', '.join(figures)}"


SHUFFLED_CHECKS = (
    Check("levels", "pi and kappa are those of the exact channel", levels),
    Check("monotone", "delta falls in devices and epsilon, and rises in the local epsilon", monotone),
    Check("from below", "no delta lies below what is given away", tightness),
    Check("rounding", "the local epsilon is rounded down, and keeps the central one", rounding),
)
"""What is checked of every mechanism whose devices a shuffler can hide."""


def check_shuffled_mechanism(mechanism: str | Mechanism, *, settings: Choice | None = None) -> Conformance:
    """Return what every check of amplification finds of a mechanism with these settings, or with all it has."""
    plain = shuffled_subject(mechanism, settings, TINY)
    every = [subject for subject in subjects(mechanism, settings or None) if subject.run_of is not None]
    able = [subject for subject in every if _can_be_shuffled(subject)]
    return conformance(able or [plain], SHUFFLED_CHECKS)


def _can_be_shuffled(subject: MechanismUnderTest) -> bool:
    assert subject.run_of is not None  # of those that are asked
    scenario = subject.run_of(TINY, PLAIN).scenario
    with suppress(InputError):
        shuffled_subject(scenario.design, scenario.settings.model_dump(), TINY)
        return True
    return False


def check(
    mechanism: str | Mechanism,
    *,
    settings: Choice | None = None,
    epsilon: Epsilon = None,
    trust: str | None = None,
) -> Conformance:
    """Check that a mechanism keeps what every mechanism must keep.

    Parameters
    ----------
    mechanism : str or Mechanism
        Its name, or ``package.module:Name`` of a custom one, or a custom one with its settings.
    settings : dict, optional
        Its settings that are not the default; by default every choice that can be listed is checked.
    epsilon : Fraction, optional
        Where its channel is enumerated, alone [nats]; by default at 0.1, 1 and 3.
    trust : {"local", "shuffled", "two-servers"}, optional
        Under which trust model: ``"shuffled"`` checks what a shuffler makes of its epsilon, ``"two-servers"`` shares
        and the noise of sums; by default that which the mechanism is made for.

    Raises
    ------
    InputError
        If there is no such mechanism, or it cannot be asked so, or at this epsilon.
    """
    if trust is not None:
        require_trust(trust)
    if trust == SHUFFLED:
        if epsilon is not None:
            raise InputError(f"epsilon is {epsilon}, but a shuffler's bound is checked at several; leave it out")
        return check_shuffled_mechanism(mechanism, settings=settings)
    mechanism_kind, _ = kind_and_settings(mechanism)
    if trust is not None and (trust == TWO_SERVERS) != (mechanism_kind.trust == TWO_SERVERS):
        raise InputError(
            f"trust is {trust}, but {mechanism_kind.name} is made for {mechanism_kind.trust}; leave it out"
        )
    if mechanism_kind.trust == LOCAL:
        check_channel(epsilon)  # here: further below it would count as a mechanism's failure
    return check_plain(mechanism, settings=settings, epsilon=epsilon)
