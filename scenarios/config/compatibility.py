"""What the parts of a run offer each other and need: mechanism, decoder, policy, trust model, liars, and advice."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from types import MappingProxyType

from coordinator.protocol.budget import Epsilon, as_float
from coordinator.protocol.channels import bit_channel
from coordinator.protocol.custom import UserClass
from coordinator.protocol.errors import InputError, name_choices
from coordinator.protocol.mechanism import (
    ANCHOR,
    ELIMINATE,
    FIXED,
    GROUPS,
    ITEM_BY_ITEM,
    ONE_ROUND,
    POSTERIOR,
    TWO_ROUNDS,
    UNTIL_LEARNED,
)
from coordinator.protocol.mechanisms import mechanism_of
from coordinator.protocol.mechanisms.oracles import Frequencies
from coordinator.protocol.mechanisms.totals import PairTotals, Totals
from coordinator.protocol.randomizers import by_address
from coordinator.protocol.schedule import COUNTER, MEMOIZE
from coordinator.protocol.trust_models import LOCAL, SHUFFLED, TWO_SERVERS
from scenarios.config.custom_kinds import MechanismKind, mechanism_with
from scenarios.config.files import brief
from scenarios.config.mechanism_settings import designs, shared_names
from scenarios.config.scenario import EXACT, INPUT, PROMOTE, SET, TELL, Scenario

SMALLEST_EPSILON = Fraction(1, 10**9)  # Below it 10^18 users and more would have to answer
# What parts offer
REPORTS, SENDERLESS, SUMS, SERVERS = "private reports", "reports without senders", "sums of shares", "two servers"
POPULARITY, POINTS, POSTERIORS = "scores by popularity", "points on a line", "posteriors"
SHARES, ONCE = "estimates of shares", "a round of everybody"
LATER_ROUNDS = "rounds that follow answers"
PERIOD_FIELDS = ("schedule", "drift", "item_arrivals", "churn", "ageing")
ASKS_ONCE = (ONE_ROUND, UNTIL_LEARNED, GROUPS, ANCHOR, TWO_ROUNDS)


def _nothing(scenario: Scenario) -> str | None:  # noqa: ARG001 (most parts have numbers that are checked where they are read)
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part of a run: what it offers, what it needs from other parts, and which settings concern it."""

    offers: frozenset[str] = frozenset()
    needs: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """What it needs, and what to say where nobody offers it."""
    fields: frozenset[str] = frozenset()  # Settings that some part must have, else they keep their defaults
    refuse: Callable[[Scenario], str | None] = _nothing  # What is wrong with its own settings; None: nothing


def check(scenario: Scenario) -> None:
    """Refuse what does not go together, whatever the numbers of the world are, by an `InputError`."""
    parts = tuple(_parts(scenario))
    offers = frozenset[str]().union(*(part.offers for part in parts))
    for part in parts:
        for need, complaint in part.needs.items():
            if need not in offers:
                raise InputError(complaint)
    owned = frozenset[str]().union(*(part.fields for part in parts))
    for name, about in _ABOUT.items():
        value = getattr(scenario, name)
        if name not in owned and value != type(scenario).model_fields[name].default:
            raise InputError(f"{name} is {brief(value)}, {about(scenario)}")
    for part in parts:
        if wrong := part.refuse(scenario):
            raise InputError(wrong)


def _parts(scenario: Scenario) -> Iterator[Part]:
    """Yield the parts of a scenario."""
    mechanism = scenario.mechanism
    yield _mechanism_part(scenario, mechanism)
    yield _decoder_part(scenario, mechanism)
    yield _policy_part(scenario, mechanism)
    yield _TRUST[scenario.trust](scenario, mechanism)
    if scenario.own_questions:
        yield _own_questions_part(mechanism)
    if scenario.timed:
        yield _periods_part(scenario, mechanism)
    yield _liars_part(mechanism)
    yield _advice_part(scenario, mechanism)


