"""The picture of a plan: the users that each design needs, or the epsilon, beside the lower bound that binds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from scenarios.pictures.drawing import finished, legend, panels
from scenarios.pictures.picture import Picture
from scenarios.pictures.style import GREY, PALETTE, Style
from scenarios.report.designs import SAFE, name_of, trust_of

_RECOMMENDED = "recommended"
_COLOURS = {_RECOMMENDED: PALETTE[2], SAFE: PALETTE[0]}
_HATCHES = ("//", "..", "xx", "--")
"""Fill the bars of what is never recommended, one a trust model."""


def pictures(record: Mapping[str, Any], tables: Mapping[str, pd.DataFrame]) -> Iterator[Picture]:  # noqa: ARG001 (as others)
    """Yield the picture of a plan's record."""
    alt = "Bars: what each design needs on a logarithmic axis, by whom one has to trust; the recommended one is marked."
    yield Picture("needs", "What each design needs", alt, partial(draw_needs, record))


def draw_needs(plan: Mapping[str, Any], figure: Figure) -> None:
    """Draw the users that each design of a plan needs, or, where users were given, the epsilon.

    Parameters
    ----------
    plan : mapping
        What `blindrec plan --json` prints.
    figure : Figure
        An empty one.
    """
    sought = any(row["users_here"] is not None and row["users"] == row["users_here"] for row in plan["designs"])
    sought = sought and len({str(row["epsilon"]) for row in plan["designs"] if row["private"]}) > 1
    of, words = ("epsilon", "epsilon needed [nats]") if sought else ("users", "users needed")
    rows = [row for row in plan["designs"] if row["users"] is not None and math.isfinite(float(row[of]))]
    (axes,) = panels(figure, 1, size=(7.2, 1.4 + 0.22 * max(len(rows), 1)))
    trusts = [_RECOMMENDED if row == plan["recommended"] else trust_of(row) for row in rows]
    hatches = dict(zip(dict.fromkeys(one for one in trusts if one not in _COLOURS), _HATCHES, strict=False))
    for trust in dict.fromkeys([*_COLOURS, *trusts]):
        places = [place for place, one in enumerate(trusts) if one == trust]
        lengths = [float(rows[place][of]) for place in places]
        how: Style = {"color": _COLOURS.get(trust)}
        if trust in hatches:
            how = {"facecolor": "white", "edgecolor": GREY, "hatch": hatches[trust]}
        axes.barh(places, lengths, height=0.7, label=trust if places else None, **how)
    for place, row in enumerate(rows):
        if not sought and row.get("users_low") is not None:
            high = row["users"] if row["users_high"] is None else row["users_high"]
            axes.plot([row["users_low"], high], [place, place], color="black", linewidth=1, marker="|")
    bound = next((row for row in plan["bounds"] if row["binds"]), None)
    if bound is not None and not sought:
        axes.axvline(
            bound["users"],
            color="black",
            linestyle="--",
            linewidth=1,
            label=f"lower bound, any epsilon-LDP learner ({bound['name']})",
        )
    axes.set_yticks(np.arange(len(rows)), [_told(row, of) for row in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xscale("log")
    axes.grid(visible=False, axis="y")
    finished(axes, plan["target"], xlabel=words)
    legend(figure)


def _told(row: Mapping[str, Any], of: str) -> str:
    epsilon = row["epsilon"]
    told = "" if of == "epsilon" else f", epsilon {epsilon if isinstance(epsilon, str) else f'{epsilon:.4g}'}"
    return f"{name_of(row)}{told}"
