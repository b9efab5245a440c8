"""A run in which nothing is open: a scenario is resolved once, and everything after it reads what came of that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from coordinator.protocol.agreement import Agreement
from coordinator.protocol.arrays import Floats, Indices, Ints
from coordinator.protocol.coins import derive
from coordinator.protocol.custom import CustomMechanism
from coordinator.protocol.custom_adapter import adapter
from coordinator.protocol.errors import InputError, PolicyError
from coordinator.protocol.mechanism import SCHEDULED, InWorld, Mechanism, Settings, World
from coordinator.protocol.moments.blocks import BlockParameters
from coordinator.protocol.trust_models import LOCAL, SHUFFLED, TWO_SERVERS
from coordinator.protocol.value_channels import CHOSEN
from coordinator.server.design import Design, LearnerOptions
from scenarios.config.accounts import Account, plain_account, servers_account
from scenarios.config.admission import ChannelCheck, admitted_of_run
from scenarios.config.compatibility import check, check_channel
from scenarios.config.custom_kinds import MechanismKind, design_of, mechanism_with
from scenarios.config.identity import import_object
from scenarios.config.planned_periods import arriving_items, asking_of
from scenarios.config.scenario import Scenario
from scenarios.config.settings import validated
from scenarios.config.shuffled_account import ShuffledAccount, shuffled_account, sizes_behind_shuffler

if TYPE_CHECKING:
    from coordinator.protocol.decoding.estimates import PublicCounts
    from coordinator.server.rounds.learner import Learner
    from coordinator.server.rounds.scheduled import Asking
    from coordinator.server.rounds.setting import Setting
    from coordinator.server.rounds.state import Policy


@dataclass(frozen=True, eq=False)
class ResolvedRun:
    """A run in which nothing is open: what its world, its mechanism, its policy and its account are.

    It is made once, by `resolve`, and read by everything after it.
    """

    scenario: Scenario  # Filled in, its mechanism's settings chosen
    world: World  # What the mechanism knows, and the block model, which only the experimenter does
    account: Account
    public: PublicCounts | None = None  # What people with public ratings like, where a file has some
    begun: Agreement | None = None  # Of an interrupted run
    asking: Asking | None = None  # The rounds of a schedule, where time counts
    new_items: tuple[Indices, ...] = ()  # Of a file that come with the second period and each later one

    @cached_property
    def mechanism(self) -> MechanismKind:
        """The kind of the mechanism."""
        return self.scenario.mechanism

    @property
    def public_world(self) -> World:
        """The world as the server knows it."""
        return replace(self.world, block=None)

    @property
    def block(self) -> BlockParameters:
        """The block model of the world; there is one where no file has ratings."""
        assert self.world.block is not None  # looked at by the caller
        return self.world.block

    def of(self, seed: int) -> ResolvedRun:
        """Return the run with another seed; nothing is resolved again."""
        return replace(self, scenario=self.scenario.model_copy(update={"seed": seed}))

    def resumed(self, agreement: Agreement) -> ResolvedRun:
        """Return the run as it was agreed when it began, and was interrupted."""
        return replace(self, account=self.account.resumed(agreement), begun=agreement)

    @cached_property
    def design(self) -> Design:
        """What is asked; an `InputError` where settings are outside their ranges."""
        return design_of(self.scenario.settings, self.world)

    @cached_property
    def moments(self) -> object | None:
        """The exact moments of the server's statistic in a block model; None where nothing is predicted."""
        return mechanism_with(self.scenario.settings).moments(self.world)

    @cached_property
    def agreement(self) -> Agreement:
        """What was promised, as devices and whoever stands between them and the server hold it."""
        agreement = replace(self.account.agreement, designs=self.learner.asks)
        if self.asking is not None:
            agreement = replace(agreement, rounds=self.account.planned(self.asking))
        return self.begun or agreement

    @cached_property
    def custom(self) -> tuple[CustomMechanism, ChannelCheck] | None:
        """The custom mechanism, checked and admitted, and how; None for blindrec's own."""
        # of a central promise this is what each device keeps by itself
        budget, answers = self.account.budget, self.scenario.answers_per_device
        answer = None if budget is None else budget / answers
        return admitted_of_run(self.scenario.settings, self.public_world, answer)

    @cached_property
    def setting(self) -> Setting:
        """What the policy knows; a trusted curator's devices answer without noise."""
        from coordinator.server.rounds.setting import Setting  # noqa: PLC0415 (numerical, as all policies)

        scenario, account = self.scenario, self.account
        return Setting(
            design=self.design,
            epsilon=account.budget,
            public_seed=derive(scenario.seed, "public"),
            clusters=self.world.clusters,
            confidence=scenario.confidence,
            answers_per_device=scenario.answers_per_device,
            pool_size=scenario.pool_size,
            assume_malicious=scenario.assume_malicious or 0.0,
            smallest_round=account.smallest.devices,
            groups=account.groups,
            own_questions=scenario.own_questions,
        )

    @cached_property
    def policy(self) -> Policy:
        """The server's policy; a `PolicyError` if it is a custom one and cannot be imported or made."""
        name = self.scenario.policy
        if self.asking is not None:
            from coordinator.server.rounds.scheduled import Scheduled  # noqa: PLC0415 (numerical)

            agreement = self.agreement
            return Scheduled(
                setting=self.setting, plan=agreement.rounds, designs=self._round_designs(), delta=agreement.delta
            )
        if ":" not in name:
            from coordinator.server.parts import policy_of  # noqa: PLC0415 (numerical)
            from coordinator.server.rounds.policies import PolicyOptions  # noqa: PLC0415

            options = PolicyOptions(devices=self.world.users, rounds=self.scenario.rounds)
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

    def _round_designs(self) -> tuple[Design, ...]:
        """Return what each round of a schedule is asked with."""
        settings, sizes = self.scenario.settings, self.account.sizes
        if not sizes:
            return (self.design,) * len(self.agreement.rounds)
        by_size = {size: design_of(settings.model_copy(update={CHOSEN: size}), self.world) for size in set(sizes)}
        return tuple(by_size[size] for size in sizes)

    @cached_property
    def learner(self) -> Learner:
        """How the server learns; a trusted curator has coins that nobody else knows."""
        from coordinator.server.parts import learner_of  # noqa: PLC0415 (numerical)

        scenario = self.scenario
        if self.asking is not None and isinstance(self.design, InWorld):  # of pairs all periods are pooled
            from coordinator.server.rounds.scheduled import AgeingLearner, CounterLearner  # noqa: PLC0415 (numerical)

            if (agreement := self.account.agreement).counter:
                deviation = agreement.rounds[0].sum_round.deviation
                return CounterLearner(design=self.design, clusters=self.world.clusters, deviation=deviation)
            return AgeingLearner(
                design=self.design,
                clusters=self.world.clusters,
                ageing=scenario.ageing,
                new_items=self.new_items if scenario.ratings is not None else arriving_items(scenario),
                memoized=self.account.agreement.memoized,
            )
        options = LearnerOptions(
            decoder=scenario.decoder,
            confidence=scenario.confidence,
            assume_malicious=scenario.assume_malicious or 0.0,
            curator_seed=derive(scenario.seed, "curator"),
            public=self.public,
        )
        mechanism = scenario.settings if self.custom is None else adapter(self.custom[0])
        assert isinstance(mechanism, Mechanism)  # settings of a custom class are none, which has an adapter
        return learner_of(mechanism, self.public_world, options)


