"""The picture of an audit: epsilon as claimed, as the channel has it, and as an attack on releases shows it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import pandas as pd

from scenarios.pictures.drawing import LEAST, PREDICTED, PROVED, Mark, draw_rows, known
from scenarios.pictures.picture import Picture

_LOOKS = {
    "claimed": ("claimed", PROVED),
    "exact": ("exact, of the channel", PREDICTED),
    "measured": ("measured on releases, at least", LEAST),
}


def pictures(record: Mapping[str, Any], tables: Mapping[str, pd.DataFrame]) -> Iterator[Picture]:  # noqa: ARG001 (as others)
    """Yield the picture of what `blindrec audit --json` prints: of one design, or of all."""
    rows = (
        [record]
        if "claimed" in record
        else [row for name in ("audits", "rows", "mechanisms") for row in record.get(name, ())]
    )
    marks = known(
        [
            Mark(str(row.get("design") or row.get("mechanism")), told, row.get(name), look)
            for row in rows
            for name, (told, look) in _LOOKS.items()
        ]
    )
    if marks:
        alt = "Epsilon as claimed, as the exact channel has it, and the lower bound that an attack on releases shows."
        confidence = next((row["confidence"] for row in rows if row.get("confidence")), None)
        title = "privacy loss, claimed and found" + (f"; measured at confidence {confidence:g}" if confidence else "")
        draw = partial(draw_rows, marks=marks, title=title, words="epsilon [nats]")
        yield Picture("audit", "Privacy, claimed and found", alt, draw)
