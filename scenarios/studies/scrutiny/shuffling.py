"""What a shuffler makes of a mechanism's epsilon: the central one, and the largest local one that keeps one."""

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from typing import Any

from coordinator.protocol.amplification import (
    MOST_ANSWERS,
    AnyRandomizer,
    ShufflerBound,
    largest_local_epsilon,
    shuffled_epsilon,
)
from coordinator.protocol.budget import as_float, default_delta, parse_epsilon
from coordinator.protocol.channels import ExactChannel
from coordinator.protocol.checked import MOST_ITEMS, require_whole
from coordinator.protocol.custom import Mechanism
from coordinator.protocol.errors import InputError
from coordinator.protocol.mechanism import GROUPS
from coordinator.protocol.mechanisms import subsets_of
from coordinator.protocol.randomizers import CLONES, Randomizer, by_address, of_channel, randomizer_of
from coordinator.protocol.short_adapter import CustomAdapter
from coordinator.protocol.value_channels import CHOSEN, PADDED
from scenarios.config.admission import require_same_everywhere
from scenarios.studies.scrutiny.mechanism_under_test import (
    RUN,
    Choice,
    MechanismUnderTest,
    Size,
    kind_and_settings,
    small_run,
    subject_of,
)

ANY = "any"
"""Stands for every local randomizer that is the same on all devices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Amplification:
    """The guarantees of shuffled reports: the central one that holds, and what is left if the shuffler lies.

    Attributes
    ----------
    design : str
        The mechanism or channel.
    users : int
        Honest devices n that answer; absentees and liars hide nobody.
    epsilon : float
        Central epsilon [nats]: of the multiset of all reports, which is what the server sees. Certified from above.
    epsilon_local : float
        Epsilon of each device's own report [nats], which holds whatever the shuffler does.
    delta : float
        The central guarantee's delta.
    neighbours : str
        ``"replace"``: one device's ratings are replaced by any others, and n is public.
    bound : str
        The bound from above: ``"two levels"``, ``"finite channel"``, or ``"any randomizer"``.
    epsilon_at_least : float or None
        What the multiset really gives away where the server knows all others' ratings [nats], to some 1e-5: a measure
        of how tight the bound is, and no certificate. None where nobody computed it.
    settings : dict
        Settings of the mechanism that follow from the central epsilon, by their names.
    """

    design: str
    users: int
    epsilon: float
    epsilon_local: float
    delta: float
    bound: str
    epsilon_at_least: float | None
    neighbours: str = "replace"
    settings: Mapping[str, int] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return asdict(self)


def amplified(
    mechanism: str | Mechanism | ExactChannel,
    users: int,
    *,
    epsilon: Fraction | float | str | None = None,
    delta: float | None = None,
    settings: Choice | None = None,
    items: int = RUN.items,
    rated: int | None = None,
    own_questions: bool = False,
) -> Amplification:
    """Return the central epsilon of a mechanism's shuffled reports, certified from above.

    Parameters
    ----------
    mechanism : str, Mechanism or channel
        A mechanism's name, ``package.module:Name`` of a custom one, or a custom one itself; a channel, as
        `matrix_channel` and `independent_bits` make it; or ``"any"``, for every local randomizer under epsilon.
    users : int
        Honest devices that answer.
    epsilon : Fraction, float or str, optional
        Local epsilon of each device [nats]; a channel has its own.
    delta : float, optional
        Of the central guarantee, at most ``1 / users``; by default 1e-6, and at most ``1 / (10 users)``.
    settings : dict, optional
        The mechanism's settings that are not the default.
    items : int
        Items of the catalogue.
    rated : int, optional
        Items that a device rated, typically; by default 20, or all where there are fewer.
    own_questions : bool
        Whether devices draw their questions from private coins, so that a report is the pair of question and answer,
        where otherwise a question follows from a device's public address.

    Raises
    ------
    InputError
        If a device's question follows from its public address, as a sensing set does, and devices do not draw their
        own: then every report names its sender, and shuffling changes nothing. If they cannot draw their own. If the
        mechanism is not private, asks groups of devices different questions, or the numbers are none.

    Examples
    --------
    >>> result = amplified("grr", 100_000, epsilon=4, items=99)
    >>> round(result.epsilon, 3), result.bound
    (0.068, 'two levels')
    >>> round(amplified("maxsense", 100_000, epsilon=4, own_questions=True).epsilon, 3)
    0.118
    """
    if isinstance(mechanism, ExactChannel):
        if own_questions:
            raise InputError("own_questions is True, but a channel has no questions; leave it out")
        if epsilon is not None:
            raise InputError(f"epsilon is {epsilon}, but a channel has its own; leave it out")
        randomizer, local, name = of_channel(mechanism), mechanism.epsilon, type(mechanism).__name__
    else:
        nats = finite_epsilon(1 if epsilon is None else epsilon)
        randomizer_at = shuffled_randomizer(
            mechanism, settings, shuffled_size(items, rated, users), own_questions=own_questions
        )
        randomizer, local = randomizer_at(nats), float(nats)
        name = _name_of(mechanism)
    return _result(name, randomizer, local=local, users=users, delta=_delta(delta, users))


def local_epsilon(
    mechanism: str | Mechanism,
    users: int,
    *,
    epsilon: Fraction | float | str = 1,
    delta: float | None = None,
    settings: Choice | None = None,
    items: int = RUN.items,
    rated: int | None = None,
    own_questions: bool = False,
) -> Amplification:
    """Return the largest local epsilon with which a mechanism's shuffled reports keep a central epsilon, certified.

    Subset selection and sets also get the number of values that a report should name (`chosen`), unless the settings
    say it: that which is best for the central epsilon, where the local one alone would name too many.

    Parameters
    ----------
    mechanism, users, delta, settings, items, rated, own_questions
        As in `amplified`, but no channel, whose epsilon is fixed.
    epsilon : Fraction, float or str
        Central epsilon [nats].

    Returns
    -------
    Amplification
        Its ``epsilon_local`` is a whole number of thousandths, rounded down, and never below the central epsilon.

    Raises
    ------
    InputError
        As in `amplified`.

    Examples
    --------
    >>> result = local_epsilon("any", 100_000, epsilon=1)
    >>> result.epsilon_local, result.epsilon <= 1
    (7.069, True)
    """
    if isinstance(mechanism, ExactChannel):
        raise InputError("a channel has one epsilon; give the mechanism that makes it, or see amplified")
    central, size = finite_epsilon(epsilon), shuffled_size(items, rated, users)
    options, delta = dict(settings or {}), _delta(delta, users)
    sizes = best_sizes(mechanism, options, size, central, delta)
    randomizer_at = shuffled_randomizer(mechanism, options | sizes, size, own_questions=own_questions)
    local = largest_local_epsilon(
        lambda nats: randomizer_at(finite_epsilon(nats)).bound, epsilon=central, devices=users, delta=delta
    )
    return _result(
        _name_of(mechanism), randomizer_at(local), local=float(local), users=users, delta=delta, settings=sizes
    )


def best_sizes(
    mechanism: str | Mechanism, settings: Choice, size: Size, epsilon: Fraction, delta: float
) -> dict[str, int]:
    """Return how many values a report should name for a central epsilon, where settings leave it open."""
    if mechanism not in ("subset", "set") or int(settings.get(CHOSEN, 0)):
        return {}
    query = shuffled_subject(mechanism, settings, size).query(size, epsilon)
    query = subsets_of(query).amplified(query, size.users, delta)
    return {name: int(query.parameters[name]) for name in (PADDED, CHOSEN) if name in query.parameters}


def _delta(delta: float | None, users: int) -> float:
    require_whole("users", users, 1, MOST_ANSWERS)
    return default_delta(users) if delta is None else delta


def shuffled_size(items: int, rated: int | None, users: int) -> Size:
    """Return the size of a world in which so many honest devices answer."""
    require_whole("users", users, 1, MOST_ANSWERS)
    require_whole("items", items, 1, MOST_ITEMS)
    return Size(items, min(RUN.rated, items) if rated is None else rated, users)


def shuffled_randomizer(
    mechanism: str | Mechanism, settings: Choice | None, size: Size, *, own_questions: bool
) -> Callable[[Fraction], Randomizer]:
    """Return a function from a local epsilon to the randomizer of all devices."""
    if mechanism == ANY:
        if own_questions:
            raise InputError('own_questions is True, but "any" randomizer is the same on all devices; leave it out')
        return lambda _: Randomizer(AnyRandomizer(), CLONES)
    subject = shuffled_subject(mechanism, settings, size, own_questions=own_questions)

    def randomizer(local: Fraction) -> Randomizer:
        query = replace(subject.query(size, local), own_questions=own_questions)
        return randomizer_of(subject.public, query, subject.label)

    return randomizer


def shuffled_subject(
    mechanism: str | Mechanism, settings: Choice | None, size: Size, *, own_questions: bool = False
) -> MechanismUnderTest:
    """Return a mechanism whose reports a shuffler can hide, or refuse it."""
    kind, custom = kind_and_settings(mechanism)
    subject = subject_of(kind, custom or settings or {}, size=size)
    if subject.public.shares:
        raise InputError(
            f"design {subject.label} sends shares, which shuffling cannot amplify; give grr, oue, subset or set"
        )
    if not subject.public.randomizes:
        raise InputError(f"design {subject.label} is not private: it has no local epsilon that shuffling could amplify")
    if own_questions:
        subject.public.check_own_questions(f"design {subject.label}")
    elif subject.public.by_address:
        raise InputError(by_address(subject.label))
    if small_run(kind, custom or settings or {}, size, Fraction(1)).scenario.policy == GROUPS:
        raise InputError(
            f"design {subject.label} asks groups, which are shuffled separately; give one that asks all devices alike"
        )
    if isinstance(subject.public, CustomAdapter):
        require_same_everywhere(subject.public.custom, subject.query(size, Fraction(1)))
    return subject


def _name_of(mechanism: str | Mechanism) -> str:
    return mechanism if isinstance(mechanism, str) else type(mechanism).__name__


def _result(
    name: str,
    randomizer: Randomizer,
    *,
    local: float,
    users: int,
    delta: float,
    settings: Mapping[str, int] | None = None,
) -> Amplification:
    def smallest(bound: ShufflerBound) -> float:
        return shuffled_epsilon(bound, local_epsilon=local, devices=users, delta=delta)

    below, central = randomizer.below, smallest(randomizer.bound)
    return Amplification(
        design=name,
        users=users,
        epsilon=central,
        epsilon_local=local,
        delta=delta,
        bound=randomizer.name,
        epsilon_at_least=None if below is None else min(smallest(below), central),  # both stand on one grid
        settings=settings or {},
    )


def finite_epsilon(epsilon: Fraction | float | str) -> Fraction:
    """Return an epsilon [nats] that a floating-point number can hold."""
    nats = epsilon if isinstance(epsilon, Fraction) else parse_epsilon(epsilon)
    if nats is None or not math.isfinite(as_float(nats)):
        raise InputError("epsilon is inf; give a finite one")
    if not as_float(nats):
        raise InputError("epsilon is smaller than any floating-point number above 0; raise it")
    return nats
