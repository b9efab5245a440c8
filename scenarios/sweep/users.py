"""The sweep over users: how many it takes in every setting of a grid, for every decoder and criterion."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import scipy
from rich.console import Console
from scipy.special import gammaincinv

from coordinator.protocol.arrays import Floats
from coordinator.protocol.budget import as_float
from scenarios.data.populations import settle
from scenarios.given.config import Scenario
from scenarios.given.run_spec import RunSpec
from scenarios.planner.needs import Target
from scenarios.report.intervals import CONFIDENCE, median_interval, paired_ratio, standard_error
from scenarios.report.tables import interval_of, ratio, remark, show_table, whole
from scenarios.sweep.grid import LABELS, TOP, Fit, Grid, GridFile, axis_value, concerns, divisor, fields_of, read_grid
from scenarios.sweep.kinds import Kind, Sweep
from scenarios.sweep.threshold import (
    ThresholdKey,
    ThresholdMeasurement,
    ThresholdUnit,
    adapts,
    guess,
    measure_threshold,
    predicted_users,
)
from scenarios.theory.bounds import all_bounds, binding
from scenarios.theory.predictors import predictor

RESAMPLES = 2000
SEED = 20_121
TAIL = 0.025


def slope(x: Floats, y: Floats) -> float:
    """Return the least-squares slope of the mean of ``y`` on ``x``.

    Shapes: ``x`` (settings,); ``y`` (settings, seeds).
    """
    return float(_slopes(x, y.mean(axis=1)[None, :])[0])


def _slopes(x: Floats, means: Floats) -> Floats:
    centred = x - x.mean()
    slopes: Floats = means @ centred / (centred @ centred)
    return slopes


def bootstrap(x: Floats, y: Floats) -> tuple[float, float] | None:
    """Return the 95 % interval of `slope`, seeds drawn anew `RESAMPLES` times; None for a single seed.

    A seed is drawn for all settings together: its world is related from setting to setting, so that thresholds of one
    seed need not be independent.

    The expanded percentile interval (Hesterberg, *What Teachers Should Know About the Bootstrap*, 2015): plain
    percentiles are too narrow for few seeds, by ``sqrt((n - 1) / n)`` and by the normal's quantile for Student's t.
    """
    seeds = y.shape[1]
    if seeds < 2:
        return None
    drawn = np.random.default_rng(SEED).multinomial(seeds, np.full(seeds, 1 / seeds), size=RESAMPLES) / seeds
    tail = float(scipy.stats.norm.cdf(math.sqrt(seeds / (seeds - 1)) * scipy.stats.t.ppf(TAIL, seeds - 1)))
    low, high = np.quantile(_slopes(x, drawn @ y.T), [tail, 1 - tail])
    return float(low), float(high)


def fit_rows(fit: Fit, grid: Grid, table: pd.DataFrame) -> list[dict[str, Any]]:
    """Return one row a decoder and criterion: slope, interval, and whether it covers what is expected.

    Settings that some seed did not reach are left out and counted: their median would be that of the lucky seeds. The
    slope is None where fewer than two values of x are left.
    """
    places = [place for place, setting in enumerate(grid.settings) if concerns(fit, setting)]
    decoders = sorted({decoder for place in places for decoder in grid.decoders_of(grid.settings[place])})
    criteria = [criterion for criterion in fit.criteria if criterion in grid.criteria]
    return [_row(fit, grid, table, places, decoder, criterion) for decoder in decoders for criterion in criteria]


def _row(fit: Fit, grid: Grid, table: pd.DataFrame, places: list[int], decoder: str, criterion: str) -> dict[str, Any]:
    places = [place for place in places if decoder in grid.decoders_of(grid.settings[place])]
    chosen = table[
        table["setting"].isin(places) & (table["decoder"] == decoder) & (table["criterion"] == criterion)
    ].pivot(index="setting", columns="seed", values="users")
    whole = chosen.dropna()
    x = np.log([axis_value(fit.x, grid.settings[place]) for place in whole.index])
    per = np.array([divisor(fit, grid.settings[place]) for place in whole.index])
    row: dict[str, Any] = {
        "label": fit.name,
        "decoder": decoder,
        "criterion": criterion,
        "x": fit.x,
        "per": list(fit.per),
        "slope": None,
        "low": None,
        "high": None,
        "expected": fit.expected,
        "covers": None,
        "settings": [int(place) for place in whole.index],
        "left_out": len(places) - len(whole),
    }
    if np.unique(x).size < 2:
        return row
    y = np.log(whole.to_numpy(dtype=np.float64) / per[:, None])
    row["slope"] = slope(x, y)
    if found := bootstrap(x, y):
        row["low"], row["high"] = found
        row["covers"] = None if fit.expected is None else found[0] <= fit.expected <= found[1]
    return row


AXES: dict[str, Callable[[Scenario], float]] = {
    "items": lambda setting: float(setting.items or 0),
    "rated": lambda setting: float(setting.rated or 0),
    "epsilon": lambda setting: as_float(setting.epsilon),
}


def varied(settings: Sequence[Scenario]) -> list[str]:
    """Return the axes that curves run along, none that goes in step with another; items where there is no curve."""
    chosen: list[str] = []
    for name, value in AXES.items():
        finite = [setting for setting in settings if math.isfinite(value(setting))]
        labels = [_label(setting, name, settings) for setting in finite]
        if len(set(labels)) < len(labels) and not any(_in_step(name, other, finite) for other in chosen):
            chosen.append(name)
    return chosen or ["items"]


def _in_step(name: str, other: str, settings: Sequence[Scenario]) -> bool:
    pairs = {(AXES[name](setting), AXES[other](setting)) for setting in settings}
    return len(pairs) == len({one for one, _ in pairs}) == len({two for _, two in pairs})


def _label(setting: Scenario, axis: str, settings: Sequence[Scenario]) -> str:
    """Return what tells a curve along ``axis`` from others: its design, and what else varies, but in step with it."""
    mine = fields_of(setting)
    every = [fields_of(one) for one in settings]
    rows = [row for row in every if row["design"] == mine["design"]]
    told = [str(mine["design"])]
    for name, value in mine.items():
        values, pairs = {row[name] for row in rows}, {(row[axis], row[name]) for row in rows}
        in_step = len(values) == len({row[axis] for row in rows}) == len(pairs)
        if name not in ("design", axis) and len({row[name] for row in every}) > 1 and not in_step:
            told.append(f"{name} {value}")
    return ", ".join(told)


def curves(grid: Grid, rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return every point of the figure."""
    points: list[dict[str, Any]] = []
    for axis in varied(grid.settings):
        for row in rows:
            setting = grid.settings[row["setting"]]
            x = AXES[axis](setting)
            if not math.isfinite(x):
                continue
            curve = _label(setting, axis, grid.settings)
            here = {"axis": axis, "criterion": row["criterion"], "x": x}
            label = f"{curve}, {row['decoder']}"
            measured = {name: math.nan if row[name] is None else row[name] for name in ("users", "low", "high")}
            points.append({**here, "kind": "measured", "label": label, **measured})
            predicted = row.get("predicted")
            if predicted is not None:
                points.append({**here, "kind": "predicted", "label": label, "users": predicted})
            for kind, users in _bounds(setting, row["criterion"], grid.share).items():
                points.append({**here, "kind": kind, "label": curve, "users": users})
    table = pd.DataFrame(points, columns=["axis", "criterion", "kind", "label", "x", "users", "low", "high"])
    table[["users", "low", "high"]] = table[["users", "low", "high"]].astype(float)
    drawn = (table["kind"] == "measured") | (table["users"] > 0)
    return table[drawn].drop_duplicates().reset_index(drop=True)


