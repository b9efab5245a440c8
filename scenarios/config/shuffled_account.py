"""The account of devices behind a shuffler: the local epsilon under which they answer to get a central one."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from coordinator.protocol.agreement import Agreement, PlannedRound
from coordinator.protocol.amplification import (
    AnyRandomizer,
    FiniteChannel,
    ShufflerBound,
    TwoLevels,
    largest_local_epsilon,
    rough_devices,
    shuffled_epsilon,
    subset_levels,
)
from coordinator.protocol.budget import Epsilon, as_float, as_json, parse_epsilon
from coordinator.protocol.checked import MOST_DEVICES
from coordinator.protocol.coins import round_up
from coordinator.protocol.composition import equal_share, largest_plan_epsilon
from coordinator.protocol.custom import UserClass, admit
from coordinator.protocol.errors import InputError
from coordinator.protocol.mechanism import (
    ANCHOR,
    ELIMINATE,
    FIXED,
    GROUPS,
    ONE_ROUND,
    SCHEDULED,
    InWorld,
    Settings,
    World,
)
from coordinator.protocol.mechanisms import mechanism_of
from coordinator.protocol.messages import Query
from coordinator.protocol.randomizers import CLONES, TWO_LEVELS, Randomizer, randomizer_of
from coordinator.protocol.shuffled_plan import SharedRound, honest_counts, shuffled_plan
from coordinator.protocol.trust_models import SHUFFLED, TRUST
from coordinator.protocol.value_channels import PADDED
from coordinator.server.design import Design
from scenarios.config.accounts import Account, Guarantee, RoundSize, group_delta, most_spent
from scenarios.config.admission import require_same_everywhere
from scenarios.config.custom_kinds import custom_of, design_of, kind_of, mechanism_with
from scenarios.config.scenario import ADDED, EXACT, EXPECTED, SET, SMALLEST, TELL, Scenario

if TYPE_CHECKING:
    from coordinator.server.rounds.scheduled import Asking
    from coordinator.server.rounds.setting import GroupGuarantee
    from coordinator.server.rounds.state import Ask, Counts

CENTRAL = "(epsilon, delta)-differential privacy of all that a device holds, of all that a shuffler hands on"
LARGEST_LOCAL = 16  # Above it a report has no noise to speak of [nats]
STEP = Fraction(1, 10)  # Local epsilons that are compared lie so far apart [nats]: sizes of rounds by a tenth


@dataclass(frozen=True, kw_only=True)
class ShuffledAccount(Account):
    """The account of devices behind a shuffler: a central epsilon, by a local one and a number of devices."""

    devices: int  # Honest devices of a round that the promise counts on, of groups the fewest
    share_delta: float  # Of an answer
    bound: str  # Name of the bound

    @property
    def answer_local(self) -> Fraction:
        """The local epsilon of an answer [nats], of groups the largest."""
        assert self.mechanism_epsilon is not None  # as that of all answers is finite
        return self.mechanism_epsilon / self.answers

    def central(self, query: Query, devices: int) -> float:
        """Return the central epsilon of an answer to a query [nats], by the round's number of honest devices."""
        bound = randomizer_of(mechanism_of(query.design), query, query.design).bound
        local, least = as_float(query.epsilon), max(devices, 1)
        return shuffled_epsilon(bound, local_epsilon=local, devices=least, delta=self.share_delta, any_delta=True)

    def after(self, asks: Sequence[Ask], counts: Sequence[Counts]) -> Guarantee:
        """Return the guarantee after the run: epsilon is above the promised one if a short round was handed on."""
        epsilon, agreement = self.guarantee.epsilon, self.agreement
        assert epsilon is not None  # refused before
        costs = [epsilon / self.answers for _ in asks]
        for number, (ask, count) in enumerate(zip(asks, counts, strict=True)):
            if count.answered and not agreement.keeps(ask.query, honest := agreement.honest_of(count.answered)):
                costs[number] = Fraction(self.central(ask.query, honest))
        return self.guarantee._replace(epsilon=max(epsilon, most_spent(asks, costs, self.answers)))

    def columns(self, asks: Sequence[Ask], counts: Sequence[Counts], copies: int) -> dict[str, Any]:
        """Return what is left without the shuffler, and what the promise counts on; see `Account.columns`."""
        central = as_float(self.after(asks, counts).epsilon)
        return {
            "person_epsilon": copies * central,
            "epsilon_local": as_json(self.mechanism_epsilon),
            "amplified_for": self.devices,
            "smallest_round": min((count.answered for count in counts if count.answered), default=0),
            **({"smallest_round_reason": self.smallest.reason} if self.smallest.reason else {}),
            "bound": self.bound,
            **({"composition": EXACT if self.agreement.composed else ADDED} if self.answers > 1 else {}),
            "person_delta": group_delta(copies, central, self.agreement.delta),
            **self.trust.guarantee(epsilon_local=as_float(self.mechanism_epsilon)),
        }


