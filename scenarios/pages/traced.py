"""Values of records that know where they stand, sentences and tables of them, as HTML."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from typing import Any

from markupsafe import Markup

from coordinator.protocol.custom import UNCHECKED
from coordinator.protocol.errors import InputError
from coordinator.protocol.trust import SHUFFLED, TWO_SERVERS
from coordinator.server.server_half import TRUST_CURATOR
from scenarios.families.two_tier.two_tier_scenario import GUARANTEES, NONE
from scenarios.show import tables

NOTHING = Markup("&ndash;")  # What stands where a record says nothing
Write = Callable[[Any], str]  # How a value is written


def written(value: Any) -> str:
    """Return a value as pages write it: whole numbers in full, others with four digits, words as they are.

    >>> written(1234), written(0.98711), written(True), written("local"), written([1, 2.5])
    ('1,234', '0.9871', 'yes', 'local', '1, 2.5')
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return tables.number(value) if math.isfinite(value) else "infinite"
    if isinstance(value, list):
        return ", ".join(map(written, value))
    if isinstance(value, Mapping):
        return ", ".join(f"{key.replace('_', ' ')} {written(inner)}" for key, inner in value.items())
    return "infinite" if value == "inf" else str(value)


WRITES: Mapping[str, Write] = {"": written, "percent": tables.percent, "people": tables.whole, "about": tables.about}
"""By the words after the colon of a sentence's field; a plus before them adds the interval."""


@dataclass(frozen=True, slots=True)
class Traced:
    """A value of a JSON document, with its place; it is false where the document holds nothing, or null."""

    value: Any  # A JSON value
    place: str  # The subject and the document, then the JSON pointer (RFC 6901): ``"1/result#/rows/0/ndcg"``
    within: Traced | None = None  # What it stands in, and under which name
    name: str | int = ""

    def __bool__(self) -> bool:
        return self.value is not None

    def get(self, name: str | int) -> Traced:
        """Return what stands under a key or at a number."""
        value = self.value
        if isinstance(value, Mapping):
            inner = value.get(name)
        else:
            inner = value[name] if isinstance(value, list) and isinstance(name, int) and name < len(value) else None
        key = str(name).replace("~", "~0").replace("/", "~1")
        return Traced(inner, f"{self.place}/{key}", self, name)

    def all(self, names: Sequence[str | int]) -> list[Traced]:
        """Return what stands under some names, where something does."""
        return [one for one in map(self.get, names) if one]

    def items(self) -> list[tuple[str, Traced]]:
        """Return keys and what stands under them, but for null."""
        return [(str(one.name), one) for one in self.all([*self.value] if isinstance(self.value, Mapping) else [])]

    def values(self) -> list[Traced]:
        """Return what stands in a list, but for null."""
        return self.all(range(len(self.value)) if isinstance(self.value, list) else [])

    def rows(self) -> list[Traced]:
        """Return the rows of a table: the objects of a list, or nothing where this is none."""
        return [one for one in self.values() if isinstance(one.value, Mapping)]

    def text(self) -> str:
        """Return the value as text."""
        return str(self.value)

    def number(self) -> float:
        """Return a number, infinite where the record says ``"inf"``."""
        try:
            return float(self.value)
        except (TypeError, ValueError):
            raise InputError(f"{self.place} is {str(self.value)[:40]!r}; a number must stand there") from None

    def shown(self, write: Write = written) -> Markup:
        """Return it as HTML that names its place; a list or an object shows every value with its own."""
        if isinstance(self.value, list):
            return Markup(", ").join(inner.shown(write) for inner in self.values())
        if isinstance(self.value, Mapping):
            parts = [Markup("{} {}").format(name.replace("_", " "), inner.shown(write)) for name, inner in self.items()]
            return Markup(", ").join(parts)
        return Markup('<data value="{}">{}</data>').format(self.place, write(self.value)) if self else NOTHING

    def measured(self, write: Write = written) -> Markup:
        """Return it as HTML with its interval, of its own columns or of the record's seeds; an unknown end is open."""
        low, high = self.ends()
        if not low and not high:
            return self.shown(write)
        ends = Markup(' <span class="interval">[{}, {}]</span>').format(low.shown(write), high.shown(write))
        return self.shown(write) + ends

    def ends(self) -> tuple[Traced, Traced]:
        """Return the ends of its interval, which are false where it has none."""
        assert self.within is not None  # a document has no interval
        row, keys = self.within, [*self.within.value] if isinstance(self.within.value, Mapping) else []
        if (seeds := row.get("intervals").get(self.name)) or not keys:
            return seeds.get(0), seeds.get(1)
        # Plain ``low`` and ``high`` are this key's if they follow it
        plain = "low" in keys and self.name in keys and keys.index("low") == keys.index(str(self.name)) + 1
        before = "" if plain else f"{self.name}_"
        return row.get(f"{before}low"), row.get(f"{before}high")

    def __html__(self) -> str:
        return self.shown()

    def __html_format__(self, spec: str) -> Markup:
        write = WRITES[spec.removeprefix("+")]
        return self.measured(write) if spec.startswith("+") else self.shown(write)