def _bounds(setting: Scenario, criterion: str, share: float) -> dict[str, float]:
    if not setting.half.bounded or criterion == TOP:  # bounds are about labels
        return {}
    items = setting.items or 0
    found = all_bounds(
        items=items,
        rated=setting.rated or 0,
        epsilon=as_float(setting.epsilon),
        clusters=setting.clusters or 0,
        mistakes=0 if criterion == "exact" else math.floor((1 - share) * items + 1e-9),
        adaptive_queries=adapts(setting),
    )
    best = None if setting.settings.rated_public else binding(found)  # others count on rated items being hidden
    capacity = next(bound.users for bound in found if bound.name == "capacity")
    return {"lower bound": best.users if best else 0.0, "lower bound, capacity": capacity}


Units = Mapping[ThresholdKey, ThresholdMeasurement]
PAIR = ("paper", "centred")
"""Decoders whose users are divided, seed by seed."""


def thresholds(grid: Grid, units: Units) -> pd.DataFrame:
    """Return the measured thresholds, one row a setting, seed, decoder and criterion."""
    rows = [
        {
            "setting": place,
            **fields_of(grid.settings[place]),
            "seed": seed,
            "decoder": one.decoder,
            "criterion": one.criterion,
            "users": math.nan if one.users is None else float(one.users),
            "devices": measured.devices,
            "seconds": measured.seconds,
        }
        for (place, seed), measured in units.items()
        for one in measured.thresholds
    ]
    table = pd.DataFrame(rows)
    table["epsilon"] = table["epsilon"].astype(float)  # "inf" is a float to pandas, and no number to JSON
    return table