@dataclass(frozen=True, slots=True)
class ShuffledReports:
    """What devices report to a shuffler: a mechanism in a world, and how rounds ask as far as bounds depend on it."""

    settings: Settings
    world: World
    own_questions: bool
    pools: bool  # Whether rounds may be about some items only

    @classmethod
    def of(cls, scenario: Scenario) -> ShuffledReports:
        """Return what devices of a filled-in scenario report."""
        pools = scenario.pool_size is not None or scenario.policy not in (ONE_ROUND, FIXED, ANCHOR, SCHEDULED)
        return cls(scenario.settings, replace(scenario.world, block=None), scenario.own_questions, pools)

    def design(self, epsilon: Epsilon) -> Design:
        """Return what is asked under an epsilon."""
        return design_of(self.settings, replace(self.world, epsilon=epsilon))

    def query(self, epsilon: Epsilon) -> Query:
        """Return the query of the first round."""
        query = self.design(epsilon).query(round_number=0, public_seed=bytes(16), epsilon=epsilon)
        if isinstance(self.settings, UserClass):  # its channel is looked at before the run admits it
            custom = custom_of(self.settings)
            admit(replace(custom, parameters=frozenset(query.parameters), arrays=frozenset(query.arrays)))
        return query

    def require_same_everywhere(self, epsilon: Epsilon) -> None:
        """Refuse a custom mechanism whose devices sketch or count by their addresses; see `admission`."""
        if isinstance(self.settings, UserClass):
            query = replace(self.query(epsilon), own_questions=self.own_questions)
            require_same_everywhere(custom_of(self.settings), query)

    def randomizer(self, local: Epsilon) -> Randomizer:
        """Return what all devices run under a local epsilon."""
        query = replace(self.query(local), own_questions=self.own_questions)
        randomizer = randomizer_of(mechanism_of(query.design), query, kind_of(self.settings).name)
        if self.pools and randomizer.bound != self._of_one_item(query):
            return Randomizer(AnyRandomizer(), CLONES)  # levels of its rounds follow from pools, which nobody knows yet
        return randomizer

    def _of_one_item(self, query: Query) -> ShufflerBound | None:
        """Return the two levels of a query about a single item; None if it has other levels or none."""
        design = self.design(query.epsilon)
        if not isinstance(design, InWorld):
            return None
        about: dict[str, Any] = {"round_number": 0, "public_seed": bytes(16), "epsilon": query.epsilon}
        try:
            single = design.query(**about, pool=np.zeros(1, np.int32), expected=None)
            return mechanism_of(single.design).levels(replace(single, own_questions=query.own_questions))
        except InputError:
            return None


def composes(scenario: Scenario) -> bool:
    """Return whether a filled-in scenario's answers behind a shuffler are composed as one plan."""
    several = scenario.answers_per_device > 1 and scenario.policy != GROUPS
    return several and scenario.composition != ADDED and scenario.short_rounds != TELL


def answer_share(scenario: Scenario) -> tuple[Fraction, float]:
    """Return the epsilon [nats] and delta of one answer: its part of a sum, or about that of a plan, on its own."""
    assert scenario.epsilon is not None  # refused before
    answers, delta = scenario.answers_per_device, scenario.failure_chance
    if not composes(scenario):
        return scenario.epsilon / answers, delta / answers
    share = parse_epsilon(equal_share(scenario.epsilon, answers, delta))
    assert share is not None  # of a finite one
    return share, delta


