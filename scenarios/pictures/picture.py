"""What a picture is, and which pictures a result has."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from coordinator.protocol.errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

FAMILIES = {
    "run": "runs",
    "two-tier": "two_tiers",
    "online": "services",
    "sweep": "sweeps",
    "plan": "plans",
    "compare": "comparisons",
    "data": "files",
    "audit": "audits",
    "bounds": "bounds",
    "adversary": "adversaries",
}
"""Kinds of results, each with the module that draws them; one is loaded when something of it is drawn."""


@dataclass(frozen=True)
class Picture:
    """A picture of a result."""

    name: str  # Of its file, without an ending
    title: str  # What it shows, in a few words
    alt: str  # What somebody who cannot see it should know of it
    # Draws it into an empty figure, in the style of `scenarios.pictures.drawing`, and gives the figure its size
    draw: Callable[[Figure], None]
    # All points in it, unless they stand in another file of the folder
    points: pd.DataFrame | None = field(default=None, repr=False, compare=False)


def pictures_of(
    family: str, record: Mapping[str, Any], tables: Mapping[str, pd.DataFrame] | None = None
) -> tuple[Picture, ...]:
    """Return the pictures of a result; the first is what `--figure` writes and `.plot()` draws."""
    if family not in FAMILIES:
        raise InputError(f"family is {family!r}; choose among {', '.join(FAMILIES)}")
    module = importlib.import_module(f"scenarios.pictures.{FAMILIES[family]}")
    found: Iterator[Picture] = module.pictures(record, tables or {})
    return tuple(replace(one, draw=_styled(one.draw)) for one in found)


def _styled(draw: Callable[[Figure], None]) -> Callable[[Figure], None]:
    def styled_draw(figure: Figure) -> None:
        from scenarios.pictures.drawing import styled  # noqa: PLC0415 (plotting, where something is drawn)

        with styled():
            draw(figure)

    return styled_draw
