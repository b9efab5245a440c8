"""Files of pictures: refused before the work begins where they cannot be written, and the same bytes every time."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from coordinator.protocol.errors import InputError
from scenarios.pictures.picture import Picture, pictures_of
from scenarios.store.files import try_file, write_bytes

ENDINGS: dict[str, dict[str, Any]] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}, ".png": {}}
"""Of files, with what is left out of them so that they do not depend on the day."""


def check_figure(target: Path | None) -> None:
    """Make sure that a picture can be written where it is wanted, before anything runs."""
    if target is None:
        return
    if target.suffix.lower() not in ENDINGS:
        raise InputError(f"figure is {target}; name a file that ends in {', '.join(ENDINGS)}")
    if target.is_dir():
        raise InputError(f"figure {target} is a folder; name a file")
    try_file(target, f"figure {target} cannot be written", "name a file in an existing folder")


def rendered(picture: Picture, ending: str) -> bytes:
    """Return a picture as the content of a file, the same for the same result."""
    from matplotlib.figure import Figure  # noqa: PLC0415 (plotting, where something is drawn)

    from scenarios.pictures.drawing import styled  # noqa: PLC0415 (as above)

    drawn, figure = io.BytesIO(), Figure()
    with styled(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)  # a name in a script that the font lacks
        picture.draw(figure)
        figure.savefig(drawn, format=ending.removeprefix("."), metadata=ENDINGS[ending])
    return drawn.getvalue()


def draw(target: Path, picture: Picture) -> None:
    """Draw a picture, and write it whole or not at all."""
    content = rendered(picture, target.suffix.lower())
    try:
        write_bytes(target, content)
    except OSError as error:
        raise InputError(f"figure {target} cannot be written ({error.strerror}); name another") from None


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
