"""What people were promised: by the record's own words, what that means, as a formula, and what it does not cover."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from coordinator.protocol.admitted import UNCHECKED
from scenarios.pages.traced import Traced

FORMULAS = {
    "local": Markup(
        "Pr[ M(<i>x</i>) = <i>y</i> ] ≤ e<sup>ε</sup> · Pr[ M(<i>x′</i>) = <i>y</i> ] for all that a device could hold, "
        "<i>x</i> and <i>x′</i>, and every answer <i>y</i>"
    ),
    "curator": Markup(
        "Pr[ A(<i>D</i>) = <i>o</i> ] ≤ e<sup>ε</sup> · Pr[ A(<i>D′</i>) = <i>o</i> ] for all data <i>D</i> and "
        "<i>D′</i> that differ in one person, and everything <i>o</i> that is published"
    ),
}
MEANING = {
    "local": "Nobody is trusted. Each device adds chance to its answer before anything leaves it, so that whatever it "
    "holds, every answer is almost as probable as with other data.",
    "curator": "One party is trusted with the ratings or votes as they are. What it shows to others is private: it is "
    "almost as probable with one person more or less.",
    "part": "The epsilon of this record covers only a part of what a device holds or says, as the guarantee tells. "
    "Nobody can read from it what a person loses in all.",
    "none": "There is no guarantee. What people rated can be learned from what is released, by anybody who sees it.",
    "deniability": "A device's answer leaves each single value deniable. That is not differential privacy: no epsilon "
    "bounds what an adversary learns, least of all one who knows more from elsewhere.",
    "silent": "Nothing of private people is used, and nothing of them is released. Public people's ratings are public.",
}
LOUD = frozenset({"none", "deniability", "part"})
"""Kinds that a page marks as a warning."""
EVERYWHERE = (
    "Devices that lie, or one party with many devices: a false but possible report counts like any other.",
    "Whatever a person does with a recommendation, such as a click or a purchase, is new data and not covered.",
    "The catalogue and the numbers that are named as public are public; take them from elsewhere than from people.",
    "This is a simulation: it shows what a protocol would release, and does not protect the data that it was fed.",
)
LIMITS = {
    "local": (
        "Several devices of one person, and several answers of one device, add up: each epsilon counts.",
        "Whoever can read a device itself, its memory or its clock.",
    ),
    "curator": (
        "The trusted party itself: it sees everything as it is, and so does whoever breaks into it.",
        "Clients who put what they saw together: the epsilons of all of them add up.",
    ),
    "part": ("Everything but the part that the guarantee names.",),
    "none": ("Anything. Read no privacy into these numbers.",),
    "deniability": (
        "An adversary who knows some of a person's ratings, or sees several answers.",
        "Inferences about a person that no single value tells but many together do.",
    ),
    "silent": ("Public people: their ratings are there for everybody.",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """A promise.

    Attributes
    ----------
    kind : str
        One of `MEANING`.
    about : str
        Whom or what it is about; empty where a record has but one.
    guarantee : Traced or None
        The record's own words.
    """

    kind: str
    about: str = ""
    guarantee: Traced | None = None

    @property
    def meaning(self) -> str:
        """The promise in plain words."""
        told = MEANING[self.kind]
        if self.guarantee is not None and UNCHECKED in self.guarantee.text():
            return (
                f"{told} Its channel is claimed by its author and was not checked: nothing vouches for the guarantee."
            )
        return told

    @property
    def formula(self) -> Markup | None:
        """The promise as a formula; None where there is none."""
        return FORMULAS.get(self.kind)

    @property
    def loud(self) -> bool:
        """Whether a page warns of it."""
        return self.kind in LOUD or UNCHECKED in (self.guarantee.text() if self.guarantee else "")

    @property
    def limits(self) -> tuple[str, ...]:
        """What it does not cover."""
        return LIMITS[self.kind]


def promised(record: Traced) -> Promise:
    """Return what an experiment's record promises."""
    return Promise(kind=_kind(record), guarantee=record.get("guarantee"))


def _kind(record: Traced) -> str:
    guarantee = told.text() if (told := record.get("guarantee")) else ""
    if guarantee.startswith("private devices let nothing out"):
        return "silent"
    if guarantee.startswith("none") or not guarantee:
        return "none"
    if "not differential privacy" in guarantee:
        return "deniability"
    if "which items it rated is public" in guarantee or "one coordinate" in guarantee:
        return "part"
    return "curator" if record.value.get("trust_model") == "curator" else "local"


def of_model(model: str) -> Promise:
    """Return what rows of a trust model promise, in records of several."""
    kind = {"local": "local", "curator": "curator", "coordinator": "curator", "two-tier": "silent"}.get(model, "none")
    return Promise(kind=kind, about=model)
