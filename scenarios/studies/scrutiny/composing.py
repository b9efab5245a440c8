"""What a person gives away who is asked every period: epsilon of a horizon from a period's, and the other way round."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from functools import partial
from typing import Any

from coordinator.protocol.amplification import ShufflerBound, largest_local_epsilon, shuffled_epsilon
from coordinator.protocol.budget import as_float, default_delta
from coordinator.protocol.checked import MOST_ITEMS, require_whole, shown
from coordinator.protocol.composition import (
    MOST_ROUNDS,
    PERSON_HISTORY,
    ShuffledRounds,
    equal_share,
    gaussian_delta_at,
    gaussian_distance,
    gaussian_epsilon,
    history_delta,
    largest_plan_epsilon,
    largest_pure_epsilon,
    plan_epsilon,
    pure_delta,
    pure_epsilon,
    summed_epsilon,
)
from coordinator.protocol.custom import Mechanism
from coordinator.protocol.errors import InputError
from coordinator.protocol.noise import gaussian_deviation, sums_delta
from coordinator.protocol.randomizers import Randomizer
from coordinator.protocol.trust_models import LOCAL, SHUFFLED, UPWARDS
from scenarios.studies.answer import right_at_most
from scenarios.studies.scrutiny.mechanism_under_test import RUN, Choice
from scenarios.studies.scrutiny.shuffling import (
    best_sizes,
    finite_epsilon,
    shuffled_randomizer,
    shuffled_size,
)

Profile = Callable[[float], float]  # Delta of all periods at an epsilon above 0 [nats]
LEAST = 1e-9  # Epsilon next to 0, where delta is how far apart two laws are [nats]


@dataclass(frozen=True, slots=True, kw_only=True)
class Composition:
    """What a person keeps who answers every period, by exact composition.

    Attributes
    ----------
    trust_model : str
        Whom devices trust: nobody (``"local"``), a shuffler, one of two servers, or a curator.
    epsilon : float
        Epsilon of one period [nats], at `delta`: one person's ratings of that period are replaced (person-period).
    epsilon_added : float
        The sum over all periods [nats], which basic composition has at ``periods * delta``.
    epsilon_horizon : float
        Epsilon of all periods together [nats], at `delta`, certified from above; with delta 0 it is the sum.
    epsilon_local : float or None
        Epsilon of a device's own answer in a period [nats]; None where devices randomize nothing.
    epsilon_left : float or None
        What is left over all periods if trust fails [nats], at delta 0; None where nothing is.
    delta : float
        Delta of a period, and that of the horizon.
    periods : int
        How often everybody answers.
    right_at_most : float
        How often at most who sees all that is told is right about which of two equally likely histories it is of.
    unit : str
        ``"person-history"``: epsilon of the horizon holds if ratings of all periods of one person are replaced.
    design, users, settings
        Behind a shuffler: the mechanism, honest devices that answer every period, and settings that follow.
    """

    trust_model: str
    epsilon: float
    epsilon_added: float
    epsilon_horizon: float
    epsilon_local: float | None
    epsilon_left: float | None
    delta: float
    periods: int
    right_at_most: float
    unit: str = PERSON_HISTORY
    design: str | None = None
    users: int | None = None
    settings: Mapping[str, int] = field(default_factory=dict)

    @property
    def belief_at_most(self) -> float:
        """The same by `epsilon_horizon` and `delta` alone; without delta also how sure anybody becomes of a history."""
        return right_at_most(self.epsilon_horizon, self.delta)

    def as_json(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return {**asdict(self), "belief_at_most": self.belief_at_most}


def composed(
    epsilon: Fraction | float | str | None = None,
    periods: int = 12,
    trust: str = LOCAL,
    *,
    epsilon_horizon: Fraction | float | str | None = None,
    delta: float | None = None,
    design: str | Mechanism | None = None,
    users: int = 10_000,
    settings: Choice | None = None,
    items: int | None = None,
    rated: int | None = None,
    own_questions: bool = False,
) -> Composition:
    """Return what a person keeps who answers every period, or what each period may have.

    Parameters
    ----------
    epsilon : Fraction, float or str, optional
        Epsilon of a period [nats]; by default 1.
    periods : int
        How often everybody answers, each time under the same promise.
    trust : str
        ``"local"``, ``"shuffled"``, ``"two-servers"`` or ``"curator"``. Sums of the last two have Gaussian noise, and
        with delta 0 Laplace noise, whose epsilon adds up.
    epsilon_horizon : Fraction, float or str, optional
        Instead: the epsilon of all periods [nats]; a period's follows.
    delta : float, optional
        Of a period, and of the horizon alike; by default 1e-6, and at most ``1 / (10 users)``.
    users : int
        Honest devices that answer every period.
    design, settings, items, own_questions
        Behind a shuffler, as in `local_epsilon`: the mechanism, by default ``"set"``.
    rated : int, optional
        Behind a shuffler, items that a device rated. Of sums, likes of a person: the noise is then that of whole
        numbers, exactly, where it is else that of a normal law.

    Returns
    -------
    Composition
        With `epsilon_horizon` certified from above.

    Raises
    ------
    InputError
        If both epsilons are given, the numbers are none, or something is given that nothing depends on.

    Examples
    --------
    >>> year = composed(1, periods=12, trust="curator")
    >>> round(year.epsilon_horizon, 2), year.epsilon_added, year.unit
    (3.9, 12.0, 'person-history')
    >>> round(composed(epsilon_horizon=1, periods=12, trust="curator").epsilon, 3)
    0.264
    """
    if epsilon is not None and epsilon_horizon is not None:
        raise InputError(
            f"epsilon is {shown(epsilon)} and epsilon_horizon {shown(epsilon_horizon)}; give one, the other follows"
        )
    if trust not in UPWARDS:
        raise InputError(f"trust is {shown(trust)}; choose one of {', '.join(UPWARDS)}")
    if trust != SHUFFLED:
        only_shuffled = {"design": design, "settings": ", ".join(settings or ()) or None, "items": items}
        only_shuffled |= {"own_questions": own_questions or None, "rated": rated if trust == LOCAL else None}
        for field_name, value in only_shuffled.items():
            if value is not None:
                raise InputError(
                    f"{field_name} is {shown(value)}, but with trust {trust} nothing depends on it; leave it out, or "
                    f"choose trust {SHUFFLED}"
                )
    require_whole("periods", periods, 1, MOST_ROUNDS)
    design = "set" if design is None else design
    size = shuffled_size(RUN.items if items is None else items, rated, users)
    delta = default_delta(users) if delta is None else delta
    if delta and (type(delta) not in {int, float} or not 0 < delta < 1):
        raise InputError(f"delta is {shown(delta)}; give a number from 0 on and below 1, such as 1e-6")
    nats, backwards = (epsilon, False) if epsilon_horizon is None else (epsilon_horizon, True)
    central = finite_epsilon(1 if nats is None else nats)
    local: Fraction | None = None
    sizes: dict[str, int] = {}
    if trust == LOCAL:
        local, horizon, profile = _of_answers(central, periods, delta, backwards=backwards)
        period = local
    elif trust == SHUFFLED:
        if not delta:
            raise InputError("delta is 0, but shuffling gains with a positive one only; leave it out")
        single = finite_epsilon(equal_share(central, periods, delta)) if backwards else central
        sizes = best_sizes(design, settings or {}, size, single, delta)
        randomizer_at = shuffled_randomizer(design, {**(settings or {}), **sizes}, size, own_questions=own_questions)
        period, horizon, local, profile = _of_reports(
            randomizer_at, central, periods, users, delta, backwards=backwards
        )
    else:
        period, horizon, profile = _of_sums(central, periods, delta, rated, backwards=backwards)
    name = design if isinstance(design, str) else type(design).__name__
    return Composition(
        trust_model=trust,
        epsilon=as_float(period),
        epsilon_added=as_float(periods * period),
        epsilon_horizon=horizon,
        epsilon_local=None if local is None else as_float(local),
        epsilon_left=None if local is None else as_float(periods * local),
        delta=delta,
        periods=periods,
        right_at_most=min(right_at_most(horizon, delta), right_at_most(LEAST, profile(LEAST))),
        design=name if trust == SHUFFLED else None,
        users=users if trust == SHUFFLED else None,
        settings=sizes,
    )


def _of_answers(epsilon: Fraction, periods: int, delta: float, *, backwards: bool) -> tuple[Fraction, float, Profile]:
    """Return epsilon of a period and of all periods [nats], one of which is given, of answers of devices themselves."""
    if backwards:
        period, horizon = largest_pure_epsilon(epsilon=epsilon, rounds=periods, delta=delta), as_float(epsilon)
    else:
        period, horizon = epsilon, pure_epsilon(epsilon, periods, delta)
    return period, horizon, partial(pure_delta, as_float(period), periods)


def _of_reports(
    randomizer_at: Callable[[Fraction], Randomizer],
    epsilon: Fraction,
    periods: int,
    users: int,
    delta: float,
    *,
    backwards: bool,
) -> tuple[Fraction, float, Fraction, Profile]:
    """Return epsilon of a period, of all periods, one of which is given, and of a device's own answer, shuffled."""

    def bound_at(nats: Fraction | float) -> ShufflerBound:
        return randomizer_at(finite_epsilon(nats)).bound

    if backwards:
        local = largest_plan_epsilon(bound_at, epsilon=epsilon, rounds=periods, devices=users, delta=delta)
        period = finite_epsilon(shuffled_epsilon(bound_at(local), local_epsilon=local, devices=users, delta=delta))
    else:
        local = largest_local_epsilon(bound_at, epsilon=epsilon, devices=users, delta=delta)
        period = epsilon
    plan = [ShuffledRounds(bound_at(local), local, users, periods)]
    horizon = as_float(period) if periods == 1 else plan_epsilon(plan, delta=delta)
    return period, horizon, local, lambda nats: history_delta(plan, Fraction(nats), delta)