def summarize(grid: Grid, table: pd.DataFrame) -> dict[str, Any]:
    """Return what `--json` prints."""
    settings = [
        {"setting": place, **told, "decoder": decoder, "criterion": criterion, **median_interval(users)}
        for place, setting in enumerate(grid.settings)
        for told in [fields_of(setting) | _channel(setting)]
        for decoder in grid.decoders_of(setting)
        for criterion in grid.criteria
        if len(users := _of(table, place, decoder, criterion))
    ]
    ratios = [row for place in range(len(grid.settings)) for row in _ratios(grid, table, place)]
    return {
        "share": grid.share,
        "resolution": grid.resolution,
        "most_users": max(setting.users or 0 for setting in grid.settings),
        "confidence": CONFIDENCE,
        "settings": settings,
        "fits": [row for fit in grid.fits for row in fit_rows(fit, grid, table)],
        "ratios": ratios,
    }


def settings_table(summary: Mapping[str, Any]) -> pd.DataFrame:
    """Return a summary's ``settings`` as a table; what was not reached is NaN."""
    table = pd.DataFrame(summary["settings"])
    numbers = ["users", "low", "high", "epsilon"]
    table[numbers] = table[numbers].astype(float)
    return table


def _channel(setting: Scenario) -> dict[str, str]:
    own = RunSpec(settle(setting.complete())).own
    return {"channel": own[1].how} if own else {}


def _of(table: pd.DataFrame, place: int, decoder: str, criterion: str) -> Floats:
    chosen = table[
        (table["setting"] == place) & (table["decoder"] == decoder) & (table["criterion"] == criterion)
    ].sort_values("seed")
    return chosen["users"].to_numpy(dtype=np.float64)


def _ratios(grid: Grid, table: pd.DataFrame, place: int) -> list[dict[str, Any]]:
    if not set(PAIR) <= set(grid.decoders_of(grid.settings[place])):
        return []
    own = {"setting": place, **fields_of(grid.settings[place])}
    pair = {"over": PAIR[0], "under": PAIR[1]}
    return [
        {**own, "criterion": criterion, **pair, **paired_ratio(*(_of(table, place, one, criterion) for one in PAIR))}
        for criterion in grid.criteria
    ]


Predictions = dict[tuple[int, str, str], float | None]
"""Users by setting, decoder and criterion; None where nothing is predicted."""
REACH = 3
"""Standard errors that a measured share may lie from the predicted one."""


