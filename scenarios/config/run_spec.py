"""What a run begins with: a filled-in scenario, completed once by what its mechanism and its policy make of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coordinator.protocol.agreement import Agreement
from coordinator.protocol.budget import Epsilon, as_float
from coordinator.protocol.channels import bit_channel
from coordinator.protocol.checked import MOST_DEVICES
from coordinator.protocol.coins import derive
from coordinator.protocol.custom import CustomMechanism
from coordinator.protocol.custom_adapter import adapter
from coordinator.protocol.errors import InputError, PolicyError, name_choices
from coordinator.protocol.mechanism import (
    ANCHOR,
    ELIMINATE,
    GROUPS,
    ONE_ROUND,
    POSTERIOR,
    TRUST_CURATOR,
    TRUST_LOCAL,
    TRUST_TWO_SERVERS,
    TWO_ROUNDS,
    UNTIL_LEARNED,
    Mechanism,
    MechanismKind,
    World,
)
from coordinator.protocol.mechanisms import mechanism_of
from coordinator.protocol.mechanisms.totals import SharedVector
from coordinator.protocol.trust import SHUFFLED, TWO_SERVERS
from coordinator.server.design import Design, LearnerOptions
from scenarios.config.admission import ChannelCheck, admitted_of_run
from scenarios.config.central_promise import CentralPromise, check_shuffled, shuffled_of
from scenarios.config.custom_halves import OwnSettings
from scenarios.config.files import brief
from scenarios.config.identity import import_object
from scenarios.config.mechanism_settings import designs, shared_names
from scenarios.config.mechanism_settings import server_half as named_half
from scenarios.config.scenario import INPUT, PROMOTE, SET, Scenario, TrustSettings
from scenarios.config.settings import validated

if TYPE_CHECKING:
    from coordinator.protocol.decoding.estimates import PublicCounts
    from coordinator.server.rounds.learner import Learner
    from coordinator.server.rounds.setting import Setting
    from coordinator.server.rounds.state import Policy

SMALLEST_EPSILON = Fraction(1, 10**9)  # Below it 10^18 users and more would have to answer
NO_GUARANTEE = "none: epsilon is infinite, answers are not private"
CENTRAL = "(epsilon, delta)-differential privacy of all that a device holds, of what a shuffler hands on of its round"


@dataclass(frozen=True)
class RunSpec:
    """A filled-in and settled scenario with its mechanism, policy and learner, each made when it is first needed."""

    scenario: Scenario
    public: PublicCounts | None = None  # What people with public ratings like, where a file has some
    # Of an interrupted run: its local epsilon is that one's, however bounds are computed by now
    begun: Agreement | None = None
    promise: CentralPromise | None = None  # Of the same run with another seed, so that it is computed once

    def __post_init__(self) -> None:
        """Refuse what the mechanism cannot do, by an `InputError`; ranges in a file's world once it is filled in."""
        scenario, half = self.scenario, self.half
        scenario.check_trust()
        check_servers(scenario, half)
        if scenario.own_questions:
            _check_own_questions(scenario, half)
        if scenario.trust == SHUFFLED:
            check_shuffled(scenario, half)
        _check_policy_name(scenario, half)  # before the promise of a shuffler, which some policies divide into groups
        if scenario.trust == SHUFFLED and (scenario.ratings is None or scenario.items is not None):
            scenario = self.local_scenario
        if scenario.decoder not in half.decoders:
            decoders = ", ".join(half.decoders)
            raise InputError(f"decoder is {scenario.decoder!r}; choose one of {decoders} for {scenario.design}")
        if not half.private and scenario.epsilon is not None:
            raise InputError(
                f"epsilon is {as_float(scenario.epsilon):g}, but {half.name} is not private; say inf or leave it out"
            )
        _check_policy(scenario, half)
        scenario.check_attack(half.name, scenario.policy, knows_truth=scenario.ratings is None)
        _check_advice(scenario, half)
        settings = scenario.settings
        # Local epsilons of a plan behind a shuffler are together far above what one answer's coins can express
        answers = scenario.answers_per_device if self.scenario.trust == SHUFFLED else 1
        if half.trust == TRUST_LOCAL and not settings.splits:
            _check_channel(scenario.epsilon, answers)
        if scenario.ratings is not None and scenario.items is None:
            return
        world = scenario.filled.world
        if settings.settled:
            half.design(settings, world)
        if settings.splits:
            _check_channel(scenario.epsilon, answers * settings.most_questions(world))

    @cached_property
    def half(self) -> MechanismKind:
        """The kind of the mechanism."""
        return half_in(self.scenario)

    def of(self, seed: int) -> RunSpec:
        """Return the run with another seed; nothing is resolved again."""
        return replace(self, scenario=self.scenario.model_copy(update={"seed": seed}), promise=self.shuffled)

    @cached_property
    def shuffled(self) -> CentralPromise | None:
        """What devices behind a shuffler are promised; None where there is none."""
        if self.scenario.trust != SHUFFLED:
            return None
        promise = self.promise or shuffled_of(self.scenario.filled, self.half)
        if self.begun is None or self.begun.budget is None:
            return promise
        return replace(promise, local=self.begun.budget / self.scenario.answers_per_device, agreement=self.begun)

    @cached_property
    def local_scenario(self) -> Scenario:
        """The scenario as devices answer it: under their local epsilon, whoever stands between them and the server."""
        if self.shuffled is None:
            return self.scenario
        trust = {name: field.default for name, field in TrustSettings.model_fields.items() if name != "own_questions"}
        local = self.shuffled.local * self.scenario.answers_per_device
        if self.scenario.policy != ELIMINATE:  # of liars who hide nobody, and nothing else
            trust["assume_malicious"] = None
        return self.scenario.model_copy(update={**trust, "epsilon": local})

    @property
    def world(self) -> World:
        """What the mechanism knows of the world."""
        return self.local_scenario.world

    @cached_property
    def design(self) -> Design:
        """What is asked; an `InputError` where settings are outside their ranges."""
        design: Design = self.half.design(self.scenario.settings, self.world)
        return design

    @property
    def budget(self) -> Epsilon:
        """The epsilon that devices privatize their answers with; a trusted curator gets ratings as they are."""
        return None if self.half.trust == TRUST_CURATOR else self.local_scenario.epsilon

    @property
    def trust(self) -> str:
        """Whom devices trust, by the name of the trust model."""
        return self.half.trust if self.shuffled is None else SHUFFLED

    @cached_property
    def agreement(self) -> Agreement:
        """What was promised, as devices and whoever stands between them and the server hold it."""
        if self.begun is not None:
            return self.begun
        scenario, mechanism = self.scenario, self.scenario.settings
        general: dict[str, Any] = {"designs": self.learner.asks, "users": scenario.users or MOST_DEVICES}
        if self.shuffled is not None:
            return replace(self.shuffled.agreement, **general)
        general |= {"trust": self.half.trust, "budget": self.budget}
        if not isinstance(mechanism, SharedVector):
            return Agreement(**general)
        honest, least_answers = mechanism.honest_devices(self.world)
        return Agreement(
            **general,
            answers=2 if scenario.policy == TWO_ROUNDS else scenario.answers_per_device,
            epsilon=scenario.epsilon,
            delta=scenario.failure_chance,
            neighbours=mechanism.neighbours,
            noise_of=honest,
            least_answers=least_answers,
        )

    @property
    def guarantee(self) -> str:
        """What the scenario promises its users, in words."""
        if self.half.private and self.scenario.epsilon is None:
            return NO_GUARANTEE
        if self.shuffled is not None:
            return CENTRAL
        promise = mechanism_of(self.half.query_name(self.scenario.settings)).promise_under(self._relation)
        approximate = self.half.trust == TRUST_TWO_SERVERS and self.scenario.failure_chance > 0
        return f"(epsilon, delta)-{promise.removeprefix('epsilon-')}" if approximate else promise

    @property
    def neighbours(self) -> str | None:
        """Which data the guarantee takes as neighbours; None where nothing is promised."""
        return self._relation if self.half.private and self.scenario.epsilon is not None else None

    @property
    def delta(self) -> float | None:
        """The probability that the guarantee fails, 0 but in central ones; None where nothing is promised."""
        if self.shuffled is not None or (self.half.trust == TRUST_TWO_SERVERS and self.neighbours is not None):
            return self.scenario.failure_chance
        return None if self.neighbours is None else 0.0

    @property
    def _relation(self) -> str:
        return str(self.half.relation(self.scenario.settings))

    @cached_property
    def own(self) -> tuple[CustomMechanism, ChannelCheck] | None:
        """The custom mechanism, checked and admitted, and how; None where it is none."""
        # of a central promise this is what each device keeps by itself
        answer = None if self.budget is None else self.budget / self.scenario.answers_per_device
        return admitted_of_run(self.scenario.settings, self.world, answer)

    @cached_property
    def setting(self) -> Setting:
        """What the policy knows; a trusted curator's devices answer without noise."""
        from coordinator.server.rounds.setting import Setting  # noqa: PLC0415 (numerical, as all policies)

        scenario = self.scenario
        return Setting(
            design=self.design,
            epsilon=self.budget,
            public_seed=derive(scenario.seed, "public"),
            clusters=scenario.clusters or 2,
            confidence=scenario.confidence,
            answers_per_device=scenario.answers_per_device,
            pool_size=scenario.pool_size,
            assume_malicious=scenario.assume_malicious or 0.0,
            smallest_round=self.shuffled.smallest.devices if self.shuffled else 0,
            groups=self.shuffled.groups if self.shuffled else None,
            own_questions=scenario.own_questions,
        )

    @cached_property
    def policy(self) -> Policy:
        """The server's policy; a `PolicyError` if it is a custom one and cannot be imported or made."""
        name = self.scenario.policy
        if ":" not in name:
            from coordinator.server.parts import policy_of  # noqa: PLC0415 (numerical)
            from coordinator.server.rounds.policies import PolicyOptions  # noqa: PLC0415

            scenario = self.scenario
            options = PolicyOptions(devices=scenario.users or 0, rounds=scenario.rounds)
            return policy_of(name, self.setting, options)
        try:
            policy = import_object(name, "policy")(self.setting)
        except PolicyError:
            raise
        except (Exception, SystemExit) as error:
            why = f"{type(error).__name__}: {error}; it is called with one blindrec.Setting"
            raise PolicyError(f"policy {name} cannot be made: {why}") from error
        if not callable(getattr(policy, "next_query", None)):
            raise PolicyError(f"policy {name} has no method next_query(state); see blindrec.Policy")
        return policy  # type: ignore[no-any-return] # looked at above

    @cached_property
    def learner(self) -> Learner:
        """How the server learns; a trusted curator has coins that nobody else knows."""
        from coordinator.server.parts import learner_of  # noqa: PLC0415 (numerical)

        scenario = self.scenario
        options = LearnerOptions(
            decoder=scenario.decoder,
            confidence=scenario.confidence,
            assume_malicious=scenario.assume_malicious or 0.0,
            curator_seed=derive(scenario.seed, "curator"),
            public=self.public,
        )
        mechanism = scenario.settings if self.own is None else adapter(self.own[0])
        assert isinstance(mechanism, Mechanism)  # settings of a custom class are none, which has an adapter
        return learner_of(mechanism, self.world, options)


