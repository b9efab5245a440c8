"""The picture of an adversary: what it costs or learns of each recommender, beside the bounds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import pandas as pd

from scenarios.pictures.drawing import BESIDE, LEAST, MEASURED, PREDICTED, PROVED, Mark, draw_rows, known
from scenarios.pictures.picture import Picture

_PRIVACY = {
    "total": ("all steps of the chain together", MEASURED),
    "largest_step": ("the chain's largest step", BESIDE),
    "epsilon_at_least": ("epsilon at least that", LEAST),
    "epsilon_needed": ("epsilon that any such loss needs", LEAST),
    "log_of_rounds": ("ln T", PREDICTED),
    "epsilon_conjectured": ("epsilon as conjectured", PREDICTED),
    "epsilon_proved": ("epsilon as proved", PROVED),
}
_LOSS = {
    "loss": ("measured, ± 2 standard errors", MEASURED),
    "no_algorithm_expects_less": ("no algorithm expects less", LEAST),
    "strikes_times_halvings": ("B log2(N/P)", PREDICTED),
    "loss_bound": ("proved, any world", PROVED),
}


def pictures(record: Mapping[str, Any], tables: Mapping[str, pd.DataFrame]) -> Iterator[Picture]:  # noqa: ARG001 (as others)
    """Yield the picture of what `blindrec adversary --json` prints."""
    rows = record["rows"]
    loses = any("loss_bound" in row for row in rows)
    told, words = (_LOSS, "disliked recommendations") if loses else (_PRIVACY, "privacy loss [nats]")
    every = [_mark(row, name, *one) for row in rows for name, one in told.items()]
    marks = [one for one in known(every) if one.value > 0]  # the axis is logarithmic
    if marks:
        alt = f"What the adversary {record['adversary']} does to each recommender, beside what is proved."
        title = f"{record['adversary']}{_size(rows)}"
        draw = partial(draw_rows, marks=marks, title=title, words=words, logarithmic=True)
        yield Picture("adversary", "An adversary beside the bounds", alt, draw)


def _mark(row: Mapping[str, Any], name: str, told: str, look: str) -> Mark:
    reach, value = row.get("loss_error"), row.get(name)
    if name != "loss" or not reach:
        return Mark(row["recommender"], told, value, look)
    return Mark(row["recommender"], told, value, look, max(row["loss"] - 2 * reach, 0.0), row["loss"] + 2 * reach)


def _size(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return what is the same in all rows."""
    names = (("T", "rounds"), ("steps", "steps"), ("seeds", "seeds"))
    told = [
        f"{word} = {rows[0][name]:,}" for word, name in names if len({row.get(name, "") for row in rows} - {""}) == 1
    ]
    return f": {', '.join(told)}" if told else ""
