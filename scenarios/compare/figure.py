"""The figure of a comparison: NDCG against people, a curve for each trust model, a panel for each epsilon."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from scenarios.sweep.drawing import POINTS, Style, finished, lines, panels

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
    levels = points[points["kind"] == "level"]
    curves = points[points["kind"] == "curve"]
    epsilons = [one for one in dict.fromkeys(curves["epsilon"]) if one] or [""]
    colours = {name: f"C{place}" for place, name in enumerate(dict.fromkeys(curves["label"].map(_plain)))}

    def style(_: str, label: str) -> Style:
        return {**POINTS, "color": colours[_plain(label)], "linestyle": _DASHES[_plain(label) != label], "label": label}

    for axes, epsilon in zip(panels(figure, len(epsilons)), epsilons, strict=True):
        here = (
            curves[curves["epsilon"].isin([epsilon, ""])].sort_values("y").drop_duplicates(["label", "x"], keep="last")
        )
        for _, one in levels.iterrows():
            axes.axhline(one["y"], linewidth=1, color="0.5", linestyle=_DASHES["features" in one["label"]])
            name = "no privacy" + str(one["label"]).removeprefix("none")
            axes.annotate(
                name, (0.01, one["y"]), xycoords=("axes fraction", "data"), fontsize=7, va="bottom", color="0.4"
            )
        if not here.empty:
            lines(axes, here, style)
            axes.set_xscale("log")
        axes.set_ylim(bottom=0)
        told = f"epsilon {epsilon.removesuffix('.0')}" if epsilon else "no privacy"
        finished(axes, told, xlabel="people who contribute; in two tiers, publicly", ylabel="NDCG at 10")
    drawn = [pair for axes in figure.axes for pair in zip(*axes.get_legend_handles_labels(), strict=True)]
    handles = {label: handle for handle, label in drawn}
    if handles:
        figure.legend(handles.values(), handles.keys(), fontsize="small", loc="outside lower center", ncols=6)
    told = f"{result['people_in_file']:,} people, {result['items']:,} items"
    figure.suptitle(f"{result['ratings']}: {told}; the best mechanism of each trust model")


def _plain(label: str) -> str:
    return label.replace(" + features", "")
