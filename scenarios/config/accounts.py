"""The promise to a run's devices and who keeps it, before the run begins and after it has ended."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple

from coordinator.protocol.agreement import Agreement, PlannedNoise, PlannedRound, histories
from coordinator.protocol.budget import Epsilon, add, as_float
from coordinator.protocol.checked import MOST_DEVICES
from coordinator.protocol.coins import SEED_BYTES
from coordinator.protocol.counters import counter_deviation, counter_epsilon, standings_variance
from coordinator.protocol.errors import InputError
from coordinator.protocol.mechanism import TWO_ROUNDS, World
from coordinator.protocol.mechanisms import mechanism_of
from coordinator.protocol.messages import Query
from coordinator.protocol.schedule import COUNTER, MEMOIZE, NO_EPSILON
from coordinator.protocol.shared_vector import HONEST, SERVERS, SharedVector
from coordinator.protocol.shares import WORD_BYTES
from coordinator.protocol.summed_plan import (
    PlannedSum,
    RoundNoise,
    changes_by_deviation,
    history_epsilon,
    sum_of_epsilons,
    summed_plan,
)
from coordinator.protocol.trust_models import CURATOR, TRUST, TWO_SERVERS, TrustModel
from scenarios.config.custom_kinds import mechanism_with

if TYPE_CHECKING:
    from coordinator.server.rounds.scheduled import AskedRound, Asking
    from coordinator.server.rounds.setting import GroupGuarantee
    from coordinator.server.rounds.state import Ask, Counts
    from scenarios.config.scenario import Scenario

MEMOIZED = (
    f"{MEMOIZE} keeps no epsilon for histories, only one for each answer: one that differs from the last one shows "
    "that its value changed (blindrec audit --periods 12)"
)
NO_GUARANTEE = "none: epsilon is infinite, answers are not private"


class Guarantee(NamedTuple):
    """What is promised, in words and numbers."""

    text: str
    neighbours: str | None  # Which data it takes as neighbours; None where nothing is promised
    epsilon: Epsilon  # [nats]
    delta: float | None  # The probability that it fails, 0 but in central ones; None where nothing is promised


class RoundSize(NamedTuple):
    """How many devices the smallest round of a run asks, and why."""

    devices: int
    reason: str = ""  # In results; nothing where the settings say how many


EVERY_SIZE = RoundSize(0)


@dataclass(frozen=True, kw_only=True)
class Account:
    """The account of a run under local trust or with a curator: the promise before the run is what holds after it.

    Trust models that are more have accounts of their own.
    """

    trust: TrustModel
    guarantee: Guarantee
    answers: int  # Of a device, at most
    # What the mechanism is made for [nats]: for all answers of a device, or for the noise that two servers add
    mechanism_epsilon: Epsilon
    agreement: Agreement  # What devices and whoever stands between them and the server hold
    smallest: RoundSize = EVERY_SIZE  # How many devices a round asks at least
    groups: GroupGuarantee | None = None  # What groups are promised that are each shuffled apart
    sizes: tuple[int, ...] = ()  # Of a plan behind a shuffler, values that a report of each round names

    @property
    def budget(self) -> Epsilon:
        """The epsilon that devices privatize their answers with; a trusted curator gets ratings as they are."""
        return None if self.trust.name == CURATOR else self.mechanism_epsilon

    def planned(self, asking: Asking) -> tuple[PlannedRound, ...]:
        """Return a schedule's rounds: those of a plan, else each under its share of a device's budget."""
        return self.agreement.rounds or tuple(
            PlannedRound(part.period, part.first, part.stop, None if self.budget is None else self.budget * part.share)
            for part in asking.rounds
        )

    def resumed(self, agreement: Agreement) -> Account:
        """Return the account of an interrupted run: its epsilon is what was agreed, whatever bounds say now."""
        return replace(self, agreement=agreement, mechanism_epsilon=agreement.budget or self.mechanism_epsilon)

    def after(self, asks: Sequence[Ask], counts: Sequence[Counts]) -> Guarantee:  # noqa: ARG002 (whoever was asked)
        """Return what was kept of the guarantee, by what was asked and how many answered."""
        return self.guarantee

    def spent(self, asks: Sequence[Ask]) -> Epsilon:
        """Return what a device spends that answers these rounds [nats]: epsilons of its own answers add up."""
        total: Epsilon = Fraction(0)
        for ask in asks:
            total = add(total, ask.query.epsilon)
        return total

    def most_spent(self, asks: Sequence[Ask]) -> Epsilon:
        """Return what some device spends at most that answers the rounds in which it is asked [nats]."""
        if self.budget is None:
            return None
        return most_spent(asks, [ask.query.epsilon or Fraction(0) for ask in asks], self.answers)

    def columns(self, asks: Sequence[Ask], counts: Sequence[Counts], copies: int) -> dict[str, Any]:  # noqa: ARG002 (as above)
        """Return what results add to the guarantee if one person stands behind several devices."""
        return {}

    def period_columns(self, asks: Sequence[Ask], counts: Sequence[Counts]) -> dict[str, Any]:  # noqa: ARG002 (as above)
        """Return what results say of the last period of these rounds, which are all until then, beside who answered."""
        return {}


@dataclass(frozen=True, kw_only=True)
class MemoizedAccount(Account):
    """The account of answers that are repeated until what somebody likes changes: a history has no epsilon.

    Devices' ledgers count the epsilon of each answer.
    """

    def spent(self, asks: Sequence[Ask]) -> Epsilon:  # noqa: ARG002 (whatever was asked)
        """Return that no epsilon holds."""
        return None

    def most_spent(self, asks: Sequence[Ask]) -> Epsilon:  # noqa: ARG002 (as above)
        """Return that no epsilon holds."""
        return None


@dataclass(frozen=True, kw_only=True)
class ServersAccount(Account):
    """The account of two servers that add up shares: noise is for each sum, and sums that are opened add up."""

    def after(self, asks: Sequence[Ask], counts: Sequence[Counts]) -> Guarantee:
        """Return what was kept: delta is at least that of all sums that were opened."""
        delta, answers = self.guarantee.delta, self.agreement.answers
        mechanism = mechanism_of(asks[0].query.design)
        if delta is None or answers is None or not isinstance(mechanism, SharedVector):
            return self.guarantee
        costs = [
            Fraction(mechanism.delta(ask.query) * (count.answered > 0)) for ask, count in zip(asks, counts, strict=True)
        ]
        return self.guarantee._replace(delta=max(delta, float(most_spent(asks, costs, answers))))

    def columns(self, asks: Sequence[Ask], counts: Sequence[Counts], copies: int) -> dict[str, Any]:
        """Return the noise of the sums, and what is left if the servers lie; see `Account.columns`."""
        queries, central = [ask.query for ask in asks], as_float(self.guarantee.epsilon)
        mechanism = mechanism_of(queries[0].design)
        assert isinstance(mechanism, SharedVector)  # of no other design
        return {
            **sums_of(queries, counts[0].answered),
            "person_delta": group_delta(copies, central, self.after(asks, counts).delta or 0.0),
            # Where a second round asks about pairs, whose noise is another one
            **({"pair_deviation": mechanism.deviation(queries[1], counts[1].answered)} if len(queries) > 1 else {}),
        }


@dataclass(frozen=True, kw_only=True)
class PlannedSums(ServersAccount):
    """The account of a schedule at two servers: rounds, each under its own share, are certified as one plan."""

    def after(self, asks: Sequence[Ask], counts: Sequence[Counts]) -> Guarantee:  # noqa: ARG002 (no party opens others)
        """Return the guarantee, which holds for the whole plan."""
        return self.guarantee

    def spent(self, asks: Sequence[Ask]) -> Epsilon:
        """Return the epsilon of these rounds together, by what their noise composes to."""
        return self._composed([self.agreement.rounds[ask.query.round] for ask in asks])

    def most_spent(self, asks: Sequence[Ask]) -> Epsilon:
        """Return the largest epsilon of one device's rounds together."""
        every = histories(tuple(self.agreement.rounds[ask.query.round] for ask in asks))
        spent = [self._composed(rounds) for rounds in every]
        return None if None in spent else max(filter(None, spent), default=Fraction(0))

    def _composed(self, rounds: Sequence[PlannedRound]) -> Epsilon:
        epsilon, delta = self.guarantee.epsilon, self.agreement.delta
        if epsilon is None:
            return None
        if not delta or not rounds:
            return sum_of_epsilons(part.sum_round for part in rounds)
        changes = changes_by_deviation(part.sum_round for part in rounds)
        return history_epsilon(frozenset(changes.items()), epsilon, delta, devices=rounds[0].honest > 0)

    def columns(self, asks: Sequence[Ask], counts: Sequence[Counts], copies: int) -> dict[str, Any]:
        """Return the noise of the first sums that were opened, of likes and of pairs, and what is left if both lie."""
        (query, answered), *others = published_sums(asks, counts)
        bytes_sent = [Fraction(sums_of([ask.query], 1)["bytes_per_device"]) for ask in asks]
        pairs = [sums_of([other], heard)["noise_deviation"] for other, heard in others if other.pool is not None]
        return sums_of([query], answered) | {
            "bytes_per_device": int(most_spent(asks, bytes_sent, self.answers)),
            **({"pair_deviation": pairs[0]} if pairs else {}),
            "person_delta": group_delta(copies, as_float(self.guarantee.epsilon), self.guarantee.delta or 0.0),
        }

    def period_columns(self, asks: Sequence[Ask], counts: Sequence[Counts]) -> dict[str, Any]:
        """Return the noise of the period's first sums that were opened; None where all were withheld."""
        opened = (part for part in published_sums(asks, counts) if part[0].period == asks[-1].query.period)
        return {"noise_deviation": next((sums_of([query], heard)["noise_deviation"] for query, heard in opened), None)}


