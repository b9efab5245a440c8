"""What a result promises, in words: who is trusted, what the guarantee says, and what it does not protect against."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from coordinator.protocol.custom import UNCHECKED
from coordinator.protocol.mechanism import LOCAL_PROMISE
from coordinator.protocol.mechanisms import by_query
from coordinator.protocol.trust_models import CURATOR, LOCAL, PUBLIC_RATES, SHUFFLED, TRUST, TWO_SERVERS, sentences
from scenarios.config.mechanism_settings import designs
from scenarios.families.two_tier.two_tier_scenario import GUARANTEES, NONE
from scenarios.show.tables import is_guaranteed
from scenarios.studies.compare.rows.trusted import PAIRS_WITH_EASE


@dataclass(frozen=True, slots=True)
class PromiseText:
    """What a page says of a kind of promise."""

    trusted: str  # Who is, and with what
    meaning: str
    limits: tuple[str, ...]  # What it does not protect against
    loud: bool = False  # Whether a page warns of it


def _of_model(name: str, bound: str, *limits: str) -> PromiseText:
    """Return what a page says where somebody is trusted, or nobody, and the clause says what epsilon bounds."""
    model = TRUST[name]
    return PromiseText(model.trusted, sentences(model.sees, bound, model.left), limits)


_FAILS = "and the cases in which the bound by epsilon fails."
KINDS: Mapping[str, PromiseText] = {
    "local": _of_model(
        LOCAL,
        "whatever a device holds, every report is almost as probable as with other data",
        "Several devices of one person, and several answers of one device, add up: each epsilon counts.",
        "Whoever can read a device itself, its memory or its clock.",
    ),
    SHUFFLED: _of_model(
        SHUFFLED,
        "epsilon bounds what the reports tell, up to a small delta that is added to chances",
        f"A shuffler that says who sent what, devices that stayed away or are the attacker's, {_FAILS}",
    ),
    TWO_SERVERS: _of_model(
        TWO_SERVERS,
        "epsilon bounds what the totals tell, up to a small delta that is added to chances where the rows have one",
        f"Servers that put their shares together, {_FAILS}",
    ),
    CURATOR: _of_model(
        CURATOR,
        "that is almost as probable with one person's data changed, as the record says of each",
        "The trusted party itself: it sees everything as it is, and so does whoever breaks into it.",
        "Clients who put what they saw together: the epsilons of all of them add up.",
    ),
    "approximate": _of_model(
        CURATOR,
        "the noise is Gaussian: epsilon bounds chances up to a small delta that is added to them",
        f"The trusted party itself, {_FAILS}",
    ),
    "silent": PromiseText(
        "nobody with private ratings",
        "Nothing of private people is used, and nothing of them is released. Public people's ratings are public.",
        ("Public people: their ratings are there for everybody.",),
    ),
    "none": PromiseText(
        "whoever sees it",
        "There is no guarantee. What people rated can be learned from what is released, by anybody who sees it.",
        ("Anything. Read no privacy into these numbers.",),
        loud=True,
    ),
    "deniability": PromiseText(
        "nobody, and not enough",
        "A device's answer leaves each single value deniable. That is not differential privacy: no epsilon bounds "
        "what an adversary learns, least of all one who knows more from elsewhere.",
        (
            "An adversary who knows some of a person's ratings, or sees several answers.",
            "Inferences about a person that no single value allows but many together do.",
        ),
        loud=True,
    ),
    "part": PromiseText(
        "nobody, with a part",
        "The epsilon of this record covers only a part of what a device holds or says, as the guarantee says. Nobody "
        "can read from it what a person loses in all.",
        ("Everything but the part that the guarantee names.",),
        loud=True,
    ),
}
"""By kind, in the order in which a page says them."""
LIMITS = (
    "Devices that lie, or one party with many devices: a false but possible report counts like any other.",
    "Whatever a person does with a recommendation, such as a click or a purchase, is new data and not covered.",
    "The catalogue and the numbers that are named as public are public; take them from elsewhere than from people.",
    "This is a simulation: it shows what a protocol would release, and does not protect the data that it was fed.",
)
"""Of every result."""
_PARTS = ("which items it rated is public", "one coordinate")  # Guarantees of less than all that a device holds
_SWEPT = ("settings", "schemes", "points", "summary", "recommenders")
"""What kinds of sweeps call their main table."""
_PROVED = "epsilon_proved", "epsilon_most", "epsilon_exact"


@dataclass(frozen=True, slots=True)
class PrivacyPromise:
    """A promise of a result."""

    kind: str  # One of `KINDS`
    about: str = ""  # Whom or what it is about; empty where a record has but one
    guarantee: str = ""  # The record's own words, with neighbours and delta

    @property
    def text(self) -> PromiseText:
        """What a page says of its kind."""
        return KINDS[self.kind]

    @property
    def meaning(self) -> str:
        """What it means, and whether nothing vouches for it but its author."""
        unchecked = " Its channel is claimed by its author and was not checked: nothing vouches for the guarantee."
        return f"{self.about}{': ' * bool(self.about)}{self.text.meaning}{unchecked * (UNCHECKED in self.guarantee)}"

    @property
    def loud(self) -> bool:
        """Whether a page warns of it."""
        return self.text.loud or UNCHECKED in self.guarantee


def promises_of(family: str, record: Mapping[str, Any]) -> list[PrivacyPromise]:
    """Return what a result promises: one promise, or one a kind of its rows."""
    if family in ("run", "online", "two-tier"):
        return [promised(record)]
    if family == "compare" or record.get("rows"):
        return merged((_kind_of_row(row), _named(row)) for row in map(_of_schedule, record["rows"]))
    if family == "data" or "answer_not" in record:
        return [PrivacyPromise("local", "Nothing can be said of people like the file's")]
    if family == "plan":
        best = record["recommended"]
        return [promised(best) if best else PrivacyPromise("local", "Designs that may be recommended")]
    if family == "audit":
        rows = record.get("audits") or record.get("mechanisms") or [record]
        return merged((kind_of(str(row.get("guarantee", LOCAL_PROMISE))), str(row["design"])) for row in rows)
    return merged(_of_sweep(record))


def promised(record: Mapping[str, Any]) -> PrivacyPromise:
    """Return what an experiment's record promises."""
    guarantee, relation = str(record.get("guarantee") or "none"), ""
    if record.get("neighbours"):
        relation = f"; neighbours {record['neighbours']}, delta {record.get('delta') or 0:g}"
    return PrivacyPromise(kind_of(guarantee, str(record.get("trust_model"))), "", f"{guarantee}{relation}")


