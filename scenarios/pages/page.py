"""A page of one or several results with their pictures, as HTML that loads nothing and as PDF."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from coordinator.protocol.errors import InputError
from scenarios.pages.promise import EVEN, PRIORS
from scenarios.pages.schema import read_subject
from scenarios.pages.sections import SECTIONS
from scenarios.show.figures import check_target, rendered
from scenarios.show.picture import Picture
from scenarios.show.records import write_target

MOST_SUBJECTS = 24
_ID = re.compile(r'(\bid="|href="#|url\(#)')
_ROOT = re.compile(r"<svg\b[^>]*?(viewBox=\"[^\"]*\")[^>]*>")
_NOT_OURS = re.compile(r"<metadata>.*?</metadata>|<style[^>]*>.*?</style>", re.DOTALL)
_JOINED = "stroke-linejoin:round;stroke-linecap:butt"
"""What the plotting library says in a style sheet of its own, which would hold for the whole page."""


def report_of(paths: Sequence[Path]) -> str:
    """Return the page of some folders of `--out` and files of `--json`."""
    if not 1 <= len(paths) <= MOST_SUBJECTS:
        raise InputError(f"{len(paths)} results are given; a report takes from 1 to {MOST_SUBJECTS}")
    subjects = [read_subject(path, number) for number, path in enumerate(paths, 1)]
    sections = [SECTIONS[one.family](one) for one in subjects]
    loader = PackageLoader("scenarios.pages")
    pages = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    sheet = Markup(pages.get_template("style.css").render())
    page = pages.get_template("page.html")
    return page.render(sections=sections, sheet=sheet, priors=PRIORS, even=EVEN, inline=inline)


def inline(picture: Picture, prefix: str) -> Markup:
    """Return a picture as a part of a page: with names for readers, and identifiers that no other picture has."""
    svg = rendered(picture, ".svg").decode()
    body = _NOT_OURS.sub("", svg[svg.index("<svg") :])
    body = _ID.sub(lambda match: match[1] + prefix, body).replace("xlink:href", "href")
    root = _ROOT.search(body)
    assert root is not None, "the plotting library writes a viewBox"
    opening = Markup(
        '<svg xmlns="http://www.w3.org/2000/svg" {view} style="{style}" role="img" '
        'aria-labelledby="{id}title {id}desc"><title id="{id}title">{title}</title><desc id="{id}desc">{alt}</desc>'
    )
    named = {"id": prefix, "title": picture.title, "alt": picture.alt}
    return opening.format(view=Markup(root[1]), style=_JOINED, **named) + Markup(body[root.end() :])


def write_report(results: Sequence[Path], out: Path, pdf: Path | None = None) -> Path:
    """Write the page of some results; see `report_of`."""
    check_target("out", out, (".html", ".htm"))
    check_target("pdf", pdf, (".pdf",))
    if pdf is not None and importlib.util.find_spec("weasyprint") is None:
        raise InputError(f"pdf is {pdf}, but weasyprint is not installed; pip install 'blindrec[pdf]', or print {out}")
    page = report_of(results)
    write_target("out", out, page.encode())
    if pdf is not None:
        write_target("pdf", pdf, pdf_of(page))
    return out


def pdf_of(page: str) -> bytes:
    """Return a page as PDF, printed by its own style sheet; nothing is fetched for it."""
    import weasyprint  # noqa: PLC0415 (an extra)

    def fetch(url: str, *_: object, **__: object) -> dict[str, object]:
        raise ValueError(f"a report loads nothing, but asks for {url[:80]}")

    content: bytes = weasyprint.HTML(string=page, url_fetcher=fetch).write_pdf()
    return content