def target_of(criterion: str, share: float, items: int) -> Target:
    """Return what half of the runs reach where a criterion's U* lies.

    With k wrong items allowed, half of the runs have at most k where the expected number is the median's: about
    Poisson, ``P(Poisson(m) <= k) = 1/2``. Without any it is all right with probability 1/2.
    """
    allowed = math.floor((1 - share) * items + 1e-9)
    if criterion == LABELS[0] or allowed == 0:
        return Target(success=0.5, accuracy=None)
    return Target(success=None, accuracy=1 - float(gammaincinv(allowed + 1, 0.5)) / items)


def predictions(grid: Grid) -> Predictions:
    """Return the planner's U* by setting, decoder and criterion; it says nothing of lists by popularity."""
    return {
        (place, decoder, criterion): None
        if criterion == TOP
        else predicted_users(
            setting.model_copy(update={"decoder": decoder}), target_of(criterion, grid.share, setting.items or 0)
        )
        for place, setting in enumerate(grid.settings)
        for decoder in grid.decoders_of(setting)
        for criterion in grid.criteria
    }


def probes_of(grid: Grid, setting: Scenario) -> tuple[int, ...]:
    """Return the users at which a setting's accuracy is measured, one a decoder; 0 for none."""
    if grid.probe is None or adapts(setting):
        return ()
    target = Target(success=None, accuracy=grid.probe)
    found = [
        predicted_users(setting.model_copy(update={"decoder": decoder}), target)
        for decoder in grid.decoders_of(setting)
    ]
    return tuple(round(users) if users and users <= (setting.users or 0) else 0 for users in found)


def probe_rows(grid: Grid, units: Mapping[ThresholdKey, ThresholdMeasurement]) -> list[dict[str, Any]]:
    """Return measured beside predicted accuracy, one row a setting and decoder.

    A setting and decoder whose share is not predicted there have none. ``within`` says whether the mean over seeds lies
    within `REACH` standard errors of the prediction.
    """
    rows = []
    for place, setting in enumerate(grid.settings):
        for decoder, users in zip(grid.decoders_of(setting), probes_of(grid, setting), strict=False):
            found = predictor(settle(setting.model_copy(update={"decoder": decoder}).complete())) if users else None
            found_in = [one.accuracies for key, one in units.items() if key[0] == place]
            shares = np.array([accuracies[decoder] for accuracies in found_in if decoder in accuracies])
            predicted = None if found is None else found.accuracy(users)
            if predicted is None or shares.size < 2:
                continue
            mean, error = float(shares.mean()), standard_error(list(shares)) or 0.0
            told = {"users": users, "predicted": predicted, "accuracy": mean, "standard_error": error}
            within = abs(mean - predicted) <= REACH * error
            rows.append({"setting": place, **fields_of(setting), "decoder": decoder, **told, "within": within})
    return rows


def predicted_slope(fit: Fit, grid: Grid, row: Mapping[str, Any], users: Predictions) -> float | None:
    """Return the slope through the planner's U* at the settings of a fit's row; None where the planner says nothing."""
    found = [(grid.settings[place], users[place, row["decoder"], row["criterion"]]) for place in row["settings"]]
    if row["slope"] is None or any(one is None for _, one in found):
        return None
    x = np.log([axis_value(fit.x, setting) for setting, _ in found])
    y = np.log([float(one or 0) / divisor(fit, setting) for setting, one in found])
    return slope(x, y[:, None])


def add_plans(summary: dict[str, Any], grid: Grid, units: Mapping[ThresholdKey, ThresholdMeasurement]) -> None:
    """Put the planner's numbers beside the measured ones."""
    users = predictions(grid)
    for row in summary["settings"]:
        row["predicted"] = users[row["setting"], row["decoder"], row["criterion"]]
        known = None not in (row["predicted"], row["low"], row["high"])
        row["inside"] = row["low"] <= row["predicted"] <= row["high"] if known else None
    by_name = {fit.name: fit for fit in grid.fits}
    for row in summary["fits"]:
        row["predicted"] = predicted_slope(by_name[row["label"]], grid, row, users)
    summary["probes"] = probe_rows(grid, units)


_SETTING = ("design", "items", "rated", "epsilon", "clusters", "theta", "like")
_ALWAYS = ("items", "rated", "epsilon")
_WORDS = ("design", "theta", "like", "success", "decoder", "channel")