def resolve(
    scenario: Scenario,
    public: PublicCounts | None = None,
    arrivals: tuple[int, ...] | None = None,
    new_items: tuple[Indices, ...] = (),
) -> ResolvedRun:
    """Return the run of a scenario, of a file's once this has filled it in; an `InputError` says what cannot be.

    Where time counts ``arrivals`` are the devices that arrive in each period, by default all in the first, and
    ``new_items`` the items that come with the second period and each later one.
    """
    check(scenario)
    filled, asking = scenario.filled, None
    if filled.periods is not None:
        asking = asking_of(filled, arrivals)
        rounds = {"policy": SCHEDULED, "answers_per_device": asking.answers, "rounds": len(asking.rounds)}
        filled = filled.model_copy(update=rounds)
    block = block_of(filled) if filled.ratings is None else None
    world = replace(filled.world, block=block)

    def having(settings: Settings) -> ResolvedRun:
        settled = filled.model_copy(update={"settings": settings})
        account = _ACCOUNTS.get(filled.trust, plain_account)(settled, asking)
        run = ResolvedRun(
            settled,
            replace(world, epsilon=account.mechanism_epsilon),
            account,
            public,
            asking=asking,
            new_items=new_items,
        )
        _check_ranges(run)
        return run

    run = having(filled.settings.settle(world, filled.decoder))
    if not isinstance(run.account, ShuffledAccount):
        return run
    # what is best follows from the local epsilon, and that from the central one
    best = filled.settings.settle(run.world, filled.decoder)
    run = run if best == run.scenario.settings else having(best)
    assert isinstance(run.account, ShuffledAccount)  # as before
    best = sizes_behind_shuffler(run.scenario, asking)
    return run if best == run.scenario.settings else having(best)