@dataclass(frozen=True, kw_only=True)
class CountedSums(PlannedSums):
    """The account of a counter at two servers: a person's likes of all periods count once each, under one noise."""

    def _composed(self, rounds: Sequence[PlannedRound]) -> Epsilon:
        epsilon, delta = self.guarantee.epsilon, self.agreement.delta
        if epsilon is None or not rounds:
            return epsilon if epsilon is None else Fraction(0)
        common = rounds[0].sum_round
        return counter_epsilon(len(rounds), common.changes, common.deviation, epsilon, delta)

    def columns(self, asks: Sequence[Ask], counts: Sequence[Counts], copies: int) -> dict[str, Any]:
        """Return what `PlannedSums.columns` does, with the noise of the last standings."""
        return super().columns(asks, counts, copies) | self.period_columns(asks, counts)

    def period_columns(self, asks: Sequence[Ask], counts: Sequence[Counts]) -> dict[str, Any]:
        """Return the noise of standings, the sums of all periods so far; None where all were withheld."""
        deviation, opened = self.agreement.rounds[0].sum_round.deviation, len(list(published_sums(asks, counts)))
        variance = SERVERS * standings_variance(opened, deviation) if deviation else 0.0
        return {"noise_deviation": math.sqrt(variance) if opened else None}


