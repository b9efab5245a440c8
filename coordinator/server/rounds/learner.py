"""What the server makes of answers to queries: which rounds it can read, and the item model after the last."""

from __future__ import annotations

from dataclasses import dataclass

from coordinator.protocol.admitted import Own
from coordinator.protocol.errors import PolicyError
from coordinator.protocol.messages import Model
from coordinator.protocol.subset_form import PADDED
from coordinator.server.anchor.learning import AnchorLearner
from coordinator.server.anchor.told import course_of
from coordinator.server.decoding.posterior import Posterior
from coordinator.server.decoding.public_counts import PublicCounts
from coordinator.server.decoding.told_ratings import Curator
from coordinator.server.design import Decoding, PoolDesign
from coordinator.server.rounds.asking import whose
from coordinator.server.rounds.beliefs import beliefs
from coordinator.server.rounds.state import Ask, Policy, ServerState, absorb, learn
from coordinator.server.rounds.verifying import verified
from coordinator.server.server_half import POSTERIOR
from coordinator.server.statistics.statistic import Statistic


@dataclass(frozen=True, slots=True, kw_only=True)
class Learner:
    """How the server turns statistics into an item model.

    Attributes
    ----------
    clusters : int
        Number of item clusters L.
    decoder : str
        Name of the decoder.
    curator : Curator or None
        The noise that is added if the server is a trusted curator.
    design : PoolDesign or None
        The design that reads estimates of every item from the answers, if they allow it.
    confidence : float
        Probability that all decided labels are to be right.
    assume_malicious : float
        Share of liars that decided labels must withstand.
    anchors : AnchorLearner or None
        Reads rounds of anchor sensing, if that is what is asked.
    verifies : bool
        Whether labels count as decided only where fresh devices confirmed them; see `rounds.verifying`.
    own : Own or None
        The experimenter's own mechanism, if the run has one; every process of the run admits it.
    public : PublicCounts or None
        What people like whose ratings are public, if it is weighed with what devices tell by sets.
    """

    clusters: int
    decoder: str
    curator: Curator | None = None
    design: PoolDesign | None = None
    confidence: float = 0.95
    assume_malicious: float = 0.0
    anchors: AnchorLearner | None = None
    verifies: bool = False
    own: Own | None = None
    public: PublicCounts | None = None

    def checked(self, ask: Ask | None, policy: Policy, state: ServerState) -> Ask | None:
        """Return a round whose answers can be read.

        Raises
        ------
        PolicyError
            If its design is not the one that reads the answers.
        """
        if ask and self.design and ask.query.design != self.design.name:
            raise PolicyError(
                f"{whose(policy, state)}: it asks design {ask.query.design!r}; the run's design is {self.design.name!r}"
            )
        return ask

    def absorb(self, state: ServerState, ask: Ask, statistic: Statistic) -> ServerState:
        """Return the state after a round; see `coordinator.server.rounds.state.absorb`."""
        return absorb(state, ask, statistic, self.design.read(ask.query, statistic) if self.design else None)

    def learn(self, state: ServerState) -> tuple[Model, Posterior | None]:
        """Return the item model after all rounds, and its posterior if there are estimates."""
        if self.anchors is not None:
            belief = self.anchors.believe(course_of(state.readings.anchors))
            return belief.model(self.clusters), belief.posterior
        if self.design is None or self.decoder != POSTERIOR:
            model = learn(state, Decoding(clusters=self.clusters, decoder=self.decoder, curator=self.curator))
            if self.public is not None:
                model = self.public.weighed(model, int(state.asked[-1].query.parameters[PADDED]))
            return model, None
        failure, liars = 1 - self.confidence, self.assume_malicious
        posterior, told = beliefs(state, self.design, clusters=self.clusters, failure=failure, assume_malicious=liars)
        return posterior.model(told, self.clusters), verified(posterior, state) if self.verifies else posterior
