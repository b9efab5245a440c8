"""Pictures inside of a page: SVG with a name, and words for who cannot see it; nothing is loaded from elsewhere."""

from __future__ import annotations

import re
from dataclasses import dataclass

from markupsafe import Markup

from scenarios.pages.subject import Subject
from scenarios.pictures.picture import Picture, pictures_of
from scenarios.pictures.writing import rendered

_ID = re.compile(r'(\bid="|href="#|url\(#)')
_ROOT = re.compile(r"<svg\b[^>]*?(viewBox=\"[^\"]*\")[^>]*>")
_JOINED = "stroke-linejoin:round;stroke-linecap:butt"
"""What the plotting library says in a style sheet of its own, which would hold for the whole page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """A picture of a page.

    Attributes
    ----------
    title, alt : str
        Its name, and what it shows.
    svg : Markup
        With both inside.
    """

    title: str
    alt: str
    svg: Markup


def drawn_of(subject: Subject) -> list[Drawn]:
    """Return the pictures of a subject."""
    pictures = pictures_of(subject.family, subject.documents["result"], subject.tables)
    return [_drawn(one, f"f{subject.number}-{place}-") for place, one in enumerate(pictures, 1)]


def _drawn(picture: Picture, prefix: str) -> Drawn:
    svg = rendered(picture, ".svg").decode()
    return Drawn(title=picture.title, alt=picture.alt, svg=inline(svg, picture.title, picture.alt, prefix))


def inline(svg: str, title: str, alt: str, prefix: str) -> Markup:
    """Return an SVG file as a part of a page: with names for readers, and identifiers that no other picture has.

    Parameters
    ----------
    svg : str
        As the plotting library writes it.
    title, alt : str
        Its name, and what it shows.
    prefix : str
        Before every identifier.
    """
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
