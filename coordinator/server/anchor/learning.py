"""The seam between anchor sensing's rounds and what learns from them."""

from __future__ import annotations

from typing import Protocol

from coordinator.protocol.errors import InputError
from coordinator.server.anchor.belief import Belief
from coordinator.server.anchor.sensing import AnchorSensing
from coordinator.server.anchor.tabled import Tabled, TableLearner
from coordinator.server.anchor.told import Course
from coordinator.server.anchor.two_class import TwoClasses


class AnchorLearner(Protocol):
    """What rounds of anchor sensing tell, and what the next one should ask: both follow from the rounds alone."""

    def believe(self, course: Course) -> Belief | Tabled:
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