def published_sums(asks: Sequence[Ask], counts: Sequence[Counts]) -> Iterator[tuple[Query, int]]:
    """Yield the queries whose sums were opened, and their numbers of answers."""
    return ((ask.query, count.answered) for ask, count in zip(asks, counts, strict=True) if count.answered)


def sums_of(queries: Sequence[Query], answered: int) -> dict[str, Any]:
    """Return the noise of two servers' sums, what a device sends, and what is left if they lie."""
    mechanism, honest = mechanism_of(queries[0].design), int(queries[0].parameters[HONEST])
    assert isinstance(mechanism, SharedVector)  # looked at by the caller
    return {
        "epsilon_local": None,  # a device randomizes nothing
        "noise_deviation": mechanism.deviation(queries[0], answered),
        "honest_noise": honest or None,
        "bytes_per_device": sum(WORD_BYTES * mechanism.width(query) + SEED_BYTES for query in queries),
        **TRUST[TWO_SERVERS].guarantee(honest=honest),
    }


def plain_account(scenario: Scenario, asking: Asking | None) -> Account:  # noqa: ARG001 (as others)
    """Return the account of a filled-in scenario in which nobody is trusted, or a curator."""
    trust, epsilon, kind = TRUST[scenario.mechanism.trust], scenario.epsilon, Account
    guarantee, memoized = guarantee_of(scenario, delta=0.0), scenario.schedule == MEMOIZE
    if memoized:
        kind, guarantee = MemoizedAccount, Guarantee(NO_EPSILON, None, None, None)
        epsilon = None if epsilon is None else scenario.answers_per_device * epsilon
    return kind(
        trust=trust,
        guarantee=guarantee,
        answers=scenario.answers_per_device,
        mechanism_epsilon=epsilon,
        agreement=Agreement(
            trust=trust.name,
            users=scenario.users or MOST_DEVICES,
            budget=None if trust.name == CURATOR else epsilon,
            memoized=memoized,
        ),
    )