def smallest_round(scenario: Scenario, asking: Asking | None = None) -> RoundSize:
    """Return how many devices the smallest round of a filled-in scenario asks."""
    users = scenario.world.users
    if scenario.policy == ONE_ROUND or asking is not None:
        return RoundSize(users if asking is None else asking.smallest)
    if scenario.policy == FIXED:
        return RoundSize(users * scenario.answers_per_device // scenario.rounds)
    if scenario.smallest_round:
        return RoundSize(min(users, scenario.smallest_round))
    most = RoundSize(max(1, users // SMALLEST), f"a {SMALLEST}th of the users")
    policies = mechanism_with(scenario.settings).policies_with()
    foreseen = scenario.policy in (ELIMINATE, ANCHOR) and scenario.policy in policies
    if not foreseen or isinstance(scenario.settings, UserClass):
        return most
    reports, (epsilon, delta) = ShuffledReports.of(scenario), answer_share(scenario)
    honest = (scenario.expected_answers or EXPECTED) * (1 - (scenario.assume_malicious or 0.0))
    need: dict[str, Any] = {
        "policy": scenario.policy,
        "confidence": scenario.confidence,
        "pool_size": scenario.pool_size,
    }
    size = size_by_law(reports, epsilon, delta, honest, **need)
    if size is None or size >= most.devices:
        beside = "" if size is None else f"; {size:,} would ask for the fewest in all"
        return RoundSize(most.devices, most.reason + beside)
    return RoundSize(size, "the size with which the policy should ask for the fewest users in all")


def shuffled_account(scenario: Scenario, asking: Asking | None) -> ShuffledAccount:
    """Return the account of a filled-in scenario behind a shuffler."""
    assert scenario.epsilon is not None  # refused before
    if asking is not None and _plans(scenario):
        return _planned_account(scenario, asking)
    if asking is not None and not asking.equal:
        raise InputError(
            f"schedule {scenario.schedule} has unequal shares, which behind a shuffler only set by exact composition "
            "can certify; choose both, or split"
        )
    smallest, honest = smallest_round(scenario, asking), 1 - (scenario.assume_malicious or 0.0)
    counted, answers = (scenario.expected_answers or EXPECTED) * honest, scenario.answers_per_device
    clauses: dict[str, Any] = {
        "trust": SHUFFLED,
        "users": scenario.users or MOST_DEVICES,
        "answers": answers,
        "epsilon": scenario.epsilon,
        "delta": scenario.failure_chance,
        "withhold": scenario.short_rounds != TELL,
        "counted": counted,
        "honest": honest,
    }
    relation = mechanism_with(scenario.settings).relation()
    account = partial(
        ShuffledAccount,
        trust=TRUST[SHUFFLED],
        guarantee=Guarantee(CENTRAL, relation, scenario.epsilon, scenario.failure_chance),
        answers=answers,
    )
    if scenario.policy == GROUPS:
        return _groups_account(scenario, account, clauses)
    devices = math.floor(smallest.devices * counted)
    _require_delta(scenario, devices, least=devices)
    # Sizes that are open are chosen first, so that the bound is computed for what will be asked, and once
    settled = scenario.model_copy(update={"settings": sizes_behind_shuffler(scenario, asking)})
    reports, share_delta = ShuffledReports.of(settled), answer_share(scenario)[1]
    plan = _plan(reports, scenario.epsilon, answers, share_delta, devices) if composes(scenario) else None
    if plan is not None:
        local, bound, levels = plan
        clauses |= {"composed": True, "levels": levels}
    elif scenario.composition == EXACT and answers > 1:
        raise InputError(
            "composition is exact, but the bound of this design comes from a matrix, which no plan can name; give "
            "--composition added"
        )
    else:
        share, share_delta = scenario.epsilon / answers, scenario.failure_chance / answers
        local, bound = _local(reports, share, share_delta, devices)
    return account(
        mechanism_epsilon=local * answers,
        devices=devices,
        share_delta=share_delta,
        agreement=Agreement(budget=local * answers, devices=smallest.devices, **clauses),
        bound=bound,
        smallest=smallest,
    )


def _plans(scenario: Scenario) -> bool:
    """Return whether a schedule's rounds are certified as one plan, whatever their shares are."""
    return scenario.mechanism.name == SET and scenario.composition != ADDED and scenario.short_rounds != TELL


def _planned_account(scenario: Scenario, asking: Asking) -> ShuffledAccount:
    """Return the account of a schedule behind a shuffler: as `blindrec years` has it, of the devices that there are."""
    assert scenario.epsilon is not None  # refused before
    if not scenario.settings.sizes_open:
        raise InputError("chosen is given, but behind a shuffler a plan chooses it for each round; leave it out")
    share_honest, delta = 1 - (scenario.assume_malicious or 0.0), scenario.failure_chance
    counted = (scenario.expected_answers or EXPECTED) * share_honest
    sizes = [(max(math.floor(part.devices * counted), 1), part.share) for part in asking.rounds]
    _require_delta(scenario, max(devices for devices, _ in sizes), least=1)
    honest = honest_counts(sizes)
    shared = {part: SharedRound(honest[size], part.share) for part, size in zip(asking.rounds, sizes, strict=True)}
    items, padded = scenario.world.items, _padded(scenario)
    designs = shuffled_plan(
        frozenset(tuple(sorted(shared[part] for part in history)) for history in asking.histories()),
        items=items,
        padded=padded,
        epsilon=scenario.epsilon,
        delta=delta,
    )
    rounds, subset_sizes = list[PlannedRound](), list[int]()
    for part in asking.rounds:
        design = designs[shared[part]]
        levels = subset_levels(items + padded, padded, design.subset_size)
        pair = levels.pi, levels.kappa
        rounds.append(PlannedRound(*part[:3], design.local_epsilon, shared[part].devices, pair))
        subset_sizes.append(design.subset_size)
    local = {part: designs[shared[part]].local_epsilon for part in asking.rounds}
    left = max(sum((local[part] for part in history), Fraction(0)) for history in asking.histories())
    users = scenario.users or MOST_DEVICES
    return ShuffledAccount(
        trust=TRUST[SHUFFLED],
        guarantee=Guarantee(CENTRAL, mechanism_with(scenario.settings).relation(), scenario.epsilon, delta),
        answers=asking.answers,
        mechanism_epsilon=left,
        devices=min(honest.values()),
        share_delta=delta,
        bound=TWO_LEVELS,
        smallest=RoundSize(asking.smallest),
        sizes=tuple(subset_sizes),
        agreement=Agreement(
            trust=SHUFFLED,
            users=users,
            budget=left,
            answers=asking.answers,
            epsilon=scenario.epsilon,
            delta=delta,
            counted=counted,
            honest=share_honest,
            composed=True,
            rounds=tuple(rounds),
        ),
    )


def _padded(scenario: Scenario) -> int:
    """Return the values of every device's set, the same in all rounds: those given, or best for the whole epsilon."""
    reports = ShuffledReports.of(scenario)
    return int(reports.query(scenario.epsilon).parameters[PADDED])


def _groups_account(
    scenario: Scenario,
    account: Callable[..., ShuffledAccount],
    clauses: Mapping[str, Any],
) -> ShuffledAccount:
    """Return the account of a policy with separately shuffled groups; the policy determines their sizes."""
    from coordinator.server.rounds.setting import GroupGuarantee  # noqa: PLC0415 (numerical)

    assert scenario.epsilon is not None  # refused before
    share_delta = answer_share(scenario)[1]
    groups = GroupGuarantee(epsilon=scenario.epsilon, delta=share_delta, honest=clauses["counted"])
    queries = _groups(scenario, groups)
    devices = min(count for _, count in queries)
    _require_delta(scenario, max(count for _, count in queries), least=devices)
    local = max(query.epsilon for query, _ in queries if query.epsilon is not None)
    return account(
        mechanism_epsilon=local * scenario.answers_per_device,
        devices=devices,
        share_delta=share_delta,
        agreement=Agreement(budget=local, devices=scenario.users or 1, **clauses),
        bound=TWO_LEVELS,
        smallest=RoundSize(smallest_round(scenario).devices),
        groups=groups,
    )


def _require_delta(scenario: Scenario, devices: int, *, least: int) -> None:
    answers = 1 if composes(scenario) else scenario.answers_per_device
    if least < 1 or scenario.failure_chance / answers > 1 / devices:
        remedy = f"ask more users, or give at most {answers / max(devices, 1):g}"
        raise InputError(f"delta is {scenario.failure_chance:g}, but rounds count on {devices:,} answers; {remedy}")


def _groups(scenario: Scenario, guarantee: GroupGuarantee) -> list[tuple[Query, int]]:
    """Return the queries of a design that asks groups, and the honest devices of each group."""
    from coordinator.server.rounds.group_policies import groups_policy  # noqa: PLC0415 (numerical)
    from coordinator.server.rounds.setting import Setting  # noqa: PLC0415

    design = design_of(scenario.settings, replace(scenario.world, block=None))
    setting = Setting(design=design, epsilon=guarantee.epsilon, public_seed=bytes(16), groups=guarantee)
    policy = groups_policy(setting)
    return policy.rehearsal(scenario.world.users)  # type: ignore[union-attr] # groups behind a shuffler


def sizes_behind_shuffler(scenario: Scenario, asking: Asking | None) -> Settings:
    """Return settings in which a subset has as many values as are best for the central epsilon, if none was given."""
    settings = scenario.settings
    if asking is not None and _plans(scenario):  # which chooses for each round
        return settings.model_copy(update={PADDED: _padded(scenario)})
    if not settings.sizes_open or scenario.policy == GROUPS:  # groups choose for each question
        return settings
    epsilon, delta = answer_share(scenario)
    query = ShuffledReports.of(scenario).query(epsilon)
    return settings.sized(query, honest_devices(scenario, asking), delta)


def honest_devices(scenario: Scenario, asking: Asking | None) -> int:
    """Return how many honest devices of its smallest round a filled-in scenario counts on."""
    honest = (scenario.expected_answers or EXPECTED) * (1 - (scenario.assume_malicious or 0.0))
    return math.floor(smallest_round(scenario, asking).devices * honest)


@lru_cache(maxsize=1 << 8)
def size_by_law(
    reports: ShuffledReports, epsilon: Fraction, delta: float, honest: float, *, policy: str, **need: Any
) -> int | None:
    """Return the size of the smallest round with which a policy should ask for the fewest users in all, if any."""
    # A round of s devices allows a local epsilon that rises with s; the policy takes the users U that it needs under
    # it, and about s more, by which it ends late. Of U + s over s the least is taken: ``s = sqrt(8 U0) / mu`` for one
    # bit, with U0 the users that no noise takes and mu the distance of the two laws that the server tells apart.
    from coordinator.server.parts import users_to_learn  # noqa: PLC0415 (numerical)
    from coordinator.server.rounds.setting import Setting  # noqa: PLC0415 (numerical)

    need |= {"clusters": reports.world.clusters, "own_questions": reports.own_questions}
    least, best = math.inf, 0.0
    for step in range(math.ceil((LARGEST_LOCAL - epsilon) / STEP)):
        local = epsilon + step * STEP
        setting = Setting(design=reports.design(local), epsilon=local, public_seed=bytes(16), **need)
        try:
            bound = reports.randomizer(local).bound
            users = users_to_learn(policy, setting)
        except InputError:  # of a local epsilon that no channel of these settings has, or under which it tells nothing
            continue
        size = rough_devices(bound, local_epsilon=float(local), epsilon=float(epsilon), delta=delta) / honest
        if users is None or size > least:
            break
        least, best = min((least, best), (users + size, size))
    return round_up(max(best, 2 / honest)) if best else None  # somebody is counted on


@lru_cache(maxsize=1 << 8)
def _local(reports: ShuffledReports, epsilon: Fraction, delta: float, devices: int) -> tuple[Fraction, str]:
    """Return the largest local epsilon of an answer that keeps a central one, and the name of the bound."""
    reports.require_same_everywhere(epsilon)
    local = largest_local_epsilon(
        lambda nats: reports.randomizer(parse_epsilon(nats)).bound, epsilon=epsilon, devices=devices, delta=delta
    )
    return local, reports.randomizer(local).name


@lru_cache(maxsize=1 << 8)
def _plan(
    reports: ShuffledReports, epsilon: Fraction, answers: int, delta: float, devices: int
) -> tuple[Fraction, str, tuple[float, float] | None] | None:
    """Return the largest local epsilon of so many answers, the name of the bound, and the plan's levels, if it can be.

    A channel that is bounded as a matrix has no levels, and as any randomizer it would have a smaller epsilon.
    """
    reports.require_same_everywhere(epsilon / answers)

    def bound(local: float) -> ShufflerBound:
        return reports.randomizer(parse_epsilon(local)).bound

    if isinstance(bound(as_float(epsilon / answers)), FiniteChannel):
        return None
    local = largest_plan_epsilon(bound, epsilon=epsilon, rounds=answers, devices=devices, delta=delta)
    if isinstance(levels := bound(float(local)), TwoLevels):
        return local, TWO_LEVELS, (levels.pi, levels.kappa)
    return local, CLONES, None
