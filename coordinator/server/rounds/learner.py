"""What the server makes of answers to queries: which rounds it can read, and the item model after the last."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from coordinator.protocol.custom import CustomMechanism
from coordinator.protocol.decoding.posterior import Posterior
from coordinator.protocol.errors import PolicyError
from coordinator.protocol.mechanism import Decoding, InWorld, Mechanism
from coordinator.protocol.messages import Model
from coordinator.protocol.statistics.statistic import Statistic
from coordinator.server.rounds.policies import policy_name
from coordinator.server.rounds.setting import beliefs
from coordinator.server.rounds.state import Ask, Policy, ServerState, absorb, total


@dataclass(frozen=True, slots=True, kw_only=True)
class Learner(ABC):
    """How the server turns statistics into an item model; see `coordinator.server.parts.learner_of`."""

    custom: CustomMechanism | None = None  # The run's custom mechanism, which every process of the run admits

    @property
    @abstractmethod
    def asks(self) -> tuple[str, ...]:
        """The designs whose answers it reads."""

    def checked(self, ask: Ask | None, policy: Policy, state: ServerState) -> Ask | None:
        """Return a round whose answers can be read."""
        if ask and ask.query.design not in self.asks:
            names = " or ".join(map(repr, self.asks))
            raise PolicyError(
                f"{policy_name(policy, state)}: it asks design {ask.query.design!r}; the run's design is {names}"
            )
        return ask

    def absorb(self, state: ServerState, ask: Ask, statistic: Statistic) -> ServerState:
        """Return the state after a round; see `coordinator.server.rounds.state.absorb`."""
        return absorb(state, ask, statistic)

    @abstractmethod
    def learn(self, state: ServerState) -> tuple[Model, Posterior | None]:
        """Return the item model after all rounds, and its posterior if there are estimates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SumLearner(Learner):
    """Decodes the sum of all rounds."""

    mechanism: Mechanism
    how: Decoding  # Number of clusters, decoder, and what is added or weighed with the sum

    @property
    def asks(self) -> tuple[str, ...]:
        """The designs that the mechanism reads."""
        return self.mechanism.asks

    def learn(self, state: ServerState) -> tuple[Model, Posterior | None]:
        """Return what the mechanism decodes; see `Learner.learn`."""
        return self.mechanism.learn(total(state), [ask.query for ask in state.asked], self.how), None


@dataclass(frozen=True, slots=True, kw_only=True)
class PosteriorLearner(Learner):
    """Takes every item's most probable cluster, from the estimates of all rounds."""

    design: InWorld  # Reads estimates of every item from the answers
    clusters: int  # Number of item clusters L
    confidence: float = 0.95  # Probability that all decided labels are to be right
    assume_malicious: float = 0.0  # Share of liars that decided labels must withstand

    @property
    def asks(self) -> tuple[str, ...]:
        """The design's name."""
        return (self.design.name,)

    def absorb(self, state: ServerState, ask: Ask, statistic: Statistic) -> ServerState:
        """Return the state after a round, with its estimates."""
        return absorb(state, ask, statistic, self.design.read(ask.query, statistic))

    def learn(self, state: ServerState) -> tuple[Model, Posterior | None]:
        """Return the model and the posterior; see `Learner.learn`."""
        failure, liars = 1 - self.confidence, self.assume_malicious
        posterior, estimates = beliefs(
            state, self.design, clusters=self.clusters, failure=failure, assume_malicious=liars
        )
        return posterior.model(estimates, self.clusters), posterior
