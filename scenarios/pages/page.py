"""A page of one or several subjects with its pictures, and where it is written as HTML and PDF."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from coordinator.protocol.errors import InputError
from scenarios.pages.families import FAMILIES
from scenarios.pages.promise import EVEN, EVERYWHERE, PRIORS, in_short
from scenarios.pages.subject import Subject, read_subject
from scenarios.pages.told import Lines, Told
from scenarios.pages.values import shown, words
from scenarios.pictures.picture import Picture, pictures_of
from scenarios.pictures.writing import rendered
from scenarios.store.files import to_json, try_file, write_bytes

_ID = re.compile(r'(\bid="|href="#|url\(#)')
_ROOT = re.compile(r"<svg\b[^>]*?(viewBox=\"[^\"]*\")[^>]*>")
_JOINED = "stroke-linejoin:round;stroke-linecap:butt"
"""What the plotting library says in a style sheet of its own, which would hold for the whole page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """A picture of a page."""

    title: str  # Its name, and what it shows
    alt: str
    svg: Markup  # With both inside


def drawn_of(subject: Subject) -> list[Drawn]:
    """Return the pictures of a subject."""
    pictures = pictures_of(subject.family, subject.documents["result"], subject.tables)
    return [_drawn(one, f"f{subject.number}-{place}-") for place, one in enumerate(pictures, 1)]


def _drawn(picture: Picture, prefix: str) -> Drawn:
    svg = rendered(picture, ".svg").decode()
    return Drawn(title=picture.title, alt=picture.alt, svg=inline(svg, picture.title, picture.alt, prefix))


