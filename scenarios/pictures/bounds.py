"""The picture of lower bounds: users that any learner needs, and which bound binds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import pandas as pd

from scenarios.pictures.drawing import LEAST, MEASURED, Mark, draw_rows, known, setting_of
from scenarios.pictures.picture import Picture


def pictures(record: Mapping[str, Any], tables: Mapping[str, pd.DataFrame]) -> Iterator[Picture]:  # noqa: ARG001 (as others)
    """Yield the picture of what `blindrec bounds --json` prints."""
    marks = known(
        [
            Mark(
                row["name"],
                "binds" if row["binds"] else "holds, and says less",
                row["users"],
                MEASURED if row["binds"] else LEAST,
            )
            for row in record["bounds"]
            if row["valid"] and row["users"] > 0
        ]
    )
    if marks:
        alt = "Users that any epsilon-LDP learner needs, by every lower bound that holds, on a logarithmic axis."
        title = f"users that any epsilon-LDP learner needs: {setting_of(record)}".removesuffix(": ")
        draw = partial(draw_rows, marks=marks, title=title, words="users", logarithmic=True)
        yield Picture("bounds", "Users that any learner needs", alt, draw)