def show(console: Console, summary: Mapping[str, Any], title: str) -> None:
    """Print U* of every setting, the exponents, and what the paper's decoder costs."""
    settings: Sequence[Mapping[str, Any]] = summary["settings"]
    share = float(summary["share"])
    names = [name for name in _SETTING if name in _ALWAYS or len({row[name] for row in settings}) > 1]
    own = ["channel"] if any("channel" in row for row in settings) else []
    show_table(
        console,
        [*names, "success", "U*", "95 %", "planned", *own],
        [
            [
                *_fields(row, names),
                _success(row, share),
                whole(row["users"]),
                interval_of(row, write=whole, missing="not reached"),
                _planned(row),
            ]
            + [str(row.get(name, "")) for name in own]
            for row in settings
        ],
        title=f"{title}: users U*, success in half of the seeds",
        words=_WORDS,
        names=len(names) + 1,
    )
    if any(row.get("inside") is False for row in settings):
        remark(console, "! the measured interval does not hold the planner's number")
    if summary["fits"]:
        _show_fits(console, summary["fits"], share)
    if summary.get("probes"):
        rows = [
            [
                *(*_fields(row, names), row["decoder"], whole(row["users"])),
                *(f"{row[name]:.4f}" for name in ("accuracy", "standard_error", "predicted")),
                "yes" if row["within"] else "no",
            ]
            for row in summary["probes"]
        ]
        columns = [*names, "decoder", "users", "measured", "error", "planned", "within 3"]
        show_table(console, columns, rows, title="share of items right", words=_WORDS, names=len(names) + 1)
    if summary["ratios"]:
        first = summary["ratios"][0]
        rows = [
            [
                *(*_fields(row, names), _success({**row, "decoder": ""}, share)),
                *(ratio(row["ratio"]), interval_of(row, write=ratio)),
            ]
            for row in summary["ratios"]
        ]
        columns, told = [*names, "success", "ratio", "95 %"], f"users, {first['over']} over {first['under']}"
        show_table(console, columns, rows, title=told, words=_WORDS, names=len(names) + 1)
    few = min((float(row["level"]) for row in settings), default=1.0)
    if few < summary["confidence"]:
        remark(console, f"too few seeds for intervals of {summary['confidence']:.0%}: those of U* reach {few:.1%}")


def _show_fits(console: Console, fits: Sequence[Mapping[str, Any]], share: float) -> None:
    rows: list[list[str]] = []
    last = None
    for row in fits:
        left_out = f" ({row['left_out']} settings not reached)" if row["left_out"] else ""
        if row["label"] != last:
            last = row["label"]
            rows.append([f"{last}{left_out}"])
        expected = "" if row["expected"] is None else f"{row['expected']:g}"
        covered = {None: "", True: "yes", False: "no"}[row["covers"]]
        told = [ratio(row["slope"]), interval_of(row, write=ratio), ratio(row.get("predicted")), expected, covered]
        rows.append(["  " + _success(row, share), *told])
    show_table(
        console,
        ["success", "slope", "95 %", "planned", "expected", "covered"],
        rows,
        title="exponents",
        words=_WORDS,
    )


def _planned(row: Mapping[str, Any]) -> str:
    """Return the planner's number, marked where the measured interval does not hold it."""
    predicted = row.get("predicted")
    return "" if predicted is None else f"{whole(predicted)}{' !' if row['inside'] is False else ''}"