_ACCOUNTS: dict[str, Callable[[Scenario, Asking | None], Account]] = {
    SHUFFLED: shuffled_account,
    TWO_SERVERS: servers_account,
}
"""What makes the account under each trust model, but of local ones and of a curator, whose mechanism says which."""


def exact_sizes(shares: Floats, total: int) -> Ints:
    """Return whole sizes that sum to ``total``, each within one of its share (largest remainders)."""
    sizes = np.floor(shares * total).astype(np.int64)
    order = np.argsort(sizes - shares * total, kind="stable")
    sizes[order[: total - sizes.sum()]] += 1
    return sizes


def _shares(weights: tuple[float, ...] | None, count: int) -> Floats:
    shares = np.full(count, 1 / count) if weights is None else np.array(weights)
    return np.asarray(shares / shares.sum())


def block_of(scenario: Scenario) -> BlockParameters:
    """Return a scenario's block model."""
    filled = scenario.filled
    items = filled.world.items
    sizes = exact_sizes(_shares(scenario.cluster_shares, len(scenario.like[0])), items)
    if not sizes.all():
        empty = f"cluster {sizes.argmin()} of {sizes.size} would hold none of {items} items"
        raise InputError(
            f"cluster_shares is {scenario.cluster_shares or 'equal'}: {empty}; give a larger share or more"
        )
    return BlockParameters(
        rated=filled.world.rated,
        like=np.array(scenario.like),
        class_shares=_shares(scenario.class_shares, len(scenario.like)),
        cluster_sizes=sizes,
    )


def _check_ranges(run: ResolvedRun) -> None:
    """Refuse a local epsilon that coins cannot express, and settings that the world has no room for."""
    settings, mechanism, epsilon = run.scenario.settings, run.mechanism, run.account.mechanism_epsilon
    # Local epsilons behind a shuffler, or of memoized answers, are together far above what one answer's coins express
    several = run.account.trust.name == SHUFFLED or run.account.agreement.memoized
    answers = run.scenario.answers_per_device if several else 1
    if mechanism.trust == LOCAL and not settings.splits:
        check_channel(epsilon, answers)
    if settings.settled:
        design_of(settings, run.world)
    if settings.splits:
        check_channel(epsilon, answers * settings.most_questions(run.world))


def load_scenario(path: Path | None, flags: dict[str, Any], *, allow_code: bool = False) -> Scenario:
    """Read a scenario from a TOML file and flags, which win, and refuse what its mechanism cannot do."""
    scenario = validated(Scenario, path, flags, allow_code=allow_code)
    check(scenario)
    if scenario.ratings is None:  # a file says its numbers later
        resolve(scenario)
    return scenario
