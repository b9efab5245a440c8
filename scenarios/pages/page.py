"""A page of one or several results: the answer first, then of each what was asked, promised and measured."""

import math
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from jinja2 import UndefinedError
from markupsafe import Markup

from coordinator.protocol.budget import REPLACE
from coordinator.protocol.errors import InputError
from scenarios.config.files import brief
from scenarios.experiments import EXPERIMENTS
from scenarios.pages.answer_page import AnswerSection, answer_section, page_style, policy, templates
from scenarios.pages.promises import LIMITS, PrivacyPromise, promises_of
from scenarios.pages.subject import Subject, read_subject
from scenarios.show.picture import Picture
from scenarios.show.records import check_ending, pictures_of, rendered, write_target
from scenarios.show.tables import interval, is_guaranteed, number
from scenarios.store.whole_files import to_json
from scenarios.studies.answer import ALWAYS, Answer, right_at_most, times_text

MOST_SUBJECTS, MOST_ROWS = 24, 1000
NOTHING = "\N{EN DASH}"  # What stands where a record says nothing
_HEADLINES = {
    "run": "{answered} of {asked} devices answered questions of the design {design}.",
    "online": "{voters} voters helped to serve clients by {recommender}, {rounds} rounds each.",
    "two-tier": "{public} public people taught a server, and {answered} private devices answered by {mechanism}.",
    "compare": "{ratings}: {people_in_file} people and {items} items, each mechanism on the same split.",
    "years": "Lists are made anew in each of {periods} periods, and epsilon {epsilon} holds for all of them together: "
    "it is about one person's whole history.",
    "risk": "{ratings}: how often the best attack guesses right about {people_attacked} of {people_in_file} people.",
    "plan": "The target: {target}.",
    "data": "A file of {ratings} ratings by {users} people of {items} items.",
    "audit": "Attacks on real releases of {design}: claimed is a privacy loss of {claimed} nats, exact {exact}, and "
    "attacks show at least {measured}.",
    "sweep": "A sweep of {sweep}.",
}
_BESIDE = {
    "accuracy": "accuracy_predicted",
    "hit_rate": "popularity_hit_rate random_hit_rate",
    "ndcg": "popularity_ndcg random_ndcg",
    "loss": "loss_bound loss_random",
    "rmse": "rmse_public_only rmse_baseline",
    **dict.fromkeys(("exact", "ari", "nmi", "top_50", "rank_correlation", "noiseless_ari"), ""),
    "advice_liked": "random_liked",
    "epsilon_proved": "epsilon_exact epsilon_needed",
    "privacy_loss_of_run": "privacy_loss_of_peers",
    "voter_loss": "voter_epsilon",
    "peers_alive": "peers",
}
"""What experiments measure, the main result first, with predictions, bounds and rivals beside it."""
_EPSILONS = {
    "epsilon": "one device",
    "person_epsilon": "one person, all devices behind which they stand",
    "epsilon_exact": "one voter, one client: exact worst case",
    "epsilon_proved": "one voter, one client: as proved",
    "voter_epsilon": "one voter, all clients together",
}
_AUDITED = {"claimed": "one release, as claimed", "exact": "one release, by its exact channel"}
"""Keys of epsilons of experiments and audits, and whose they are."""
_COLUMNS = {
    "rows": "trust_model mechanism features epsilon neighbours delta epsilon_local users public ndcg to_popularity "
    "hit_rate recall coverage liar_likes liar_share",
    "years": "trust_model schedule users_needed users_low users_high users_once of_popularity "
    "of_popularity_without_noise epsilon_local",
    "risk": "trust_model mechanism view how epsilon delta bound worst whose whose_decile like like_decile",
    "who_pays": "by group trust_model mechanism features epsilon users people ndcg to_popularity",
    "designs": "design decoder users epsilon accuracy exact users_here trust_model private neighbours delta note",
    "learnable": "epsilon design decoder users accuracy users_here",
}
"""Columns of tables that have more than a page shows."""
_HIDDEN = {
    *("trust_model", "trust_models", "trust_in_words", "rungs", "guarantee", "neighbours", "delta", "intervals"),
    *("advice", "answer", "warnings", "remarks", "failures", "rule", "not_for", "recommended", "withstanding"),
    *("panels", "axes", "columns", "convergence", "validated", "like"),
}
"""Keys that stand elsewhere on the page, or that only pictures draw."""
_WORDS = {"ndcg": "NDCG at 10", "hit_rate": "hit rate at 10", "recall": "recall at 10", "repeat": "seeds"}
_WORDS |= {"to_popularity": "NDCG above popularity's on the same people", "rows": "All rows: what lists are worth"}
_SVG = re.compile(r'<svg\b[^>]*?(viewBox="[^"]*")[^>]*>')
_ID = re.compile(r'(\bid="|href="#|url\(#)')
_STYLE = re.compile(r'\bstyle="([^"]*)"')
_NOT_OURS = re.compile(r"<metadata>.*?</metadata>|<style[^>]*>.*?</style>", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """A table."""

    caption: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]  # A text each heading