def _fields(row: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    return [f"{row[name]:,}" if isinstance(row[name], int) else str(row[name]) for name in names]


def _success(row: Mapping[str, Any], share: float) -> str:
    """Return decoder and criterion in words."""
    told = {"exact": "all right", "share": f"{share:.4g} right", "top": f"{share:.4g} of the top 50"}[row["criterion"]]
    return ", ".join(filter(None, [row["decoder"], told]))


HELP = """Find how many users it takes: the smallest U* with success in at least half of the seeds, a setting each.

Success is told in two ways: all labels right, as in the paper, and a share of them (99 %). For every seed bisection
finds the population where success begins; smaller populations are prefixes of larger ones, so that a device is
asked about once. U* is the median over seeds, its interval made of order statistics.

Grids `planner`, `planner-pairwise` and `planner-open` hold the planner to account. `accuracy`, `lying`, `poison` and
`voters` measure how right results are, and a file with sweep = "results" any column of any experiment. A grid of your
own:

\b
  seeds = 20
  decoders = ["centred", "paper"]
  [base]
  design = "maxsense"
  rated = 30
  [[grid]]
  items = [250, 500, 1000]
  epsilon = [0.5, 1]
  [[fit]]
  x = "items"
  per = ["log items"]
  criteria = ["exact"]
  where = {epsilon = 1}
  expected = 2

Keys of [base] and [[grid]] are those of a scenario. Lists of one [[grid]] table are combined in all ways;
rated_share = [1, 0.5] sets rated to a share of items. Fits are slopes of ln(U* / per) on ln x.

A third success, criteria = ["top"], is about a list by popularity: share = 0.8 of the 50 most popular items are among
the 50 of highest score. A file is swept by it alone: ratings = "ratings.csv" in [base], whose users are drawn again and
again, up to most_users = 40000000.

Every finished run is kept in the folder at once: Ctrl-C loses only what is under way, and the same command goes on;
with more --seeds it goes on, too. At the end the folder holds result.json, thresholds.parquet (every seed),
settings.csv, figure.png and figure.csv (every point in it, bounds included). What the planner says stands beside what
was measured; with `probe = 0.9` accuracy is measured, too, where the planner says 0.9.
"""


@dataclass(frozen=True, slots=True)
class UsersSweep(Sweep[ThresholdKey, ThresholdUnit, ThresholdMeasurement]):
    """A grid to be measured, or that was measured."""

    wanted: Grid
    key, found, measure = ThresholdKey, ThresholdMeasurement, staticmethod(measure_threshold)
    rows, show, tables = staticmethod(settings_table), staticmethod(show), ("thresholds.parquet", "settings.csv")

    def units(self, done: Mapping[ThresholdKey, ThresholdMeasurement]) -> dict[ThresholdKey, ThresholdUnit]:
        """Return every unit, seed by seed, so that an unfinished sweep tells something of all settings."""
        grid = self.wanted
        starts = [guess(one.model_copy(update={"decoder": grid.decoders_of(one)[0]})) for one in grid.settings]
        probes = [probes_of(grid, one) for one in grid.settings]
        return {
            ThresholdKey(place, setting.seed + turn): ThresholdUnit(
                scenario=setting.model_copy(update={"seed": setting.seed + turn}),
                decoders=grid.decoders_of(setting),
                share=grid.share,
                resolution=grid.resolution,
                start=starts[place],
                criteria=grid.criteria,
                probes=probes[place],
            )
            for turn in range(grid.seeds)
            for place, setting in enumerate(grid.settings)
        }

    def table(self, units: Mapping[ThresholdKey, ThresholdMeasurement]) -> pd.DataFrame:
        """Return the threshold of every setting, seed, decoder and criterion."""
        return thresholds(self.wanted, units)

    def result(self, units: Mapping[ThresholdKey, ThresholdMeasurement]) -> dict[str, Any]:
        """Return U* of every setting, exponents and ratios, with what the planner says of them."""
        found = summarize(self.wanted, self.table(units))
        add_plans(found, self.wanted, units)
        return found

    def drawn(
        self, units: Mapping[ThresholdKey, ThresholdMeasurement], result: Mapping[str, Any]
    ) -> dict[str, pd.DataFrame]:
        """Return the points of U* against what varies."""
        return {"figure": curves(self.wanted, result["settings"])}


def read(values: Mapping[str, Any]) -> UsersSweep:
    """Check a grid's values, and expand its settings."""
    return UsersSweep(read_grid(dict(values)))


USERS = Kind(name="users", help=HELP, fields=GridFile.model_fields, read=read)
