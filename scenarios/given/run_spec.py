"""What a run begins with: a filled-in scenario, completed once by what its mechanism and its policy make of it."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from coordinator.protocol.budget import Epsilon
from coordinator.protocol.coins import derive
from coordinator.protocol.errors import PolicyError
from coordinator.protocol.mechanisms import half_of
from coordinator.server.design import Design, LearnerOptions, World
from coordinator.server.own import server_half
from coordinator.server.server_half import TRUST_CURATOR, ServerHalf
from scenarios.given.policies import import_policy
from scenarios.own.admission import of_run

if TYPE_CHECKING:
    from coordinator.protocol.custom import CustomMechanism
    from coordinator.server.decoding.public_counts import PublicCounts
    from coordinator.server.rounds.learner import Learner
    from coordinator.server.rounds.setting import Setting
    from coordinator.server.rounds.state import Policy
    from scenarios.given.config import Scenario
    from scenarios.own.admission import Checked

NO_GUARANTEE = "none: epsilon is infinite, answers are not private"


class RunSpec:
    """A filled-in and settled scenario with its mechanism, policy and learner, each made when it is first needed."""

    def __init__(self, scenario: Scenario, public: PublicCounts | None = None) -> None:
        self.scenario, self._public = scenario, public

    @property
    def half(self) -> ServerHalf:
        """The server's half of the mechanism."""
        return self.scenario.half

    @property
    def world(self) -> World:
        """What the mechanism is told of the world."""
        return self.scenario.world

    @cached_property
    def design(self) -> Design:
        """What is asked; an `InputError` where settings are outside their ranges."""
        return self.half.design(self.scenario.settings, self.world)

    @property
    def budget(self) -> Epsilon:
        """The epsilon that devices privatize their answers with; a trusted curator gets ratings as they are."""
        return None if self.half.trust == TRUST_CURATOR else self.scenario.epsilon

    @property
    def guarantee(self) -> str:
        """What the scenario promises its users, in words."""
        if self.half.private and self.scenario.epsilon is None:
            return NO_GUARANTEE
        return half_of(self.half.query_name(self.scenario.settings)).promise

    @cached_property
    def own(self) -> tuple[CustomMechanism, Checked] | None:
        """The mechanism of one's own, checked and admitted, and how; None where it is none.

        A `MechanismError` is raised if its class asks nothing that can be asked, or its channel tells more than it
        claims.
        """
        answer = None if self.budget is None else self.budget / self.scenario.answers_per_device
        return of_run(self.scenario.settings, self.world, answer)

    @cached_property
    def setting(self) -> Setting:
        """What the policy is told; a trusted curator's devices answer without noise."""
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
        )

    @cached_property
    def policy(self) -> Policy:
        """The server's policy; a `PolicyError` if it is a user's own and cannot be imported or made."""
        name = self.scenario.policy
        if ":" not in name:
            from coordinator.server.rounds.policies import PolicyOptions  # noqa: PLC0415 (numerical)

            scenario = self.scenario
            options = PolicyOptions(devices=scenario.users or 0, rounds=scenario.rounds, verify=scenario.verify)
            return self.half.policy(name, self.setting, options)
        try:
            policy = import_policy(name)(self.setting)
        except PolicyError:
            raise
        except (Exception, SystemExit) as error:
            raise PolicyError(
                f"policy {name} cannot be made: {type(error).__name__}: {error}; it is called with one "
                "blindrec.Setting before the first round"
            ) from error
        if not callable(getattr(policy, "next_query", None)):
            raise PolicyError(f"policy {name} has no method next_query(state); see blindrec.Policy")
        return policy  # type: ignore[no-any-return] # looked at above

    @cached_property
    def learner(self) -> Learner:
        """How the server learns; a trusted curator has coins that nobody else knows."""
        scenario = self.scenario
        options = LearnerOptions(
            decoder=scenario.decoder,
            confidence=scenario.confidence,
            assume_malicious=scenario.assume_malicious or 0.0,
            verifies=scenario.verify is not None,
            curator_seed=derive(scenario.seed, "curator"),
            public=self._public,
        )
        half = self.half if self.own is None else server_half(self.own[0])
        return half.learner(scenario.settings, self.world, options)
