"""Checks of a scenario: whether its mechanism, its policy, its trust model, its liars and its advice go together."""

from __future__ import annotations

from fractions import Fraction

from coordinator.protocol.budget import Epsilon, as_float
from coordinator.protocol.channels import bit_channel
from coordinator.protocol.errors import InputError, name_choices
from coordinator.protocol.mechanism import (
    ANCHOR,
    ELIMINATE,
    GROUPS,
    ONE_ROUND,
    POSTERIOR,
    TWO_ROUNDS,
    UNTIL_LEARNED,
    MechanismKind,
)
from coordinator.protocol.mechanisms import mechanism_of
from coordinator.protocol.trust_models import LOCAL, SHUFFLED, TWO_SERVERS
from scenarios.config.custom_halves import OwnSettings
from scenarios.config.files import brief
from scenarios.config.mechanism_settings import designs, shared_names
from scenarios.config.scenario import INPUT, PROMOTE, SET, Scenario
from scenarios.config.shuffled_account import check_shuffled

SMALLEST_EPSILON = Fraction(1, 10**9)  # Below it 10^18 users and more would have to answer


def check(scenario: Scenario) -> None:
    """Refuse what does not go together, whatever the numbers of the world are, by an `InputError`."""
    mechanism = scenario.mechanism
    scenario.check_trust()
    _check_servers(scenario, mechanism)
    if scenario.own_questions:
        _check_own_questions(scenario, mechanism)
    if scenario.trust == SHUFFLED:
        check_shuffled(scenario, mechanism)
    _check_policy_name(scenario, mechanism)
    if scenario.decoder not in mechanism.decoders:
        decoders = ", ".join(mechanism.decoders)
        raise InputError(f"decoder is {scenario.decoder!r}; choose one of {decoders} for {scenario.design}")
    if not mechanism.private and scenario.epsilon is not None:
        raise InputError(
            f"epsilon is {as_float(scenario.epsilon):g}, but {mechanism.name} is not private; say inf or leave it out"
        )
    _check_policy(scenario, mechanism)
    scenario.check_attack(mechanism.name, scenario.policy, knows_truth=scenario.ratings is None)
    _check_advice(scenario, mechanism)
    if mechanism.trust == LOCAL and not scenario.settings.splits:
        check_channel(scenario.epsilon, scenario.answers_per_device if scenario.trust == SHUFFLED else 1)


def _check_servers(scenario: Scenario, mechanism: MechanismKind) -> None:
    """Refuse two servers for what is no share, shares without them, and a delta that promises nothing."""
    shared = mechanism.trust == TWO_SERVERS
    if scenario.trust == TWO_SERVERS and not shared:
        names = ", ".join(shared_names())
        raise InputError(f"trust is {scenario.trust}, but {mechanism.name} is no sum of shares; give {names}")
    if shared and scenario.trust != TWO_SERVERS:
        raise InputError(
            f"trust is {scenario.trust}, but {mechanism.name} is added up by two servers; say {TWO_SERVERS}"
        )
    if not shared:
        return
    if scenario.epsilon is not None:
        check_channel(scenario.epsilon)
    if scenario.users is not None and scenario.failure_chance * scenario.users > 1:
        raise InputError(
            f"delta is {scenario.failure_chance:g} for {scenario.users:,} users; give at most 1 / users: at "
            "more, all that some device holds could be published"
        )
    if (attack := scenario.plotted) is not None and attack.name not in (PROMOTE, INPUT):
        raise InputError(f"attack is {attack.name}, but liars can only add to sums; choose {PROMOTE}:R or {INPUT}:R")
    for name in ("expected_answers", "assume_malicious"):
        value = getattr(scenario, name)
        if value is not None and scenario.value("noise") != "devices":
            raise InputError(f"{name} is {value:g}, which is about noise of devices; here servers add it, leave it out")


def check_channel(epsilon: Epsilon, questions: int = 1) -> None:
    """Refuse a privacy parameter that coins cannot express, or under which they say next to nothing."""
    if epsilon is not None and epsilon < SMALLEST_EPSILON:
        raise InputError(f"epsilon is {as_float(epsilon):g}; give at least {as_float(SMALLEST_EPSILON):g}")
    bit_channel(None if epsilon is None else epsilon / questions)