class _Fields(dict[str, Any]):
    """What a sentence's fields are: a path in a record, or something else by its name."""

    def __init__(self, record: Traced, others: Mapping[str, Any]) -> None:
        super().__init__(others)
        self._record = record

    def __missing__(self, path: str) -> Traced:
        return reduce(Traced.get, path.split("/"), self._record)


def sentence(template: str, record: Traced, **others: Any) -> Markup:
    """Return a sentence whose fields are paths in a record, as in ``"{best/users:+people} people"``; see `WRITES`."""
    return Markup(template).format_map(_Fields(record, others))


MOST_ROWS = 120  # Rows of a table on a page
Cell = Markup | Traced | str


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """A table."""

    caption: str  # What it shows
    headings: list[str]
    rows: Sequence[Sequence[Cell]]  # A cell each heading
    cut: bool = False  # Whether there are more rows than a page shows


def grids_of(*tables: tuple[str, Sequence[Traced], Sequence[str]]) -> list[Grid]:
    """Return tables of rows of a record, from caption, rows and columns (all: nothing); those that have any."""
    grids = []
    for caption, rows, columns in tables:
        if keys := [key for key in columns or _keys(rows) if any(row.get(key) for row in rows)]:
            cells, cut = [[row.get(key).measured() for key in keys] for row in rows[:MOST_ROWS]], len(rows) > MOST_ROWS
            grids.append(Grid(caption=caption, headings=[words(key) for key in keys], rows=cells, cut=cut))
    return grids


def _keys(rows: Sequence[Traced]) -> Iterator[str]:
    """Yield the columns but ends of intervals, what only says the same sentence again, and what holds no cells."""
    every = dict.fromkeys(key for row in rows for key in row.value)
    ends = {f"{key}_{end}" for key in every for end in ("low", "high")} | {"low", "high"}
    for key in every:
        values = [row.value.get(key) for row in rows]
        long = any(isinstance(one, str) and len(one) > 60 for one in values)
        nested = any(isinstance(one, (list, dict)) for one in values)
        same = long and len(rows) > 1 and len({str(one) for one in values}) == 1
        if key not in ends and not nested and not same:
            yield key


def lines_of(record: Traced, keys: Sequence[str], family: str = "") -> list[tuple[str, Cell]]:
    """Return words and values of those keys that a record has something under, with intervals over seeds."""
    return [(words(key, family), record.get(key).measured()) for key in keys if record.get(key)]


def words(key: str, family: str = "") -> str:
    """Return what a key is called: as tables of an experiment have it, else by itself."""
    return _columns(family).get(key) or _OWN.get(key) or key.replace("_", " ")


_OWN = {
    "copies_max": "devices behind which one person stands, at most",
    "spent_max": "spent by a device, at most [nats]",
    "spent_mean": "spent by a device, on average [nats]",
    "asked": "devices asked",
    "repeat": "seeds",
    "ndcg": "NDCG at 10",
    "over_popularity": "NDCG above popularity's",
    "to_popularity": "NDCG above popularity's on the same people, with an interval that holds for all rows at once",
    "above": "row above",
    "to_above": "NDCG above that row's, likewise",
    "hit_rate_to_popularity": "hit rate above popularity's, likewise",
    "hit_rate_to_above": "hit rate above that row's, likewise",
    "hit_rate": "hit rate at 10",
    "recall": "recall at 10",
    "coverage": "share of the catalogue",
    "liar_likes": "likes that one liar is worth",
    "liar_share": "share of liars that lifts an unknown item to rank ten",
}
"""What has no words of its own in tables of experiments, or is of no experiment."""


@cache
def _columns(family: str) -> dict[str, str]:
    from scenarios.experiments import EXPERIMENTS  # noqa: PLC0415 (keeps this module light)

    columns = EXPERIMENTS[family].columns if family in EXPERIMENTS else ()
    return {column.name: column.words.strip() for column in columns if column.words}


PRIORS = (0.01, 0.1, 0.5)  # How probable something was held to be before any answer was seen
EVEN = 0.5
NO_BOUND = 0.999  # A bound from here on says nothing, and the page says that


def belief_at_most(prior: float, epsilon: float) -> float:
    """Return the largest probability that an answer under epsilon [nats] can lift a belief to.

    By Bayes' rule with the likelihood ratio at its bound: ``p e^eps / (1 - p + p e^eps)``.
    """
    return 1 / (1 + (1 - prior) / prior * math.exp(-epsilon))