def _mechanism_part(scenario: Scenario, mechanism: MechanismKind) -> Part:
    """Return the part of the mechanism: its decoders and policies, and whether devices randomize or send shares."""
    shared, local = mechanism.trust == TWO_SERVERS, mechanism.private and mechanism.trust == LOCAL
    policies = mechanism_with(scenario.settings).policies_with()
    offers = {f"decoder {name}" for name in mechanism.decoders} | {f"policy {name}" for name in policies}
    offers |= {"policy of one's own"} if len(policies) > 1 else set()
    offers |= {SUMS} if shared else {REPORTS} if local else set()
    offers |= {POPULARITY} if mechanism.ranks else set()
    custom = isinstance(scenario.settings, UserClass)
    by_shares = isinstance(scenario.settings, Frequencies | Totals | PairTotals) and mechanism.ranks and not custom
    offers |= {SHARES} if by_shares else set()
    # of a short custom class it is looked at once it can be admitted
    if not (mechanism if custom else mechanism_of(mechanism_with(scenario.settings).query_name())).by_address:
        offers |= {SENDERLESS}
    servers = f"trust is {scenario.trust}, but {mechanism.name} is added up by two servers; say {TWO_SERVERS}"
    return Part(
        offers=frozenset(offers),
        needs={SERVERS: servers} if shared else {},
        fields=frozenset({"confidence"} if POSTERIOR in mechanism.decoders else ()),
        refuse=_refused_epsilon,
    )


def _refused_epsilon(scenario: Scenario) -> str | None:
    mechanism, epsilon = scenario.mechanism, scenario.epsilon
    if not mechanism.private and epsilon is not None:
        return f"epsilon is {as_float(epsilon):g}, but {mechanism.name} is not private; say inf or leave it out"
    if mechanism.trust == LOCAL and not scenario.settings.splits:
        check_channel(epsilon, scenario.answers_per_device if scenario.trust == SHUFFLED else 1)
    return None


def check_channel(epsilon: Epsilon, questions: int = 1) -> None:
    """Refuse a privacy parameter that coins cannot express, or under which they say next to nothing."""
    if epsilon is not None and epsilon < SMALLEST_EPSILON:
        raise InputError(f"epsilon is {as_float(epsilon):g}; give at least {as_float(SMALLEST_EPSILON):g}")
    bit_channel(None if epsilon is None else epsilon / questions)


def _decoder_part(scenario: Scenario, mechanism: MechanismKind) -> Part:
    decoder = scenario.decoder
    choices = f"choose one of {', '.join(mechanism.decoders)} for {scenario.design}"
    return Part(
        offers=frozenset({POSTERIORS if decoder == POSTERIOR else POINTS}),
        needs={f"decoder {decoder}": f"decoder is {decoder!r}; {choices}"},
    )


def _policy_part(scenario: Scenario, mechanism: MechanismKind) -> Part:
    """Return the part of the policy, which the mechanism can follow, or one of somebody's own."""
    policy, decoder = scenario.policy, scenario.decoder
    needs = {"policy of one's own" if ":" in policy else f"policy {policy}": _no_policy(scenario, mechanism)}
    if policy == GROUPS:
        needs[POINTS] = f"decoder is {decoder!r}, but policy {GROUPS} asks several questions; leave it out"
    if policy in (ELIMINATE, ITEM_BY_ITEM):
        needs[POSTERIORS] = f"decoder is {decoder!r}; policy {policy} needs posterior, leave it out"
    fields = {"rounds"} if policy == FIXED else set()
    fields |= {"answers_per_device"} if policy not in ASKS_ONCE else set()
    fields |= {"pool_size"} if policy in (FIXED, ELIMINATE) and decoder == POSTERIOR else set()
    fields |= {"assume_malicious"} if policy == ELIMINATE and mechanism.name == "sign" else set()
    offers = {LATER_ROUNDS} if policy not in (ONE_ROUND, FIXED, GROUPS) else set()
    offers |= {ONCE} if policy in (ONE_ROUND, TWO_ROUNDS) else set()
    return Part(offers=frozenset(offers), needs=needs, fields=frozenset(fields), refuse=_refused_rounds)


def _no_policy(scenario: Scenario, mechanism: MechanismKind) -> str:
    """Say that the mechanism cannot follow the policy, and which it can."""
    policy, policies = scenario.policy, mechanism_with(scenario.settings).policies_with()
    if len(policies) == 1:
        return f"policy is {policy!r}; {mechanism.name} takes {policies[0]} alone, leave it out"
    choices = f"{name_choices(policy, policies, 'choose one of')} for {mechanism.name}"
    choices += f", or {mechanism.all_policies_with}" if policy in mechanism.policies else ""
    return f"policy is {policy!r}; {choices}, or your own, mypackage.mymodule:MyPolicy"


def _refused_rounds(scenario: Scenario) -> str | None:
    rounds, answers = scenario.rounds, scenario.answers_per_device
    if scenario.policy == FIXED and rounds % answers:
        return f"rounds is {rounds}, a device answers in {answers} of them; give a multiple"
    return None


def _local_part(scenario: Scenario, mechanism: MechanismKind) -> Part:  # noqa: ARG001 (as those of other trust models)
    return Part()


