"""Which pictures a result has, and their files, refused before the work begins where they cannot be written."""

import importlib
import io
import warnings
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from coordinator.protocol.errors import InputError
from scenarios.show.picture import Picture, Tables
from scenarios.show.records import check_file, write_target

FAMILIES = ("run", "two-tier", "online", "sweep", "plan", "compare", "data", "audit", "bounds", "adversary")


def pictures_of(family: str, record: Mapping[str, Any], tables: Tables | None = None) -> tuple[Picture, ...]:
    """Return the pictures of a result; the first is what `--figure` writes and `.plot()` draws."""
    if family not in FAMILIES:
        raise InputError(f"family is {family!r}; choose among {', '.join(FAMILIES)}")
    # The module whose function of that name declares their pictures
    module = importlib.import_module(f"scenarios.show.{'sweep' if family == 'sweep' else 'result'}_figures")
    return tuple(getattr(module, family.replace("-", "_"))(record, tables or {}))


ENDINGS: dict[str, dict[str, Any]] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}, ".png": {}}
"""Of files, with what is left out of them so that they do not depend on the day."""


def check_target(name: str, target: Path | None, endings: Iterable[str]) -> None:
    """Make sure that a file can be written, and that its name ends as it must, before anything runs."""
    if target is None:
        return
    if target.suffix.lower() not in endings:
        raise InputError(f"{name} is {target}; name a file that ends in {', '.join(endings)}")
    check_file(name, target)


check_figure = partial(check_target, "figure", endings=ENDINGS)


def rendered(picture: Picture, ending: str) -> bytes:
    """Return a picture as the content of a file, the same for the same result."""
    from matplotlib.figure import Figure  # noqa: PLC0415 (plotting, where something is drawn)

    from scenarios.show.drawing import draw_picture, styled  # noqa: PLC0415 (as above)

    content, figure = io.BytesIO(), Figure()
    with styled(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)  # a name in a script that the font lacks
        draw_picture(picture, figure)
        figure.savefig(content, format=ending.removeprefix("."), metadata=ENDINGS[ending])
    return content.getvalue()


def draw(target: Path, picture: Picture) -> None:
    """Draw a picture, and write it whole or not at all."""
    write_target("figure", target, rendered(picture, target.suffix.lower()))


def deliver_figure(
    target: Path | None, family: str, record: Mapping[str, Any], tables: Callable[[], Mapping[str, Any]] = dict
) -> None:
    """Write the first picture of a result where `--figure` wants it, or do nothing (None)."""
    if target is None:
        return
    pictures = pictures_of(family, record, tables())
    if not pictures:
        raise InputError(f"figure {target}: this result holds nothing that can be drawn; leave --figure out")
    draw(target, pictures[0])
