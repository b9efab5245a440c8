"""The figure of a comparison: NDCG against people, a curve for each mechanism, a panel for each epsilon."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from scenarios.sweep.drawing import POINTS, Style, finished, lines, panels, ticks

_DASHES = {True: "--", False: "-"}


def draw_worth(result: Mapping[str, Any], points: pd.DataFrame, figure: Figure) -> None:
    """Draw the figure of a comparison.

    Parameters
    ----------
    result : mapping
        What `--json` prints.
    points : DataFrame
        See `scenarios.compare.summary.points_of`.
    figure : Figure
        An empty one.
    """
    curves, levels = points[points["kind"] == "curve"], points[points["kind"] == "level"]
    epsilons = list(dict.fromkeys(curves["epsilon"])) or [""]
    colours = {name: f"C{place % 10}" for place, name in enumerate(dict.fromkeys(points["label"].map(_plain)))}

    def style(_: str, label: str) -> Style:
        return {**POINTS, "color": colours[_plain(label)], "linestyle": _DASHES[_plain(label) != label], "label": label}

    for axes, epsilon in zip(panels(figure, len(epsilons)), epsilons, strict=True):
        here = curves[curves["epsilon"] == epsilon]
        for _, one in levels.iterrows():
            dashes = style("level", str(one["label"]))["linestyle"]
            axes.axhline(one["y"], linewidth=1, color="0.6", linestyle=dashes)
            axes.annotate(
                str(one["label"]), (0.01, one["y"]), xycoords=("axes fraction", "data"), fontsize=6, color="0.4"
            )
        lines(axes, here, style)
        if not here.empty:
            ticks(axes, here["x"])
        told = f"epsilon {epsilon.removesuffix('.0')}" if epsilon else "no privacy"
        finished(axes, told, xlabel="people", ylabel="NDCG at 10")
    handles = {
        label: handle for axes in figure.axes for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    if handles:
        figure.legend(handles.values(), handles.keys(), fontsize="small", loc="outside lower center", ncols=4)
    figure.suptitle(f"{result['ratings']}: {result['people_in_file']:,} people, {result['items']:,} items")


def _plain(label: str) -> str:
    return label.replace(" + features", "")