def _shuffled_part(scenario: Scenario, mechanism: MechanismKind) -> Part:
    """Return the part of a shuffler, which hides who sent what devices randomized."""
    policy = scenario.policy
    needs = {
        REPORTS: f"devices do not randomize for {mechanism.name}: nothing to shuffle; give grr, oue, subset or set",
        SENDERLESS: by_address(mechanism.name),
    }
    if scenario.smallest_round is not None:
        needs[LATER_ROUNDS] = f"smallest_round is {scenario.smallest_round}, which {policy} has not; leave it out"
    fields = {"delta", "expected_answers", "short_rounds", "smallest_round", "composition"}
    # in rounds that do not go on it is about fewer devices that hide one another
    fields |= {"assume_malicious"} if policy != ELIMINATE else set()
    return Part(needs=needs, fields=frozenset(fields), refuse=_refused_by_shuffler)


def _refused_by_shuffler(scenario: Scenario) -> str | None:
    if scenario.epsilon is None:
        return f"trust is {scenario.trust} and epsilon is inf; a shuffler amplifies a finite one, give one"
    if counted := getattr(scenario.settings, "counted_group", 0.0):
        return f"counted_group is {counted:g}, but behind a shuffler it follows from settings; leave it out"
    if scenario.delta == 0:
        return "delta is 0, but shuffling gains with a positive one only; leave it out"
    if scenario.composition == EXACT and scenario.short_rounds == TELL:
        return "composition is exact, but a round that is told short breaks the plan; say added, or withhold"
    return None


def _servers_part(scenario: Scenario, mechanism: MechanismKind) -> Part:
    """Return the part of two servers, which add up shares."""
    names = ", ".join(shared_names())
    return Part(
        offers=frozenset({SERVERS, SENDERLESS}),
        needs={SUMS: f"trust is {scenario.trust}, but {mechanism.name} is no sum of shares; give {names}"},
        fields=frozenset({"delta", "expected_answers", "assume_malicious"}),
        refuse=_refused_by_servers,
    )


def _refused_by_servers(scenario: Scenario) -> str | None:
    if scenario.epsilon is not None:
        check_channel(scenario.epsilon)
    if scenario.users is not None and scenario.failure_chance * scenario.users > 1:
        return (
            f"delta is {scenario.failure_chance:g} for {scenario.users:,} users; give at most 1 / users: at more, all "
            "that some device holds could be published"
        )
    if (attack := scenario.plotted) is not None and attack.name not in (PROMOTE, INPUT):
        return f"attack is {attack.name}, but liars can only add to sums; choose {PROMOTE}:R or {INPUT}:R"
    for name in ("expected_answers", "assume_malicious"):
        value = getattr(scenario, name)
        if value is not None and scenario.value("noise") != "devices":
            return f"{name} is {value:g}, which is about noise of devices; here servers add it, leave it out"
    return None


_TRUST: Mapping[str, Callable[[Scenario, MechanismKind], Part]] = {
    LOCAL: _local_part,
    SHUFFLED: _shuffled_part,
    TWO_SERVERS: _servers_part,
}


def _own_questions_part(mechanism: MechanismKind) -> Part:
    """Return the part of devices that draw their questions, so that reports need no sender."""

    def refused(scenario: Scenario) -> str | None:
        asks = mechanism_of(mechanism_with(scenario.settings).query_name())
        asks.check_own_questions(f"own_questions is True: {mechanism.name}")
        if scenario.malicious:
            return f"malicious is {scenario.malicious:g} and own_questions is True; leave one out"
        return None

    return Part(offers=frozenset({SENDERLESS}), refuse=refused)