def _check_own_questions(scenario: Scenario, mechanism: MechanismKind) -> None:
    """Refuse a design whose devices cannot draw their questions, and liars, who would choose theirs."""
    if isinstance(scenario.settings, OwnSettings):
        raise InputError(
            f"own_questions is True, but devices of {mechanism.name}, a custom one, draw none; leave it out"
        )
    mechanism_of(mechanism.query_name(scenario.settings)).check_own_questions(
        f"own_questions is True: {mechanism.name}"
    )
    if scenario.malicious:
        raise InputError(f"malicious is {scenario.malicious:g} and own_questions is True; leave one out")


def _check_policy_name(scenario: Scenario, mechanism: MechanismKind) -> None:
    """Refuse a policy that does not exist, or that the design cannot follow."""
    policy, policies = scenario.policy, mechanism.policies_with(scenario.settings)
    if len(policies) == 1 and policy not in policies:
        raise InputError(f"policy is {policy!r}; {mechanism.name} takes {policies[0]} alone, leave it out")
    if policy not in policies and ":" not in policy:
        choices = f"{name_choices(policy, policies, 'choose one of')} for {mechanism.name}"
        choices += f", or {mechanism.all_policies_with}" if policy in mechanism.policies else ""
        raise InputError(f"policy is {policy!r}; {choices}, or your own, mypackage.mymodule:MyPolicy")


def _check_policy(scenario: Scenario, mechanism: MechanismKind) -> None:
    """Refuse settings of another policy."""
    policy, rounds, answers = scenario.policy, scenario.rounds, scenario.answers_per_device
    by_posterior = scenario.decoder == POSTERIOR
    if scenario.confidence != type(scenario).model_fields["confidence"].default and POSTERIOR not in mechanism.decoders:
        choices = " and ".join(other.name for other in designs().values() if POSTERIOR in other.decoders)
        raise InputError(
            f"confidence is {scenario.confidence}, which is about {choices}, not {mechanism.name}; leave it out"
        )
    if rounds != 2 and policy != "fixed":
        raise InputError(f"rounds is {rounds}, which is about policy fixed, not {policy}; leave it out")
    if answers != 1 and policy in (ONE_ROUND, UNTIL_LEARNED, GROUPS, ANCHOR, TWO_ROUNDS):
        raise InputError(
            f"answers_per_device is {answers}, but {policy} asks once; leave it out or choose another policy"
        )
    if policy == "fixed" and rounds % answers:
        raise InputError(f"rounds is {rounds}, a device answers in {answers} of them; give a multiple")
    if policy == GROUPS and by_posterior:
        raise InputError(f"decoder is {scenario.decoder!r}, but policy {GROUPS} asks several questions; leave it out")
    if policy in ("eliminate", "item-by-item") and not by_posterior:
        raise InputError(f"decoder is {scenario.decoder!r}; policy {policy} needs posterior, leave it out")
    _check_against_liars(scenario, mechanism, policy, by_posterior=by_posterior)


def _check_against_liars(scenario: Scenario, mechanism: MechanismKind, policy: str, *, by_posterior: bool) -> None:
    if scenario.pool_size is not None and not (by_posterior and policy in ("fixed", "eliminate")):
        able = "decoder posterior and policies fixed and eliminate"
        raise InputError(f"pool_size is {scenario.pool_size}, which is about {able}, not {policy}; leave it out")
    # Of two servers, and of a shuffler's rounds that do not go on, it is about fewer devices that hide one another
    hides = scenario.trust == TWO_SERVERS or (scenario.trust == SHUFFLED and policy != ELIMINATE)
    margin = None if hides else scenario.assume_malicious
    if margin is not None and (policy != "eliminate" or mechanism.name != "sign"):
        about = "which is about sign sensing with policy eliminate"
        raise InputError(
            f"assume_malicious is {margin:g}, {about}; the run is of {mechanism.name} with {policy}; leave it out"
        )


def _check_advice(scenario: Scenario, mechanism: MechanismKind) -> None:
    """Refuse features and public people where scores are no popularity that they could be weighed with."""
    if scenario.features is not None and not mechanism.ranks:
        features = brief(str(scenario.features))
        raise InputError(f"features is {features}, but scores of {mechanism.name} are no popularity; leave it out")
    if scenario.public and (mechanism.name != SET or scenario.decoder == POSTERIOR):
        by = f"not {mechanism.name} by {scenario.decoder}"
        raise InputError(f"public is {scenario.public:g}, which {SET} weighs with popularity, {by}; leave it out")
