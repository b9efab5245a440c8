"""The one style of all pictures: colours that everybody can tell apart, a look for each line, sizes of text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from cycler import cycler
from matplotlib import style

Style = Mapping[str, Any]
"""Keywords of the plotting library for a line."""
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""The colours of Okabe and Ito but yellow, which is hard to see on white; colour-blind people can tell them apart."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h")
"""As many as have no factor in common with the colours, so that a look comes again only after 77 lines."""
GREY, DARK = "0.6", "0.25"
SETTINGS: Mapping[str, Any] = {
    "axes.prop_cycle": cycler(color=PALETTE),
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.labelsize": 9,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 10,
    "errorbar.capsize": 2.0,
    "figure.titlesize": 10,
    "font.size": 9,
    "grid.alpha": 0.3,
    "grid.linewidth": 0.6,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "lines.linewidth": 1.3,
    "lines.markersize": 4.5,
    "pdf.fonttype": 42,  # text that can be searched
    "savefig.dpi": 120,
    "text.parse_math": False,  # labels are words of users and folders: a $ is a $
    "svg.fonttype": "path",  # looks the same where a font is missing
    "svg.hashsalt": "blindrec",  # the same picture is the same file
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
}


@contextmanager
def styled() -> Iterator[None]:
    """Draw in this style, whatever settings the user has made; they hold again afterwards."""
    with style.context(["default", dict(SETTINGS)]):
        yield


def colour(place: int) -> str:
    """Return the colour of a line by its place among all."""
    return PALETTE[place % len(PALETTE)]


def look(place: int) -> dict[str, Any]:
    """Return colour and marker of a line by its place among all: no two of 77 look alike."""
    return {"color": colour(place), "marker": MARKERS[place % len(MARKERS)]}