def kind_of(guarantee: str, trust: str = LOCAL) -> str:
    """Return of which kind a guarantee is, by its words and by who is trusted."""
    if guarantee == GUARANTEES[NONE]:
        return "silent"
    if guarantee.startswith("none"):
        return "none"
    if "not differential privacy" in guarantee:
        return "deniability"
    if any(part in guarantee for part in _PARTS):
        return "part"
    return trust if trust in (CURATOR, SHUFFLED, TWO_SERVERS) else "local"


def merged(named: Iterable[tuple[str, str]]) -> list[PrivacyPromise]:
    """Return the promises of several rows, from pairs of kind and name: one a kind, about all names that have it."""
    pairs = dict.fromkeys(named)
    names = {kind: [name for of, name in pairs if of == kind] for kind in KINDS}
    return [PrivacyPromise(kind, ", ".join(several)) for kind, several in names.items() if several]


def _of_schedule(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a row of a study of years with the names that rows of comparisons have."""
    return {**row, "mechanism": row["schedule"], "epsilon": row["epsilon_horizon"]} if "schedule" in row else row


def _named(row: Mapping[str, Any]) -> str:
    """Return a row's name, with what else its cells without a guarantee have in common."""
    name = f"{row['trust_model']}: {row['mechanism']}"
    if row.get("epsilon") is None or is_guaranteed(row):
        return name
    beyond = "without noise (epsilon inf)" if row["epsilon"] == "inf" else "where delta exceeds 1 / people"
    return f"{name} {beyond}"


def _kind_of_row(row: Mapping[str, Any]) -> str:
    """Return what a row of a comparison promises: in two tiers it is its mechanism's word that counts."""
    model, mechanism, epsilon = str(row["trust_model"]), str(row["mechanism"]), row.get("epsilon")
    if "schedule" in row and epsilon is None:  # memoized answers keep none for histories
        return "none"
    if model == "none" or not (epsilon is None or is_guaranteed(row)):
        return "none"
    if model == CURATOR:
        return "approximate" if row.get("delta", mechanism == PAIRS_WITH_EASE) else model
    if model == PUBLIC_RATES:
        return "part"
    if model == "two-tier" and epsilon is None:
        return kind_of(GUARANTEES.get(mechanism.lower(), GUARANTEES[NONE]))
    return model if model in (SHUFFLED, TWO_SERVERS) else "local"


def _of_sweep(record: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """Yield kinds and names of a sweep's settings: by design, by mechanism of two tiers, or by what is proved."""
    for row in next((record[name] for name in _SWEPT if record.get(name)), []):
        if "design" in row:
            mechanism, public = designs().get(str(row["design"])), by_query().get(str(row["design"]))
            open_ = row.get("epsilon") == "inf" or (mechanism is not None and not mechanism.private)
            kind = kind_of(public.guarantee if public else LOCAL_PROMISE, mechanism.trust if mechanism else LOCAL)
            yield "none" if open_ else kind, str(row["design"])
        elif record.get("trust_model") == "two-tier":
            name = str(row.get("curve") or row.get("mechanism")).split(":")[0]
            yield kind_of(GUARANTEES.get(name, LOCAL_PROMISE)), name
        elif "recommender" in row:
            proved = any(row.get(name) is not None for name in _PROVED)
            yield CURATOR if proved else "none", str(row["recommender"])
        else:
            yield "local", "settings with a finite epsilon"