def servers_account(scenario: Scenario, asking: Asking | None) -> Account:
    """Return the account of a filled-in scenario whose devices send shares to two servers."""
    vector = scenario.settings
    assert isinstance(vector, SharedVector)  # of no other design
    honest, least_answers = vector.honest_devices(scenario.world)
    guarantee = guarantee_of(scenario, delta=scenario.failure_chance)
    if scenario.failure_chance > 0 and guarantee.neighbours is not None:
        guarantee = guarantee._replace(text=f"(epsilon, delta)-{guarantee.text.removeprefix('epsilon-')}")
    agreement = Agreement(
        trust=TWO_SERVERS,
        users=scenario.users or MOST_DEVICES,
        budget=scenario.epsilon,
        answers=2 if scenario.policy == TWO_ROUNDS else scenario.answers_per_device,
        epsilon=scenario.epsilon,
        delta=scenario.failure_chance,
        neighbours=vector.neighbours,
        noise_of=honest,
        least_answers=least_answers,
    )
    account = ServersAccount(
        trust=TRUST[TWO_SERVERS],
        guarantee=guarantee,
        answers=scenario.answers_per_device,
        mechanism_epsilon=scenario.epsilon,
        agreement=agreement,
    )
    if asking is not None and scenario.schedule == COUNTER:
        return _counted_sums(account, vector, scenario.world, asking, scenario.periods or 1)
    return account if asking is None else _planned_sums(account, vector, scenario.world, asking)


def _planned_sums(account: ServersAccount, vector: SharedVector, world: World, asking: Asking) -> PlannedSums:
    """Return the account of a schedule's sums: rounds have shares of changes / sigma^2, or of epsilon by Laplace."""
    agreement, start = account.agreement, asking.rounds[0].period

    def planned_sum(part: AskedRound) -> PlannedSum:
        return PlannedSum(part.share, vector.changes(vector.planned_ones(world, first=part.period == start)))

    if asking.rounds[-1].period == start and vector.planned_ones(world, first=False) != vector.planned_ones(
        world, first=True
    ):
        raise InputError(
            f"a schedule asks in period {start} alone, where {vector.name} ranks items; in later ones it pairs them, "
            "choose split, rotate or front"
        )
    noise: Mapping[PlannedSum, RoundNoise] = {}
    if agreement.epsilon is not None:
        noise = summed_plan(
            frozenset(tuple(map(planned_sum, history)) for history in asking.histories()),
            epsilon=agreement.epsilon,
            delta=agreement.delta,
            devices=agreement.noise_of > 0,
        )
    rounds = list[PlannedRound]()
    for part in asking.rounds:
        epsilon, deviation = noise.get(planned_sum(part), (None, 0.0))
        honest, least_answers = vector.honest_devices(replace(world, users=part.devices))
        planned = PlannedNoise(deviation, planned_sum(part).changes, least_answers)
        rounds.append(PlannedRound(*part[:3], epsilon, honest, noise=planned))
    budget: Epsilon = None
    if agreement.epsilon is not None:
        budget = max(sum_of_epsilons(part.sum_round for part in history) for history in histories(tuple(rounds)))
    agreement = replace(agreement, budget=budget, rounds=tuple(rounds), noise_of=0, least_answers=0)
    return PlannedSums(
        trust=account.trust,
        guarantee=account.guarantee,
        answers=asking.answers,
        mechanism_epsilon=budget,
        agreement=agreement,
    )


