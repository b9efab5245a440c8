"""An independent reader of reports: what on a page is wrong, or says not where it comes from."""

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Trees

import html5lib

SVG = "{http://www.w3.org/2000/svg}"
FILES = {
    "result": "result.json",
    "scenario": "scenario.json",
    "versions": "versions.json",
    "mark": "rounds/scenario.json",
}
NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?(?:[eE][-+]?\d+)?")
NAMES = re.compile(r"SHA-256|kmeans1d|sha256|at 10|top 10|top 50|Theorem 3\.5|Figure [12]")
"""Digits in names of columns and packages, which are no results."""


def tree_of(page: str) -> Trees.Element:
    """Parse a page; whatever is not valid HTML raises."""
    found: Trees.Element = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parse(page)
    return found


def words_of(one: Trees.Element) -> str:
    """All text inside of an element."""
    return " ".join("".join(one.itertext()).split())


def faults_of(page: str, paths: Sequence[Path]) -> list[str]:
    """What a page says that its subjects' JSON does not: numbers and words of `data` elements, and digits elsewhere."""
    documents = {str(number): documents_of(path) for number, path in enumerate(paths, 1)}
    tree = tree_of(re.sub(r"<svg.*?</svg>", "", page, flags=re.DOTALL))  # drawings have ticks, and take long to parse
    found = [fault for one in tree.iter("data") if (fault := _fault_of(one, documents, paths))]
    found += [
        f"a scenario is not its file's: {words_of(one)[:60]}" for one in tree.iter("pre") if _other(one, documents)
    ]
    return found + [f"digits from nowhere: {text!r}" for text in _loose(tree) if NUMBER.search(NAMES.sub("", text))]


def documents_of(path: Path) -> dict[str, Any]:
    """The JSON of a folder or file."""
    if path.is_dir():
        return {name: json.loads((path / file).read_text()) for name, file in FILES.items() if (path / file).exists()}
    result = json.loads(path.read_text())
    return {"versions": result.pop("provenance", {}), "result": result}


def _fault_of(one: Trees.Element, documents: Mapping[str, Any], paths: Sequence[Path]) -> str | None:
    place, told = one.get("value", ""), words_of(one)
    if one.get("data-formula"):
        right = told in {"1", f"{100 * float(place):g} %"}
        return None if right else f"{told!r} is no part of a formula, or another prior than {place}"
    if one.get("data-digest"):
        path = paths[int(place.split("/")[0]) - 1]
        file = path / "result.json" if path.is_dir() else path
        return None if hashlib.sha256(file.read_bytes()).hexdigest() == told else f"{told} is another digest"
    value = value_at(place, documents)
    if one.get("data-belief"):
        prior, epsilon = Fraction(one.get("data-prior", "")), math.inf if value == "inf" else float(value)
        return None if _is_belief(told, one.get("data-belief", ""), float(prior), epsilon) else f"{told} at {place}"
    if "#/people/" in place and isinstance(value, int) and told == f"{float(f'{value:.2g}'):,.0f}":
        return None  # a sentence says a number of people in two digits
    return None if says(told, value) else f"{place} is {value!r}, and the page says {told!r}"


def value_at(place: str, documents: Mapping[str, Any]) -> Any:
    """The value at a place such as ``1/result#/rows/0/ndcg``."""
    head, _, pointer = place.partition("#")
    value: Any = documents[head.split("/")[0]][head.split("/")[1]]
    for part in filter(None, pointer.split("/")):
        key = part.replace("~1", "/").replace("~0", "~")
        value = value[int(key)] if isinstance(value, list) else value[key]
    return value


def says(told: str, value: Any) -> bool:
    """Whether a text is a value: a number to four digits, a share to a tenth of a percent, a truth, or the words."""
    if isinstance(value, bool):
        return told == ("yes" if value else "no")
    if isinstance(value, str):
        return told == " ".join(value.split()) or (value == "inf" and told == "infinite")
    percent = told.endswith(" %")
    if not NUMBER.fullmatch(told.removesuffix(" %")):
        return False
    exact = float(told.removesuffix(" %").replace(",", "")) / (100 if percent else 1)
    return bool(abs(exact - value) <= (0.000501 if percent else 0.000501 * abs(value)))


def _is_belief(told: str, kind: str, prior: float, epsilon: float) -> bool:
    """Whether a bound is Bayes' rule at the largest ratio, to a tenth of a percent, and never looks better."""
    odds, factor = prior / (1 - prior), math.exp(min(epsilon, 700.0))
    most, least = odds * factor / (1 + odds * factor), odds / factor / (1 + odds / factor)
    shown = float(told.removesuffix(" %"))
    over = shown - 100 * most if kind == "at-most" else 100 * least - shown
    return told.endswith(" %") and -1e-6 <= over < 0.1 + 1e-6


def _other(one: Trees.Element, documents: Mapping[str, Any]) -> bool:
    number = one.get("data-document")
    if number is None:
        return False
    mine = documents[number]
    return bool(json.loads("".join(one.itertext())) != (mine.get("scenario") or mine["mark"]))


def _loose(one: Trees.Element) -> Iterator[str]:
    """Texts outside of what names its place: results' names and scenarios may hold digits."""
    own = one.tag in {"data", "style", "title", "svg", f"{SVG}svg"}
    own = own or one.get("class") in {"subject", "scenario"} or one.tag == "meta"
    if not own:
        if one.text:
            yield one.text
        for child in one:
            yield from _loose(child)
            if child.tail:
                yield child.tail
