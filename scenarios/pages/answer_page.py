"""The answer of a study on a page; style sheet and scripts of pages, which a policy allows by their digests."""

import base64
import hashlib
import html
import importlib.util
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from coordinator.protocol.trust_models import CURATOR, LOCAL, TWO_SERVERS, sentences
from scenarios.pages.answer_picture import VEGA_LITE, specification
from scenarios.show.picture import COLOURS
from scenarios.studies.answer import (
    RUNGS,
    VOLUNTEERS,
    Answer,
    AtEpsilon,
    Cell,
    Rung,
    lie_text,
    people_text,
    right_at_most,
    share_text,
    times_text,
    whose_text,
)
from scenarios.studies.rates import MARKS, ViewName, per_hundred

ALT = (
    "What lists are worth by the people who take part, a curve for each rung, and the people that the target takes; "
    "all numbers stand in the table below"
)
_SPACES = re.compile(r"(?<=\d) (?=%|people)|(?<=%) (?=\[)|(?<=epsilon) (?=\d)")


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerSection:
    """An answer as part of a page."""

    body: Markup
    scripts: tuple[Markup, ...]  # In the order in which they run; none where the picture is still


def has_interactive() -> bool:
    """Return whether what draws and switches the picture is installed: the extra ``page``."""
    return all(importlib.util.find_spec(name) is not None for name in ("altair", "vl_convert"))


def answer_section(answer: Answer, number: int, still: Markup) -> AnswerSection:
    """Return an answer as a section of a page.

    The still picture stands in where scripts do not run; with the extra ``page`` it is the first view of the
    interactive one.
    """
    interactive, data = has_interactive(), Markup()
    if interactive:
        spec = specification(answer)
        people, first = [cell.people for cell in answer.cells], answer.by_epsilon[0]
        about = {"spec": spec, "epsilon": first.epsilon, "rungs": [rung.key for rung in first.rungs]}
        data = script_json({**about, "least": min(people), "most": max(people)})
        still = Markup(_drawn(json.dumps(spec)))
    body = (
        templates()
        .get_template("answer.html")
        .render(answer=answer, number=number, texts=RUNGS, still=still, alt=ALT, data=data, interactive=interactive)
    )
    return AnswerSection(body=Markup(body), scripts=_scripts() if interactive else ())


@cache
def _scripts() -> tuple[Markup, ...]:
    import vl_convert  # noqa: PLC0415 (an extra)

    bundle: Callable[..., str] = vl_convert.javascript_bundle  # its types know no bundle without a snippet
    return Markup(bundle(vl_version=VEGA_LITE)), _source("answer.js")


@cache
def _drawn(spec: str) -> str:
    import vl_convert  # noqa: PLC0415 (an extra)

    drawn: str = vl_convert.vegalite_to_svg(json.loads(spec), vl_version=VEGA_LITE)
    # What it shows is told to those who cannot see it, as of the other pictures
    head_text = f"<title>{ALT.split(';', maxsplit=1)[0]}</title><desc>{ALT}</desc>"
    head, rest = drawn.split(">", 1)
    return f'{head} role="img">{head_text}{rest}'


def page_style() -> Markup:
    """Return the style sheet: the palette as variables, for light, dark and print, and the rules of `style.css`."""
    light, dark = ("".join(f"--{name}:{pair[theme]};" for name, pair in COLOURS.items()) for theme in (0, 1))
    schemes = (
        f":root{{color-scheme:light dark;{light}}}@media(prefers-color-scheme:dark){{:root{{{dark}}}}}"
        f"@media print{{:root{{color-scheme:light;{light}}}}}\n"
    )
    return Markup(schemes) + _source("style.css")


def _source(name: str) -> Markup:
    """Return a file among the templates as it is."""
    return Markup(PackageLoader("scenarios.pages").get_source(templates(), name)[0])