def half_in(scenario: Scenario) -> MechanismKind:
    """Return the server's half of a scenario's mechanism."""
    settings = scenario.settings
    return settings.half if isinstance(settings, OwnSettings) else named_half(scenario.design)


def load_scenario(path: Path | None, flags: dict[str, Any], *, allow_code: bool = False) -> Scenario:
    """Read a scenario from a TOML file and flags, which win, and refuse what its mechanism cannot do."""
    scenario = validated(Scenario, path, flags, allow_code=allow_code)
    RunSpec(scenario)
    return scenario


def check_servers(scenario: Scenario, half: MechanismKind) -> None:
    """Refuse two servers for what is no share, shares without them, and a delta that promises nothing."""
    shared = half.trust == TRUST_TWO_SERVERS
    if scenario.trust == TWO_SERVERS and not shared:
        names = ", ".join(shared_names())
        raise InputError(f"trust is {scenario.trust}, but {half.name} is no sum of shares; give {names}")
    if shared and scenario.trust != TWO_SERVERS:
        raise InputError(f"trust is {scenario.trust}, but {half.name} is added up by two servers; say {TWO_SERVERS}")
    if not shared:
        return
    if scenario.epsilon is not None:
        _check_channel(scenario.epsilon)
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


def _check_channel(epsilon: Epsilon, questions: int = 1) -> None:
    """Refuse a privacy parameter that coins cannot express, or under which they say next to nothing."""
    if epsilon is not None and epsilon < SMALLEST_EPSILON:
        raise InputError(f"epsilon is {as_float(epsilon):g}; give at least {as_float(SMALLEST_EPSILON):g}")
    bit_channel(None if epsilon is None else epsilon / questions)