def belief_at_least(prior: float, epsilon: float) -> float:
    """Return the smallest probability that such an answer can lower it to: ``p / (p + (1 - p) e^eps)``.

    >>> round(belief_at_least(0.5, 1.0), 4), belief_at_least(0.1, math.inf)
    (0.2689, 0.0)
    """
    return 1 - belief_at_most(1 - prior, epsilon)


@dataclass(frozen=True, slots=True, kw_only=True)
class Believed:
    """An epsilon of a record, and what it means."""

    words: str  # Whose it is, or of what
    epsilon: Traced  # Privacy parameter [nats]

    @property
    def says_nothing(self) -> bool:
        """Whether even a fair coin can become as good as certain."""
        return belief_at_most(EVEN, self.epsilon.number()) > NO_BOUND

    def bound(self, kind: str, prior: float) -> Markup:
        """Return a bound of a belief in percent; rounding never makes it look better than it is."""
        bound = belief_at_most if kind == "at-most" else belief_at_least
        thousandths = 1000 * bound(prior, self.epsilon.number())
        rounded = math.ceil(thousandths - 1e-9) if kind == "at-most" else math.floor(thousandths + 1e-9)
        data = Markup('<data value="{}" data-belief="{}" data-prior="{}">{:.1f} %</data>')
        return data.format(self.epsilon.place, kind, prior, rounded / 10)


def each(words: str, epsilons: Iterable[Traced]) -> list[Believed]:
    """Return the different epsilons among some, in ascending order."""
    different = {one.number(): one for one in reversed([*epsilons]) if one}
    return [Believed(words=words, epsilon=different[value]) for value in sorted(different)]


LOUD = ("none", "deniability", "part")
KINDS = ("local", "shuffled", "two-servers", "curator", "approximate", "silent", *LOUD)
"""Of promises, and those that a page warns of; their words stand in ``templates/parts.html``."""
TRUSTED = {
    "local": "nobody",
    "curator": "whoever collects",
    "coordinator": "whoever collects",
    "two-servers": "one of two servers not to collude with the other",
    "shuffled": "a shuffler not to say who sent what",
    "two-tier": "nobody with private ratings",
    "public-rates": "nobody but whoever published totals of all ratings",
    "none": "whoever learns",
}
"""Who is trusted, by trust model."""
_PARTS = ("which items it rated is public", "one coordinate")  # Guarantees of less than all that a device holds


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivacyPromise:
    """A promise."""

    kind: str  # One of `KINDS`
    about: str = ""  # Whom or what it is about; empty where a record has but one
    guarantee: Traced | None = None  # The record's own words
    # Which data it takes as neighbours, and how probably it fails; None where nothing is promised or a record is older
    neighbours: Traced | None = None
    delta: Traced | None = None

    @property
    def unchecked(self) -> bool:
        """Whether nothing vouches for it but its author."""
        return self.guarantee is not None and UNCHECKED in self.guarantee.text()

    @property
    def loud(self) -> bool:
        """Whether a page warns of it."""
        return self.kind in LOUD or self.unchecked


def promised(record: Traced) -> PrivacyPromise:
    """Return what an experiment's record promises."""
    guarantee = record.get("guarantee") or None
    kind = kind_of(guarantee.text() if guarantee else "none", record.get("trust_model").text())
    neighbours, delta = record.get("neighbours") or None, record.get("delta") or None
    return PrivacyPromise(kind=kind, guarantee=guarantee, neighbours=neighbours, delta=delta)


def trusted(model: Traced) -> Markup:
    """Return who is trusted, in a word, and the name of that trust model."""
    return Markup("{} ({})").format(TRUSTED.get(model.text(), "somebody"), model) if model else NOTHING


def kind_of(guarantee: str, trust: str = "local") -> str:
    """Return of which kind a guarantee is, by its words and by who is trusted."""
    if guarantee == GUARANTEES[NONE]:
        return "silent"
    if guarantee.startswith("none"):
        return "none"
    if "not differential privacy" in guarantee:
        return "deniability"
    if any(words in guarantee for words in _PARTS):
        return "part"
    return trust if trust in (TRUST_CURATOR, SHUFFLED, TWO_SERVERS) else "local"


def merged(named: Iterable[tuple[str, str]]) -> list[PrivacyPromise]:
    """Return the promises of several rows, from pairs of kind and name: one a kind, about all names that have it."""
    names: dict[str, list[str]] = {}
    for kind, name in dict.fromkeys(named):
        names.setdefault(kind, []).append(name)
    return [PrivacyPromise(kind=kind, about=", ".join(several)) for kind, several in names.items()]