def _counted_sums(
    account: ServersAccount, vector: SharedVector, world: World, asking: Asking, periods: int
) -> CountedSums:
    """Return the account of a counter: a device's likes of all periods are at most those of one vector."""
    agreement, changes = account.agreement, vector.changes(vector.likes_counted(world))
    epsilon, deviation, budget = agreement.epsilon, 0.0, agreement.epsilon
    if epsilon is not None:
        deviation = counter_deviation(periods, changes, epsilon, agreement.delta)
        # What one round keeps whose noise were fresh, as all parties check it; ledgers add that up
        alone = frozenset({(deviation, changes)})
        epsilon = history_epsilon(alone, epsilon, agreement.delta, devices=False)
        budget = epsilon * len(asking.rounds)
    # A server whose sum were empty would publish nothing but noise that goes on
    noise = PlannedNoise(deviation, changes, least_answers=1)
    rounds = tuple(PlannedRound(*part[:3], epsilon, noise=noise) for part in asking.rounds)
    return CountedSums(
        trust=account.trust,
        guarantee=account.guarantee,
        answers=asking.answers,
        mechanism_epsilon=budget,
        agreement=replace(agreement, budget=budget, rounds=rounds, counter=periods),
    )


def guarantee_of(scenario: Scenario, *, delta: float) -> Guarantee:
    """Return what a scenario promises its users by its mechanism, whoever stands between."""
    private, mechanism = scenario.mechanism.private, mechanism_with(scenario.settings)
    if private and scenario.epsilon is None:
        return Guarantee(NO_GUARANTEE, None, None, None)
    relation = mechanism.relation()
    guarantee_text = mechanism_of(mechanism.query_name()).guarantee_under(relation)
    if not private:
        return Guarantee(guarantee_text, None, scenario.epsilon, None)
    return Guarantee(guarantee_text, relation, scenario.epsilon, delta)


def most_spent(asks: Sequence[Ask], costs: Sequence[Fraction], answers: int) -> Fraction:
    """Return what some device spent at most that answered ``answers`` of the rounds in which it was asked."""
    steps = defaultdict[int, Fraction](Fraction)
    for ask, cost in zip(asks, costs, strict=True):
        steps[ask.first] += cost
        steps[ask.stop] -= cost
    most = max(accumulate(step for _, step in sorted(steps.items())), default=Fraction(0))
    return min(most, answers * max(costs, default=Fraction(0)))


def group_delta(copies: int, epsilon: float, delta: float) -> float:
    """Return the delta of c devices of one person that answer apart: ``c exp((c - 1) epsilon) delta``, at most 1.

    >>> group_delta(2, 0.5, 1e-6), group_delta(5000, 1.0, 1e-6), group_delta(5000, 1.0, 0.0)
    (3.297442541400256e-06, 1.0, 0.0)
    """
    # By group privacy; its exponential is no float where a file's people answer thousands of times
    exponent = (copies - 1) * epsilon
    return min(1.0, copies * delta * (math.exp(exponent) if exponent < 700 else math.inf)) if delta else 0.0