def inline(svg: str, title: str, alt: str, prefix: str) -> Markup:
    """Return an SVG file as a part of a page: with names for readers, and identifiers that no other picture has."""
    body = svg[svg.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    body = re.sub(r"<style[^>]*>.*?</style>", "", body, flags=re.DOTALL)
    body = _ID.sub(lambda found: found[1] + prefix, body).replace("xlink:href", "href")
    opening = Markup(
        '<svg xmlns="http://www.w3.org/2000/svg" {} style="{}" role="img" aria-labelledby="{}title {}desc">'
        '<title id="{}title">{}</title><desc id="{}desc">{}</desc>'
    )
    found = _ROOT.search(body)
    assert found is not None, "the plotting library writes a viewBox"
    start = opening.format(Markup(found[1]), _JOINED, prefix, prefix, prefix, title, prefix, alt)
    return start + Markup(body[found.end() :])


MOST_SUBJECTS = 24
_DIGESTS = ("releases_sha256", "recommendations_sha256", "model_digest")
_EXPERIMENTS = frozenset({"run", "online", "two-tier"})


@dataclass(frozen=True, slots=False, kw_only=True)
class Section:
    """A subject on a page."""

    subject: Subject
    told: Told  # What its family says

    @cached_property
    def figures(self) -> Sequence[Drawn]:
        """Its pictures."""
        return drawn_of(self.subject)

    @property
    def in_short(self) -> tuple[Markup, Markup] | None:
        """Its epsilons, and what an even guess can become; None where no epsilon bounds that."""
        return in_short(self.told.believed) if self.told.believed and self.told.whole else None

    @property
    def unbounded(self) -> bool:
        """Whether no epsilon bounds what somebody can learn; else a record may just not name it."""
        return any(one.loud for one in self.told.promises)

    @property
    def command(self) -> Markup | None:
        """The command that was typed; None where it was not kept."""
        typed = self.subject.of("versions").get("command")
        return None if typed is None else shown(typed)

    @property
    def again(self) -> Markup | None:
        """The command that repeats an experiment from the scenario on the page; None where there is none."""
        scenario, repeat = self.scenario, self.subject.record.get("repeat")
        if scenario is None or self.subject.family not in _EXPERIMENTS:
            return None
        seeds = Markup(" --repeat {}").format(shown(repeat)) if repeat else ""
        document = self.subject.of("scenario").value or self.subject.of("mark").value
        code = " --allow-code" if any(":" in str(document.get(name, "")) for name in ("design", "policy")) else ""
        return Markup("blindrec {} scenario.json{}{} --backend inprocess").format(self.subject.family, seeds, code)

    @property
    def scenario(self) -> str | None:
        """The scenario's file, as it is; of sweeps what all units depend on."""
        found = self.subject.documents.get("scenario") or self.subject.documents.get("mark")
        return None if found is None else to_json(dict(found)).rstrip()

    @property
    def made(self) -> Lines:
        """What it was made with: digests, time, versions."""
        told, record = self.subject.of("versions"), self.subject.record
        ratings = [("SHA-256 of the file that was read", shown(one)) for one in [told.get("source_sha256")] if one]
        digests = [(words(name), shown(one)) for name in _DIGESTS if (one := record.get(name))]
        time = [("ended", shown(one)) for one in [told.get("ended")] if one]
        versions = [(name, shown(one)) for name, one in (told.get("versions") or told).items() if name not in _TOLD]
        result = Markup('<data value="{}" data-digest="sha256">{}</data>')
        own = [("SHA-256 of the result's file", result.format(self.subject.record.place, self.subject.sha256))]
        return [*time, *own, *digests, *ratings, *versions]


_TOLD = frozenset({"command", "ended", "run_sha256", "source_sha256", "versions"})


def report_of(paths: Sequence[Path]) -> str:
    """Return the page of some folders of `--out` and files of `--json`."""
    if not 1 <= len(paths) <= MOST_SUBJECTS:
        raise InputError(f"{len(paths)} results are given; a report takes from 1 to {MOST_SUBJECTS}")
    subjects = [read_subject(path, number) for number, path in enumerate(paths, 1)]
    sections = [Section(subject=one, told=FAMILIES[one.family](one)) for one in subjects]
    loader = PackageLoader("scenarios.pages")
    pages = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    sheet = Markup(pages.get_template("style.css").render())
    return pages.get_template("page.html").render(
        sections=sections, sheet=sheet, priors=PRIORS, even=EVEN, limits=EVERYWHERE
    )


_ENDINGS = {"out": (".html", ".htm"), "pdf": (".pdf",)}


def write_report(results: Sequence[Path], out: Path, pdf: Path | None = None) -> Path:
    """Write the page of some results; see `scenarios.pages.page.report_of`."""
    for name, target in (("out", out), ("pdf", pdf)):
        if target is not None:
            _check(name, target)
    if pdf is not None and importlib.util.find_spec("weasyprint") is None:
        raise InputError(f"pdf is {pdf}, but weasyprint is not installed; pip install 'blindrec[pdf]', or print {out}")
    page = report_of(results)
    _write("out", out, page.encode())
    if pdf is not None:
        _write("pdf", pdf, pdf_of(page))
    return out


def pdf_of(page: str) -> bytes:
    """Return a page as PDF, printed by its own style sheet; nothing is fetched for it."""
    import weasyprint  # noqa: PLC0415 (an extra)

    def fetch(url: str, *_: object, **__: object) -> dict[str, object]:
        raise ValueError(f"a report loads nothing, but asks for {url[:80]}")

    content: bytes = weasyprint.HTML(string=page, url_fetcher=fetch).write_pdf()
    return content


def _check(name: str, target: Path) -> None:
    endings = _ENDINGS[name]
    if target.suffix not in endings:
        raise InputError(f"{name} is {target}; name a file that ends in {endings[0]}")
    if target.is_dir():
        raise InputError(f"{name} file {target} is a folder; name a file")
    try_file(target, f"{name} file {target} cannot be written", "name a file in an existing folder")


def _write(name: str, target: Path, content: bytes) -> None:
    try:
        write_bytes(target, content)
    except OSError as error:
        raise InputError(f"{name} file {target} cannot be written ({error.strerror}); name another") from None