@dataclass(frozen=True, slots=True, kw_only=True)
class Risk:
    """What an epsilon bounds."""

    whose: str
    epsilon: str  # [nats]
    right: float  # A guess between two equally likely histories of a person is right so often at most

    @classmethod
    def of(cls, row: Mapping[str, Any], key: str, whose: str) -> Self:
        """Return what the epsilon under a key bounds, with the delta of its row; several devices add theirs up."""
        delta = float(row.get("delta") or 0) * (row["copies_max"] if key == "person_epsilon" else 1)
        right = right_at_most(float(row[key]), min(delta, 1.0), neighbours=row.get("neighbours") or REPLACE)
        return cls(whose=whose, epsilon=written(row[key]), right=right)

    @property
    def times(self) -> str:
        """How often, in words."""
        return text if (text := times_text(self.right)) == ALWAYS else f"at most {text} times"


@dataclass(frozen=True, slots=False, kw_only=True)
class ReportSection:
    """What a page says of a result."""

    subject: Subject

    @cached_property
    def record(self) -> Mapping[str, Any]:
        """What `--json` prints."""
        return self.subject.record

    @cached_property
    def answer(self) -> AnswerSection | None:
        """The answer that stands before everything else, if the result has one."""
        if not self.record.get("answer"):
            return None
        still = inline(self.pictures[0], f"a{self.subject.number}-") if self.pictures else Markup()
        return answer_section(Answer.model_validate(self.record["answer"]), self.subject.number, still)

    @cached_property
    def pictures(self) -> Sequence[Picture]:
        """Its pictures."""
        return pictures_of(self.subject.family, self.record, self.subject.tables)

    @cached_property
    def promises(self) -> list[PrivacyPromise]:
        """What it promises."""
        return promises_of(self.subject.family, self.record)

    @property
    def headline(self) -> str:
        """What it is of and what was found, in a few sentences."""
        family, record = self.subject.family, self.record
        if family == "plan" and "answer_not" in record:
            family = "data"
        text = _HEADLINES[family].format_map(_Known({"sweep": "users that it takes", **record}))
        if audits := record.get("audits") or record.get("mechanisms") if family == "audit" else None:
            text = (
                f"Attacks on real releases of {', '.join(str(row['design']) for row in audits)}: all rows stand below."
            )
        if main := next((key for key in _BESIDE if family in EXPERIMENTS and record.get(key) is not None), ""):
            beside = "; ".join(f"{self.words(key)} {written(record[key])}" for key in self.beside(main))
            text += f" {self.words(main)}: {measured(record, main)}{f' ({beside})' if beside else ''}."
        if family == "plan":
            best = _Known(record["recommended"] or {})
            recommended = " Recommended is {design} ({decoder}): {users} users at epsilon {epsilon}."
            text += recommended.format_map(best) if best else " No design that protects all of a device reaches it."
        if family == "compare" and not self.answer:
            text += f" {best_of(record['rows'])}"
        return text

    def beside(self, key: str) -> list[str]:
        """Return the keys of what stands beside a result."""
        return [name for name in _BESIDE.get(key, "").split() if self.record.get(name) is not None]

    @property
    def trust(self) -> str:
        """Who is trusted."""
        return "; ".join(dict.fromkeys(clause.text.trusted for clause in self.promises))

    @property
    def risks(self) -> list[Risk]:
        """What its epsilons bound; nothing where no epsilon bounds what is learned."""
        record, family = self.record, self.subject.family
        if all(clause.text.loud or clause.kind == "silent" for clause in self.promises):
            return []
        if family in (*EXPERIMENTS, "audit"):
            several = record.get("copies_max") or record.get("clients") or 1
            whose = _AUDITED if family == "audit" else _EPSILONS
            every = [(key, label) for key, label in whose.items() if record.get(key) is not None]
            repeats = ("person_epsilon", "voter_epsilon") if several == 1 else ()
            return [Risk.of(record, key, label) for key, label in every if key not in repeats]
        rows = [row for name in (*_COLUMNS, "settings", "schemes") for row in record.get(name) or ()]
        rows = [record["recommended"]] if record.get("recommended") else rows
        if family == "years":
            rows = [{**row, "epsilon": row["epsilon_horizon"]} for row in rows]
        guaranteed = [
            row for row in rows if row.get("epsilon") is not None and (family != "compare" or is_guaranteed(row))
        ]
        risks = [
            Risk.of({"neighbours": record.get("neighbours"), **row}, "epsilon", "one person") for row in guaranteed
        ]
        worst = {risk.epsilon: risk for risk in sorted(risks, key=lambda risk: risk.right)}
        return sorted(worst.values(), key=lambda risk: risk.right)

    @cached_property
    def warnings(self) -> list[str]:
        """What everybody must see."""
        record, liars = self.record, self.record.get("withstanding")
        lines = [clause.meaning for clause in self.promises if clause.loud]
        several = record.get("copies_max") not in (None, 1) and self.promises[0].kind == "local"
        every = {
            "People were drawn with replacement: one person stands behind up to {copies_max} devices, and loses up to "
            "{person_epsilon} nats.": several,
            "A share of {malicious} of the devices lied (attack {attack}); what is predicted of items right holds for "
            "honest ones.": record.get("malicious"),
            "The policy went astray: {policy_error}": record.get("policy_error"),
            "So large an epsilon bounds nothing that matters to a person: an even guess becomes certain.": self.risks
            and all(risk.right > 0.999 for risk in self.risks),
        }
        lines += [line.format_map(_Known(record)) for line, holds in every.items() if holds]
        if liars:
            best = _Known(liars.get("recommended") or {})
            so = "{design} in pools of {pool_size} takes {users} users" if best else "no design is known to reach it"
            share = f"If a share of {written(liars['malicious'])} lies"
            lines.append(f"What is recommended holds if everybody is honest. {share}, {so.format_map(best)}.")
        audits = [record, *(record.get("audits") or ())] if self.subject.family == "audit" else []
        lines += [f"{row['design']}: {written(row['failures'])}" for row in audits if row.get("failures")]
        return [*lines, *map(str, record.get("warnings") or ())]

    @property
    def remarks(self) -> list[str]:
        """What readers of the details should know."""
        every = [*(self.record.get("remarks") or ()), self.record.get("rule"), self.record.get("not_for")]
        return [str(remark) for remark in every if remark and remark not in self.warnings]

    def words(self, key: str) -> str:
        """Return what a key is called."""
        columns = EXPERIMENTS[self.subject.family].columns if self.subject.family in EXPERIMENTS else ()
        named = {
            column.name: column.words_under.get(str(self.record.get("trust_model")), column.label) for column in columns
        }
        return named.get(key, "").strip() or _WORDS.get(key) or key.replace("_", " ")

    @property
    def grids(self) -> Iterator[Grid]:
        """Results beside predictions, and all tables that the record holds."""
        have = [key for key in _BESIDE if self.record.get(key) is not None and self.subject.family in EXPERIMENTS]
        beside = {
            key: "; ".join(f"{self.words(name)}: {measured(self.record, name)}" for name in self.beside(key))
            for key in have
        }
        rows = [(self.words(key), measured(self.record, key), beside[key]) for key in have]
        if rows:
            seeds = "means with intervals over seeds" if self.record.get("level") else "of one seed, without intervals"
            yield Grid(caption=f"What was measured, {seeds}", headings=("result", "measured", "beside it"), rows=rows)
        yield from self.tables(self.record, "")

    def tables(self, record: Mapping[str, Any], of: str) -> Iterator[Grid]:
        """Yield the lists of rows that a record holds, however deep."""
        for key, value in record.items():
            if key in _HIDDEN:
                continue
            if isinstance(value, Mapping):
                yield from self.tables(value, f"{of}{self.words(key)}: ")
            rows = [row for row in value if isinstance(row, Mapping)] if isinstance(value, list) else []
            family = self.subject.family
            keys = _COLUMNS.get(family if family in ("years", "risk") else key, "").split() if not of else []
            keys = [name for name in keys or columns_of(rows) if any(row.get(name) is not None for row in rows)]
            if keys:
                cells = [[measured(row, name) for name in keys] for row in rows[:MOST_ROWS]]
                yield Grid(caption=f"{of}{self.words(key)}", headings=[self.words(name) for name in keys], rows=cells)
            for row in rows if key != "runs" else ():
                yield from self.tables(row, f"{of}{self.words(key)}, {next(iter(row.values()), '')}: ")

    @property
    def lines(self) -> list[tuple[str, str]]:
        """Settings and population, and all other single values of the record."""
        used = {*_HIDDEN, *_BESIDE, *(name for names in _BESIDE.values() for name in names.split())}
        used |= {f"{key}_error" for key in used}
        plain = [(key, value) for key, value in self.record.items() if key not in used and value is not None]
        return [(self.words(key), text) for key, value in plain if (text := written(value)) and not is_table(value)]

    @property
    def again(self) -> str | None:
        """The command that repeats an experiment from the scenario on the page; None where there is none."""
        repeat, family, document = self.record.get("repeat"), self.subject.family, self.subject.scenario
        if document is None or family not in EXPERIMENTS:
            return None
        code = " --allow-code" if any(":" in str(document.get(name, "")) for name in ("design", "policy")) else ""
        return f"blindrec {family} scenario.json{f' --repeat {repeat}' if repeat else ''}{code} --backend inprocess"

    @property
    def scenario(self) -> str | None:
        """The scenario's file, as it is."""
        return None if self.subject.scenario is None else to_json(dict(self.subject.scenario)).rstrip()

    @property
    def origin(self) -> list[tuple[str, str]]:
        """What it was made with: digest, time, versions."""
        made = {key: value for key, value in self.subject.versions.items() if key != "command"}
        made |= made.pop("versions", {})
        rest = [(key.replace("_", " ").replace("sha256", "SHA-256"), written(value)) for key, value in made.items()]
        return [("SHA-256 of the result's file", self.subject.sha256), *rest]