def _periods_part(scenario: Scenario, mechanism: MechanismKind) -> Part:
    """Return the part of periods, which a schedule asks in rounds of its own."""
    needs = {
        SHARES: f"time counts, but answers to {mechanism.name} estimate no shares, which could age; "
        "choose set, a frequency oracle, totals or pair-totals",
        ONCE: f"policy is {scenario.policy}, but over periods of time the schedule says who answers; leave it out",
        POINTS: f"decoder is {scenario.decoder!r}, but labels of estimates that age are read by k-means; leave it out",
    }

    def refused(scenario: Scenario) -> str | None:
        if scenario.public:
            return f"public is {scenario.public:g}; over periods of time nobody's ratings are public, leave one out"
        if scenario.malicious:
            return f"malicious is {scenario.malicious:g}; what liars do over periods is not known, leave one out"
        if mechanism.name == PairTotals.name and scenario.ageing != type(scenario).model_fields["ageing"].default:
            return f"ageing is {scenario.ageing:g}, but pairs of all periods are pooled; leave it out"
        if scenario.schedule == MEMOIZE and (mechanism.name, scenario.trust) != (SET, LOCAL):
            theirs = f"{mechanism.name} and {scenario.trust}"
            return f"schedule {MEMOIZE} is about design {SET} and trust {LOCAL}, not {theirs}; choose another schedule"
        paired = mechanism.name == PairTotals.name
        if scenario.item_arrivals and (paired or scenario.schedule == MEMOIZE):
            again = f"{mechanism.name} pairs" if paired else f"schedule {MEMOIZE} repeats answers about"
            return f"item_arrivals is {scenario.item_arrivals:g}, but {again} items that went; leave one out"
        return _refused_counter(scenario, mechanism) if scenario.schedule == COUNTER else None

    return Part(needs=needs, fields=frozenset(PERIOD_FIELDS), refuse=refused)


def _refused_counter(scenario: Scenario, mechanism: MechanismKind) -> str | None:
    """Say what a counter lacks: its noise goes on from one period to the next, which only servers that stay can add."""
    fields = type(scenario).model_fields
    if (mechanism.name, scenario.trust) != (Totals.name, TWO_SERVERS):
        return (
            f"schedule {COUNTER} is about design {Totals.name} and trust {TWO_SERVERS}, not {mechanism.name} and "
            f"{scenario.trust}; choose another schedule"
        )
    if scenario.value("noise") == "devices":
        return f"noise is devices, who leave while that of schedule {COUNTER} goes on; let servers add it"
    if scenario.delta == 0:
        return f"delta is 0, but the noise of schedule {COUNTER} is Gaussian; leave it out"
    if scenario.ageing != fields["ageing"].default:
        return f"ageing is {scenario.ageing:g}, but schedule {COUNTER} adds up all periods; leave it out"
    if scenario.item_arrivals:
        return (
            f"item_arrivals is {scenario.item_arrivals:g}, but schedule {COUNTER} keeps the likes of items that went; "
            "leave one out"
        )
    return None


def _liars_part(mechanism: MechanismKind) -> Part:
    def refused(scenario: Scenario) -> str | None:
        return scenario.refused_attack(mechanism.name, scenario.policy, knows_truth=scenario.ratings is None)

    return Part(refuse=refused)


def _advice_part(scenario: Scenario, mechanism: MechanismKind) -> Part:
    """Return the part of features and public people, which popularity is weighed with."""
    needs = {}
    if scenario.features is not None:
        features = brief(str(scenario.features))
        needs[POPULARITY] = f"features is {features}, but scores of {mechanism.name} are no popularity; leave it out"
    fields = {"public"} if mechanism.name == SET and scenario.decoder != POSTERIOR else set()
    return Part(needs=needs, fields=frozenset(fields))


def _about_confidence(scenario: Scenario) -> str:
    able = " and ".join(other.name for other in designs().values() if POSTERIOR in other.decoders)
    return f"which is about {able}, not {scenario.mechanism.name}; leave it out"


def _about_trust(*models: str) -> Callable[[Scenario], str]:
    return lambda scenario: f"which is about --trust {' or '.join(models)}; the trust is {scenario.trust}"


_ABOUT: Mapping[str, Callable[[Scenario], str]] = {
    **dict.fromkeys(PERIOD_FIELDS, lambda _: "which is about periods of time; give --periods, too"),
    "delta": _about_trust(SHUFFLED, TWO_SERVERS),
    "expected_answers": _about_trust(SHUFFLED, TWO_SERVERS),
    **dict.fromkeys(("short_rounds", "smallest_round", "composition"), _about_trust(SHUFFLED)),
    "confidence": _about_confidence,
    "rounds": lambda scenario: f"which is about policy fixed, not {scenario.policy}; leave it out",
    "answers_per_device": lambda scenario: f"but {scenario.policy} asks once; leave it out or choose another policy",
    "pool_size": lambda scenario: (
        f"which is about decoder posterior and policies fixed and eliminate, not {scenario.policy}; leave it out"
    ),
    "assume_malicious": lambda scenario: (
        "which is about sign sensing with policy eliminate; the run is of "
        f"{scenario.mechanism.name} with {scenario.policy}; leave it out"
    ),
    "public": lambda scenario: (
        f"which {SET} weighs with popularity, not {scenario.mechanism.name} by {scenario.decoder}; leave it out"
    ),
}
"""Settings that are about some parts only, and what to say where there is none of these."""