def _of_sums(
    epsilon: Fraction, periods: int, delta: float, rated: int | None, *, backwards: bool
) -> tuple[Fraction, float, Profile]:
    """Return epsilon of a period and of all periods [nats], one of which is given, of sums of everybody's likes."""
    if not delta:
        if rated is not None:
            raise InputError(
                f"rated is {shown(rated)}, but in sums with delta 0 nothing depends on it; leave it out, or give a "
                "delta above 0"
            )
        share = epsilon / periods if backwards else epsilon
        return share, as_float(periods * share), partial(pure_delta, as_float(share), periods)
    if rated is None:
        distance = gaussian_distance(epsilon, delta) * (1 if backwards else periods**0.5)
        profile = partial(gaussian_delta_at, distance)
        if backwards:
            return finite_epsilon(equal_share(epsilon, periods, delta)), as_float(epsilon), profile
        # Of one period a search would find a millionth more
        return epsilon, as_float(epsilon) if periods == 1 else gaussian_epsilon(distance, delta), profile
    changes = 2 * require_whole("likes of a person", rated, 1, MOST_ITEMS)
    rounds = periods if backwards else 1
    deviation = gaussian_deviation(changes=rounds * changes, epsilon=epsilon, delta=delta)
    period, horizon = (
        epsilon if rounds == count else finite_epsilon(summed_epsilon({deviation: count * changes}, delta=delta))
        for count in (1, periods)
    )
    whole = {deviation: periods * changes}
    return period, as_float(horizon), lambda nats: sums_delta(whole, epsilon=nats, devices=False)