def policy(style: str, scripts: Sequence[str]) -> str:
    """Return a Content-Security-Policy that allows a page's style sheet and scripts by digest, and nothing else."""
    allowed = " ".join(map(_digest, scripts)) or "'none'"
    return f"default-src 'none'; script-src {allowed}; style-src {_digest(style)}; base-uri 'none'; form-action 'none'"


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def script_json(value: object) -> Markup:
    """Return JSON that cannot end a script element, whatever names a file has."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


@cache
def templates() -> Environment:
    """Return the templates of pages, which escape whatever is no markup of theirs."""
    loader = PackageLoader("scenarios.pages")
    made = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    made.filters |= {"solid": solid, "share_parts": _share_parts, "facts": _facts, "risks": _risks, "dozen": _dozen}
    made.filters["risk_names"] = _risk_names
    return made


def solid(text: str) -> Markup:
    """Return text whose numbers are not torn apart at the end of a line."""
    text = re.sub(r"\[[^]]*\]", lambda match: match[0].replace(" ", "\N{NO-BREAK SPACE}"), html.escape(text))
    text = re.sub(r"--\w+", lambda match: f"<code>{match[0]}</code>", text)
    return Markup(_SPACES.sub("\N{NO-BREAK SPACE}", text))


def _share_parts(cell: Cell, target: float) -> list[str]:
    return share_text(cell.share, target).split(" % ")


def _facts(rung: Rung, answer: Answer) -> list[tuple[str, str]]:
    """Return what a rung's card says beside its share."""
    mechanism = [] if rung.cell is None else [("mechanism", rung.cell.mechanism)]
    if rung.key == VOLUNTEERS:
        return [("guess right", "always: public"), ("the others", "send nothing"), *mechanism]
    needed = [] if rung.needed is None else [(f"people for {100 * answer.share:g} %", people_text(rung.needed))]
    right = f"≤ {times_text(rung.right or 1.0)}"
    if rung.risk("holds") is not None:
        right = f"{whose_text(rung)} of 100, {right}"
    return [*needed, ("guess right", right), ("if they lie", lie_text(rung)), *mechanism]


def _game_text(rung: Rung, view: ViewName, game: Literal["whose", "like"]) -> str:
    """Return how often the best attack is right in a game, of 100 times, on average and of one person in ten."""
    risk = rung.risk(view)
    rate = None if risk is None else getattr(risk, game)
    if risk is None or rate is None:
        return "only the bound is known"
    mark = MARKS.get(risk.how, "")
    return f"{per_hundred(rate.mean)}{mark}; of one person in ten {per_hundred(rate.decile)}{mark} or more"


def _measured_risks(rung: Rung, at: AtEpsilon) -> list[tuple[str, str]]:
    """Return the cells about what the best attacks reach; none where no rung has any."""
    if not any(other.risks for other in at.rungs):
        return []
    games: tuple[tuple[str, Literal["whose", "like"]], ...] = (("whose of two", "whose"), ("likes an item", "like"))
    cells = []
    for name, game in games:
        text = _game_text(rung, "holds", game)
        if any(risk.view == "lies" for risk in rung.risks):
            text += f". If they lie: {_game_text(rung, 'lies', game)}"
        if rung.key == VOLUNTEERS:
            text = "volunteers: always; others: 50"
        cells.append((name, text))
    return cells


def _risks(rung: Rung, at: AtEpsilon) -> list[tuple[str, str]]:
    """Return the cells of a rung's row about what is not protected."""
    model, right = RUNGS[rung.key], f"at most {times_text(rung.right or 1.0)}"
    lies = {CURATOR: "always", LOCAL: right, TWO_SERVERS: f"one: {right}; both: always", VOLUNTEERS: "the same"}
    lie = lies.get(rung.key, "always")
    if rung.cell is not None and rung.cell.device_epsilon is not None:
        lie = f"at most {times_text(rung.right_if_they_lie or 1.0)}: epsilon {rung.cell.device_epsilon:.1f}"
    if rung.key == VOLUNTEERS:
        right = "volunteers: always; others: 50 of 100, by what they send"
    return [
        ("who sees what", sentences(model.sees)),
        ("guess right", right),
        *_measured_risks(rung, at),
        ("if they lie", lie),
        ("what is left then", sentences(model.left)),
    ]


def _risk_names(at: AtEpsilon) -> list[str]:
    """Return the columns of the table about what is not protected."""
    return ["who is trusted", *(name for name, _ in _risks(at.rungs[0], at))]


def _dozen(at: AtEpsilon, answer: Answer) -> str:
    """Return how often a guess is right at most after twelve askings, by the largest delta and the widest relation."""
    delta = max(cell.delta for cell in answer.cells)
    relations = {cell.neighbours for cell in answer.cells if cell.epsilon is not None}
    return times_text(max(right_at_most(at.epsilon, delta, neighbours=relation, askings=12) for relation in relations))