def _check_own_questions(scenario: Scenario, half: MechanismKind) -> None:
    """Refuse a design whose devices cannot draw their questions, and liars, who would choose theirs."""
    if isinstance(scenario.settings, OwnSettings):
        raise InputError(f"own_questions is True, but devices of {half.name}, a custom one, draw none; leave it out")
    mechanism_of(half.query_name(scenario.settings)).check_own_questions(f"own_questions is True: {half.name}")
    if scenario.malicious:
        raise InputError(f"malicious is {scenario.malicious:g} and own_questions is True; leave one out")


def _check_policy_name(scenario: Scenario, half: MechanismKind) -> None:
    """Refuse a policy that does not exist, or that the design cannot follow."""
    policy, policies = scenario.policy, half.policies_with(scenario.settings)
    if len(policies) == 1 and policy not in policies:
        raise InputError(f"policy is {policy!r}; {half.name} takes {policies[0]} alone, leave it out")
    if policy not in policies and ":" not in policy:
        choices = f"{name_choices(policy, policies, 'choose one of')} for {half.name}"
        choices += f", or {half.all_policies_with}" if policy in half.policies else ""
        raise InputError(f"policy is {policy!r}; {choices}, or your own, mypackage.mymodule:MyPolicy")


def _check_policy(scenario: Scenario, half: MechanismKind) -> None:
    """Refuse settings of another policy."""
    policy, rounds, answers = scenario.policy, scenario.rounds, scenario.answers_per_device
    by_posterior = scenario.decoder == POSTERIOR
    if scenario.confidence != type(scenario).model_fields["confidence"].default and POSTERIOR not in half.decoders:
        choices = " and ".join(half.name for half in designs().values() if POSTERIOR in half.decoders)
        raise InputError(
            f"confidence is {scenario.confidence}, which is about {choices}, not {half.name}; leave it out"
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
    _check_against_liars(scenario, half, policy, by_posterior=by_posterior)


def _check_against_liars(scenario: Scenario, half: MechanismKind, policy: str, *, by_posterior: bool) -> None:
    if scenario.pool_size is not None and not (by_posterior and policy in ("fixed", "eliminate")):
        able = "decoder posterior and policies fixed and eliminate"
        raise InputError(f"pool_size is {scenario.pool_size}, which is about {able}, not {policy}; leave it out")
    # Behind a shuffler and of two servers it is about fewer honest devices that hide one another, or add noise
    margin = None if scenario.trust in (SHUFFLED, TWO_SERVERS) else scenario.assume_malicious
    if margin is not None and (policy != "eliminate" or half.name != "sign"):
        about = "which is about sign sensing with policy eliminate"
        raise InputError(
            f"assume_malicious is {margin:g}, {about}; the run is of {half.name} with {policy}; leave it out"
        )


def _check_advice(scenario: Scenario, half: MechanismKind) -> None:
    """Refuse features and public people where scores are no popularity that they could be weighed with."""
    if scenario.features is not None and not half.ranks:
        features = brief(str(scenario.features))
        raise InputError(f"features is {features}, but scores of {half.name} are no popularity; leave it out")
    if scenario.public and (half.name != SET or scenario.decoder == POSTERIOR):
        by = f"not {half.name} by {scenario.decoder}"
        raise InputError(f"public is {scenario.public:g}, which {SET} weighs with popularity, {by}; leave it out")
