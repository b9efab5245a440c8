"""Audits of a mechanism, by its name or a custom one: every attack is run, and compared with claim and channel."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from coordinator.protocol import second_order_mechanisms
from coordinator.protocol.channels import DUST, ROUNDED, Likelihood
from coordinator.protocol.checked import require_whole
from coordinator.protocol.custom import Mechanism, admitted
from coordinator.protocol.errors import InputError
from scenarios.config.admission import checked_guarantee
from scenarios.config.mechanism_settings import designs, shared_names
from scenarios.studies.scrutiny.attacks import (
    attack,
    attack_plans,
    power_of,
    require_game,
    second_order_audit,
    variant_plans,
)
from scenarios.studies.scrutiny.mechanism_under_test import TINY, Choice, MechanismUnderTest, Size, inputs, subjects
from scenarios.studies.scrutiny.release_laws import ClaimedLaw
from scenarios.studies.scrutiny.shuffling import finite_epsilon
from scenarios.studies.scrutiny.verdicts import Audit, Failed

RELEASES, ROUNDS, CONFIDENCE = 1_000_000, 4, 0.999
MOST = 1 << 24  # releases that an attack may look at


def local_audit(
    subjects: Sequence[MechanismUnderTest], epsilon: Fraction, *, size: Size, releases: int, rounds: int, doubt: float
) -> Audit:
    """Make every attack on a mechanism: the first subject has a run's queries, others further kinds of queries."""
    coins, main = np.random.default_rng(20261123), subjects[0]
    queries = [[subject.query(size, epsilon, round_number=number) for number in range(rounds)] for subject in subjects]
    laws = [tuple(ClaimedLaw(subject, query) for query in of) for subject, of in zip(subjects, queries, strict=True)]
    first = laws[0][0]
    claimed, custom = first.query.epsilon if main.public.randomizes else None, admitted(first.query.design)
    plans = list(attack_plans(laws[0], size, releases=releases, coins=coins))
    for subject, variant in zip(subjects[1:], laws[1:], strict=True):
        kind = subject.label.removeprefix(main.label).strip()
        plans += variant_plans(kind, variant, size, after=first, releases=releases, coins=coins)
    each = doubt / len(plans)
    attacks = tuple(attack(plan, releases, claimed, each, coins) for plan in plans)
    every, rows = [law for variant in laws for law in variant], inputs(size, coins)
    ratios = [ratio for law in every if (ratio := law.log_ratio(rows)) is not None]
    likelihood = isinstance(first.channel, Likelihood) and claimed is not None
    return Audit(
        design=main.label,
        guarantee=main.public.guarantee if custom is None else checked_guarantee(custom, first.query),
        epsilon=claimed,
        log_ratio=max(ratios, key=float) if len(ratios) == len(every) else None,  # None where one is unknown
        confidence=1 - doubt,
        attacks=attacks,
        power=power_of(attacks, each),
        dust=ROUNDED + DUST * claimed if likelihood and claimed is not None else Fraction(0),
        refused=next((law.refusal for law in every if law.refusal), ""),
    )


def audit(
    design: str | Mechanism,
    *,
    epsilon: Fraction | float | str = 1,
    settings: Choice | None = None,
    releases: int = RELEASES,
    rounds: int = ROUNDS,
    items: int = TINY.items,
    rated: int = TINY.rated,
    confidence: float = CONFIDENCE,
) -> Audit:
    """Attack a mechanism's real releases, and hold what they give away against its claim and its exact channel.

    An honest mechanism fails with probability ``1 - confidence`` at most (Clopper and Pearson, 1934, Bonferroni over
    the attacks); the event that an attack counts is chosen on other releases than those that measure it.

    Parameters
    ----------
    design : str or Mechanism
        A mechanism's name, also one of two tiers, or ``package.module:Name`` of a custom one, or a custom one itself.
    epsilon : Fraction, float or str
        What one release may cost [nats].
    settings : dict, optional
        Its settings that are not the default.
    releases : int
        How many releases each attack looks at; of long ones, and of two tiers, fewer.
    rounds : int
        Queries that the attacks over several rounds look at.
    items, rated : int
        Size of the catalogue, and how many items a device rated at most.
    confidence : float
        Probability that all lower bounds hold.

    Raises
    ------
    InputError
        If there is no such mechanism, or it cannot be asked so.
    """
    nats = finite_epsilon(epsilon)
    require_whole("rounds", rounds, 2, 64)
    game = {"releases": releases, "items": items, "rated": rated, "most": MOST}
    size = require_game(users=TINY.users, **game, confidence=confidence)
    if isinstance(design, str) and design in second_order_mechanisms.second_order_public_halves():
        if settings:
            raise InputError(f"{design} is a mechanism of two tiers, which has no settings here; leave them out")
        return second_order_audit(design, nats, releases=releases, doubt=1 - confidence)
    if design in shared_names():
        raise InputError(f"design {design} is answered in shares, each uniform alone; give --trust two-servers")
    variants = [
        replace(subject, label=subject.label.replace(" helpers=()", "")) for subject in subjects(design, settings or {})
    ]
    try:
        return local_audit(variants, nats, size=size, releases=releases, rounds=rounds, doubt=1 - confidence)
    except Failed as failure:
        raise InputError(f"design {variants[0].label}: {failure}") from None


def every_name() -> list[str]:
    """Return all mechanisms that release something: of the local model and the curator's, then those of two tiers."""
    return [
        *(name for name in designs() if name not in shared_names()),
        *second_order_mechanisms.second_order_public_halves(),
    ]
