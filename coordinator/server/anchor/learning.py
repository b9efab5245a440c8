"""The seam between anchor sensing's rounds and what learns from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from coordinator.protocol.custom import CustomMechanism
from coordinator.protocol.errors import InputError
from coordinator.protocol.messages import Model
from coordinator.server.anchor.course import Course, course_of
from coordinator.server.anchor.sensing import AnchorSensing
from coordinator.server.anchor.tables import TableBelief, TableLearner
from coordinator.server.anchor.two_class import Belief, TwoClasses
from coordinator.server.decoding.posterior import Posterior
from coordinator.server.rounds.learner import Learner
from coordinator.server.rounds.state import ServerState


class AnchorLearner(Protocol):
    """What rounds of anchor sensing tell, and what the next one should ask: both follow from the rounds alone."""

    def believe(self, course: Course) -> Belief | TableBelief:
        """Return what all rounds tell, of which the first was about pairs."""
        ...


def learner_for(design: AnchorSensing, failure: float) -> TwoClasses | TableLearner:
    """Return the learner of a design; ``failure`` is the allowed probability that any label is wrong."""
    crossed = design.clusters == design.classes == 2
    if design.learner == "mirrored" and not crossed:
        raise InputError(
            f"learner mirrored knows two classes and two clusters, not {design.classes} and {design.clusters}; "
            "choose tables"
        )
    if crossed and design.learner in ("auto", "mirrored"):
        return TwoClasses(design=design, failure=failure)
    return TableLearner(design=design, failure=failure)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundLearner(Learner):
    """Reads all rounds of anchor sensing together."""

    anchors: AnchorLearner  # What rounds tell
    clusters: int  # Number of item clusters L
    confidence: float = 0.95  # Probability that all decided labels are to be right
    own: CustomMechanism | None = None  # Anchor sensing is no custom mechanism

    @property
    def asks(self) -> tuple[str, ...]:
        """Signs of pairs, and turned signs of items."""
        return AnchorSensing.pairs, AnchorSensing.name

    def learn(self, state: ServerState) -> tuple[Model, Posterior | None]:
        """Return the model and the posterior; see `Learner.learn`."""
        belief = self.anchors.believe(course_of(state.readings.anchors))
        return belief.model(self.clusters), belief.posterior