class _Known(dict[str, Any]):
    """Fields of a sentence; what a record does not say is a dash."""

    def __getitem__(self, key: str) -> str:
        return written(self.get(key))


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
        return number(value) if math.isfinite(value) else "infinite"
    if isinstance(value, list):
        return ", ".join(map(written, value))
    if isinstance(value, Mapping):
        return ", ".join(f"{key.replace('_', ' ')} {written(inner)}" for key, inner in value.items())
    return {None: NOTHING, "inf": "infinite"}.get(value, str(value))


def measured(row: Mapping[str, Any], key: str) -> str:
    """Return a value with its interval: over seeds, of its own columns, or of ``low`` and ``high`` that follow it."""
    keys, error = [*row], row.get(f"{key}_error")
    plain = "low" in keys and key in keys and keys.index("low") == keys.index(key) + 1
    low, high = (row.get(end if plain else f"{key}_{end}") for end in ("low", "high"))
    low, high = (row.get("intervals") or {}).get(key) or (low, high)
    text = f"{written(row.get(key))} {interval(low, high, missing=NOTHING)}".strip()
    return f"{text} ± {written(error)}" if isinstance(error, (int, float)) else text


def columns_of(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the columns of rows but ends of intervals, tables, and what only says the same long sentence again."""
    every = dict.fromkeys(key for row in rows for key in row)
    ends = {f"{key}_{end}" for key in every for end in ("low", "high", "error")} | {"low", "high"}
    texts = {key: {str(row.get(key)) for row in rows} for key in every}
    same = {
        key for key, every_text in texts.items() if len(rows) > 1 and len(every_text) == 1 and len(min(every_text)) > 60
    }
    nested = {key for key in every if any(isinstance(row.get(key), (list, dict)) for row in rows)}
    return [key for key in every if key not in ends | same | nested]


def is_table(value: Any) -> bool:
    """Return whether a value holds rows or many numbers, which stand in no line."""
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return len(inner) > 12 or any(isinstance(item, (list, dict)) for item in inner)


def best_of(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return what is best with a guarantee, beside popularity without privacy."""
    compared = [row for row in rows if row.get("compared", True) and is_guaranteed(row)]
    lists = [("none", "popularity", False)]
    plain = [row for row in rows if (row["trust_model"], row["mechanism"], row["features"]) in lists]
    text = f"Plain popularity, which knows all ratings: NDCG {written(plain[0]['ndcg'])}." if plain else ""
    if not compared:
        return text
    best = max(compared, key=lambda row: float(row["ndcg"]))
    template = "Best with an epsilon: {trust_model}, {mechanism} at epsilon {epsilon} by {users} people, NDCG {ndcg}. "
    return template.format_map(_Known(best)) + text


def report_of(paths: Sequence[Path]) -> str:
    """Return the page of some folders of `--out` and files of `--json`."""
    if not 1 <= len(paths) <= MOST_SUBJECTS:
        raise InputError(f"{len(paths)} results are given; a report takes from 1 to {MOST_SUBJECTS}")
    subjects = [read_subject(path, number) for number, path in enumerate(paths, 1)]
    with _of_files(paths):
        sections = [ReportSection(subject=subject) for subject in subjects]
        answers, style = [section.answer for section in sections if section.answer], page_style()
        scripts = answers[0].scripts if answers else ()
        about = {"sections": sections, "answers": answers, "style": style, "scripts": scripts}
        about |= {"policy": policy(style, scripts), "inline": inline, "limits": LIMITS}
        return templates().get_template("page.html").render(about)


_WRONG = (ArithmeticError, AttributeError, LookupError, RuntimeWarning, TypeError, ValueError, UndefinedError)
"""What values raise that have been changed; a template calls it undefined where a property finds no attribute."""


@contextmanager
def _of_files(paths: Sequence[Path]) -> Iterator[None]:
    """Refuse results in which somebody has changed values so that nothing can be computed or drawn of them."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)  # a number overflows
            yield
    except InputError:
        raise
    except _WRONG as error:
        names, what = ", ".join(map(str, paths)), brief(f"{type(error).__name__}: {error}")
        raise InputError(
            f"{names} cannot be shown, for a value is none of such a result ({what}); make it anew"
        ) from None


def inline(picture: Picture, prefix: str) -> Markup:
    """Return a picture as a part of a page: with words for readers, identifiers of its own, and attributes as style.

    A policy that allows a style sheet by its digest allows no ``style`` of an element.
    """
    svg = rendered(picture, ".svg").decode()
    body = _NOT_OURS.sub("", svg[svg.index("<svg") :])
    body = _ID.sub(lambda match: match[1] + prefix, body).replace("xlink:href", "href")
    body = _STYLE.sub(lambda match: re.sub(r"\s*([\w-]+):\s*([^;]*);?", r'\1="\2" ', match[1]).rstrip(), body)
    root = _SVG.search(body)
    assert root is not None, "the plotting library writes a viewBox"
    opening = Markup(
        '<svg xmlns="http://www.w3.org/2000/svg" {view} stroke-linejoin="round" stroke-linecap="butt" role="img" '
        'aria-labelledby="{id}title {id}desc"><title id="{id}title">{title}</title><desc id="{id}desc">{alt}</desc>'
    )
    named = {"id": prefix, "title": picture.title, "alt": picture.alt}
    return opening.format(view=Markup(root[1]), **named) + Markup(body[root.end() :])


def write_report(results: Sequence[Path], out: Path, *, force: bool = False) -> Path:
    """Write the page of some results, over a file that is there by ``force`` alone; see `report_of`."""
    check_ending("out", out, (".html", ".htm"))
    if out.is_file() and not force:
        raise InputError(f"{out} is there already; name another file, or give --force to write over it")
    write_target("out", out, report_of(results).encode())
    return out
