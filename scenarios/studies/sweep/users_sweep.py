"""The sweep over users: how many it takes in every setting of a grid, for every decoder and criterion."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from itertools import product
from typing import Annotated, Any

import numpy as np
import pandas as pd
from pydantic import Field, ValidationError
from rich.console import Console
from scipy.special import gammaincinv

from coordinator.protocol.arrays import Floats
from coordinator.protocol.errors import InputError
from coordinator.protocol.trust_models import LOCAL
from scenarios.config.custom_kinds import mechanism_with
from scenarios.config.files import first_line
from scenarios.config.resolve import block_of, load_scenario, resolve
from scenarios.config.scenario import MOST_USERS, Scenario
from scenarios.data.populations import populate
from scenarios.show.intervals import CONFIDENCE, median_interval, paired_ratio, standard_error
from scenarios.show.tables import Cell, interval_of, ratio, remark, show_rows, show_table, whole
from scenarios.studies.planner.least_users import Target
from scenarios.studies.study import Row, Study, Values
from scenarios.studies.sweep.grid import FIRST_SEED, SettingKey, SettingsGrid, expanded, fields_of, setting_text
from scenarios.studies.sweep.sweeps import Kind
from scenarios.studies.sweep.threshold import (
    LABELS,
    TOP,
    Criterion,
    ExponentFit,
    adapts,
    axis_value,
    bootstrap,
    guess,
    measure_threshold,
    predicted_users,
    slope,
)
from scenarios.theory.bounds import binding, bounds_of
from scenarios.theory.predictors import predictor

SHARE = "rated_share"  # Key of a grid that is none of a scenario's: ``rated = round(rated_share * items)``
MOST_RESAMPLED = 10**8  # Devices that are drawn from a ratings file at most: they are held in memory
_FIXED = {
    "users": "is what a sweep looks for; leave it out",
    "seed": FIRST_SEED,
    "decoder": "cannot vary within a grid; list decoders, they all read the same releases",
}
PAIR = ("paper", "centred")  # Decoders whose users are divided, seed by seed
REACH = 3  # Standard errors that a measured share may lie from the predicted one
AXES = ("items", "rated", "epsilon")  # What curves run along
Units = Mapping[SettingKey, Values]
SeriesKey = tuple[int, str, str]  # A setting's place, a decoder and a criterion: what has a U*


class UsersGrid(SettingsGrid):
    """What a grid over users says."""

    # one of "exact", "share", "top"; What counts as success; default: all labels right, and a share of them. ``top`` is
    # about the 50 most popular items, and the only one where [base] has ``ratings``: a file has no labels
    criteria: Annotated[tuple[Criterion, ...], Field(min_length=1)] = LABELS
    # Share of items right that counts as success by the criterion ``share``; by ``top`` of those 50
    share: Annotated[float, Field(gt=0, le=1)] = 0.99
    resolution: Annotated[float, Field(gt=0, le=1)] = 0.02  # Relative width at which bisection stops
    # Predicted share of items right at whose users accuracy is measured, too: the planner's check
    probe: Annotated[float, Field(gt=0, lt=1)] | None = None
    most_users: Annotated[int, Field(ge=1, le=MOST_USERS)] = 10**9  # No population is made larger
    # Read from the same releases, so that they are paired; default: the one that each setting has by itself
    decoders: tuple[str, ...] = ()
    fit: tuple[ExponentFit, ...] = ()  # Exponents to fit

    @classmethod
    def read(cls, values: Row) -> UsersGrid:
        """Check a grid's values, and expand its settings."""
        try:
            grid = cls.model_validate(dict(values))
        except ValidationError as error:
            kind = ExponentFit if error.errors()[0]["loc"][:1] == ("fit",) else cls
            raise InputError(first_line(error, kind)) from None
        settings = grid.settings
        for name, values_ in (("decoders", grid.decoders), ("criteria", grid.criteria)):
            if len(set(values_)) < len(values_):
                raise InputError(f"{name} are {', '.join(values_)}; name each of them once")
        for fit in grid.fit:
            fit.check(settings)
        return grid

    @cached_property
    def settings(self) -> tuple[Scenario, ...]:
        """The settings, filled in; ``users`` is the most that may be simulated, ``seed`` the first seed."""
        if "users" in self.base:
            raise InputError(f"users {_FIXED['users']}")
        return expanded(self.grid, self._setting, _FIXED)

    def _setting(self, varied: Mapping[str, Any]) -> Scenario:
        values = _with_rated({**self.base, **varied})
        if values.get("policy") == "fixed":
            raise InputError(
                "policy is 'fixed', but a sweep enlarges a single round; leave it out, or choose one that stops itself"
            )
        if timed := {"periods", "period"} & values.keys():
            raise InputError(
                f"{max(timed)} is {values[max(timed)]}, but this sweep enlarges a single round; write sweep = "
                '"results" with a threshold, which runs each number of users separately'
            )
        if (trust := values.get("trust", LOCAL)) != LOCAL:
            raise InputError(
                f"trust is {trust!r}, where devices' noise depends on their number, but this sweep reads "
                'fewer devices as a part of more; write sweep = "results" with a threshold, which runs each separately'
            )
        values["users"] = self.most_users
        for decoder in self.decoders:
            load_scenario(None, {**values, "decoder": decoder})
        setting = load_scenario(None, values)
        if TOP in self.criteria and not setting.mechanism.ranks:
            raise InputError(
                f"criterion {TOP} is about items ranked by popularity, which {setting.design} does not rank"
            )
        if setting.ratings is None:
            setting = setting.complete()
            block_of(setting)
            return setting
        if self.criteria != (TOP,):
            raise InputError(
                f'ratings is {str(setting.ratings)!r}, a file without labels to compare with; say criteria = ["{TOP}"],'
                " or leave it out: then sweeps run on the block model"
            )
        if self.most_users > MOST_RESAMPLED:
            raise InputError(
                f"most_users is {self.most_users}, but devices of a ratings file are held in memory; give at most "
                f"{MOST_RESAMPLED}"
            )
        path = setting.ratings.resolve()  # workers may run elsewhere
        filled = populate(setting.model_copy(update={"ratings": path, "users": None})).scenario
        return filled.model_copy(update={"users": self.most_users})

    def readings(self, setting: Scenario) -> dict[str, Scenario]:
        """Return a setting as each decoder that its releases are read by has it."""
        decoders = self.decoders or (setting.decoder,)
        return {decoder: setting.model_copy(update={"decoder": decoder}) for decoder in decoders}

    def content(self) -> dict[str, Any]:
        """Return what results depend on, as JSON values; not the fits, nor how many seeds."""
        settings = [
            {
                **setting.model_dump(mode="json"),
                "epsilon": "inf" if setting.epsilon is None else str(setting.epsilon),
                **({"design": mechanism_with(setting.settings).query_name()} if ":" in setting.design else {}),
            }
            for setting in self.settings
        ]
        return {
            "share": self.share,
            "resolution": self.resolution,
            "decoders": list(self.decoders),
            "probe": self.probe,
            **({} if self.criteria == LABELS else {"criteria": list(self.criteria)}),
            "settings": settings,
        }

    def measure_of(self, setting: Scenario) -> Callable[[Scenario], Values]:
        """Return what finds the thresholds of one seed, from where the planner sees that of the first decoder."""
        readings = self.readings(setting)
        return partial(
            measure_threshold,
            decoders=tuple(readings),
            criteria=self.criteria,
            share=self.share,
            resolution=self.resolution,
            start=guess(next(iter(readings.values()))),
            probes=self.probes_of(setting),
        )

    def table(self, units: Units) -> pd.DataFrame:
        """Return the measured thresholds, one row a setting, seed, decoder and criterion."""
        fields = [fields_of(setting) for setting in self.settings]
        rows = [
            {"setting": index, **fields[index], "seed": seed, **threshold}
            | {name: measured[name] for name in ("devices", "seconds")}
            for (index, seed), measured in units.items()
            for threshold in measured["thresholds"]
        ]
        return pd.DataFrame(rows).astype({"epsilon": float, "users": float})  # "inf" is no number to JSON

    def result(self, units: Units) -> dict[str, Any]:
        """Return U* of every setting, exponents and ratios, with what the planner says of them."""
        # The thresholds of all seeds in their order, NaN where the most users did not do
        rows = self.table(units).sort_values(["setting", "seed"])
        cells: Any = rows.groupby(["setting", "decoder", "criterion"], sort=False)["users"]
        thresholds = {(int(index), *names): users.to_numpy() for (index, *names), users in cells}
        plans = self.predictions()
        fields = [fields_of(setting) | _channel(setting) for setting in self.settings]
        settings = []
        for (index, decoder, criterion), users in thresholds.items():
            row = {"setting": index, **fields[index], "decoder": decoder, "criterion": criterion}
            row |= {**median_interval(users), "predicted": (planned := plans[index, decoder, criterion])}
            comparable = None not in (planned, row["low"], row["high"])
            settings.append({**row, "inside": row["low"] <= planned <= row["high"] if comparable else None})
        return {
            "share": self.share,
            "resolution": self.resolution,
            "most_users": max(setting.world.users for setting in self.settings),
            "confidence": CONFIDENCE,
            "settings": settings,
            "fits": [row for fit in self.fit for row in self._fit_rows(fit, thresholds, plans)],
            "ratios": [row for index in range(len(self.settings)) for row in self._ratios(thresholds, index)],
            "probes": self.probe_rows(units),
        }

    def _fit_rows(
        self, fit: ExponentFit, thresholds: Mapping[SeriesKey, Floats], plans: Mapping[SeriesKey, float | None]
    ) -> list[dict[str, Any]]:
        """Return one row a decoder and criterion: slope, interval, and whether it covers what is expected."""
        # Settings that some seed did not reach are left out and counted: their median would be that of the lucky seeds.
        cells = [cell for cell in thresholds if fit.concerns(self.settings[cell[0]])]
        decoders = sorted({decoder for _, decoder, _ in cells})
        rows = []
        for decoder, criterion in product(decoders, (name for name in fit.criteria if name in self.criteria)):
            all_cells = [cell for cell in cells if cell[1:] == (decoder, criterion)]
            reached = [cell for cell in all_cells if np.isfinite(thresholds[cell]).all()]
            settings = [self.settings[index] for index, *_ in reached]
            row: dict[str, Any] = {"label": fit.name, "decoder": decoder, "criterion": criterion}
            row |= {"x": fit.x, "per": list(fit.per), "slope": None, "low": None, "high": None}
            row |= {"expected": fit.expected, "covers": None, "settings": [index for index, *_ in reached]}
            row |= {"left_out": len(all_cells) - len(reached), "predicted": None}
            if len({axis_value(fit.x, setting) for setting in settings}) > 1:
                x, y = fit.points(settings, np.array([thresholds[cell] for cell in reached]))
                row["slope"] = slope(x, y)
                if ends := bootstrap(x, y):
                    row["low"], row["high"] = ends
                    row["covers"] = None if fit.expected is None else ends[0] <= fit.expected <= ends[1]
                planned = [plans[cell] for cell in reached]
                if None not in planned:
                    row["predicted"] = slope(*fit.points(settings, np.array(planned, dtype=np.float64)[:, None]))
            rows.append(row)
        return rows

    def _ratios(self, thresholds: Mapping[SeriesKey, Floats], index: int) -> list[dict[str, Any]]:
        if not set(PAIR) <= self.readings(self.settings[index]).keys():
            return []
        numerator, under = PAIR
        row = {"setting": index, **fields_of(self.settings[index])}
        return [
            {**row, "criterion": criterion, "over": numerator, "under": under}
            | paired_ratio(thresholds[index, numerator, criterion], thresholds[index, under, criterion])
            for criterion in self.criteria
        ]

    def predictions(self) -> dict[SeriesKey, float | None]:
        """Return the planner's U*; it says nothing of lists by popularity."""
        return {
            (index, decoder, criterion): None
            if criterion == TOP
            else predicted_users(scenario, target_of(criterion, self.share, scenario.world.items))
            for index, setting in enumerate(self.settings)
            for (decoder, scenario), criterion in product(self.readings(setting).items(), self.criteria)
        }

    def probes_of(self, setting: Scenario) -> tuple[int, ...]:
        """Return the users at which a setting's accuracy is measured, one a decoder; 0 for none."""
        if self.probe is None or adapts(setting):
            return ()
        target = Target(success=None, accuracy=self.probe)
        every = [predicted_users(scenario, target) for scenario in self.readings(setting).values()]
        return tuple(round(users) if users and users <= setting.world.users else 0 for users in every)

    def probe_rows(self, units: Units) -> list[dict[str, Any]]:
        """Return measured beside predicted accuracy, one row a setting and decoder."""
        rows = []
        for index, setting in enumerate(self.settings):
            for (decoder, reading), users in zip(self.readings(setting).items(), self.probes_of(setting), strict=False):
                prediction = predictor(resolve(reading)) if users else None
                predicted = None if prediction is None else prediction.accuracy(users)
                every = [measured["accuracies"] for key, measured in units.items() if key[0] == index]
                shares = np.array([shares_of[decoder] for shares_of in every if decoder in shares_of])
                if predicted is None or shares.size < 2:
                    continue
                mean, error = float(shares.mean()), standard_error(list(shares)) or 0.0
                row = {"setting": index, **fields_of(setting), "decoder": decoder, "users": users}
                row |= {"predicted": predicted, "accuracy": mean, "standard_error": error}
                rows.append({**row, "within": abs(mean - predicted) <= REACH * error})
        return rows

    def curves(self, rows: Sequence[Row]) -> pd.DataFrame:
        """Return every point of the figure, from the result's settings."""
        points: list[dict[str, Any]] = []
        for axis, row in product(varied(self.settings), rows):
            setting = self.settings[row["setting"]]
            x = axis_value(axis, setting)
            if not math.isfinite(x):
                continue
            curve = _label(setting, axis, self.settings)
            here = {"axis": axis, "criterion": row["criterion"], "x": x}
            label = f"{curve}, {row['decoder']}"
            measured = {name: math.nan if row[name] is None else row[name] for name in ("users", "low", "high")}
            points.append({**here, "kind": "measured", "label": label, **measured})
            if (predicted := row.get("predicted")) is not None:
                points.append({**here, "kind": "predicted", "label": label, "users": predicted})
            for kind, users in _bounds(setting, row["criterion"], self.share).items():
                points.append({**here, "kind": kind, "label": curve, "users": users})
        table = pd.DataFrame(points, columns=["axis", "criterion", "kind", "label", "x", "users", "low", "high"])
        table[["users", "low", "high"]] = table[["users", "low", "high"]].astype(float)
        visible = (table["kind"] == "measured") | (table["users"] > 0)
        return table[visible].drop_duplicates().reset_index(drop=True)


def _with_rated(values: dict[str, Any]) -> dict[str, Any]:
    if SHARE not in values:
        return values
    share, items = values[SHARE], values.get("items")
    if "rated" in values:
        raise InputError(f"{SHARE} is {share} and rated is {values['rated']}; give one of them")
    if not isinstance(share, (int, float)) or not 0 < share <= 1:
        raise InputError(f"{SHARE} is {share!r}; it must lie above 0 and be at most 1")
    if not isinstance(items, int):
        raise InputError(f"{SHARE} is {share}, a share of items; give items, too")
    rest = {name: value for name, value in values.items() if name != SHARE}
    return {**rest, "rated": max(1, round(share * items))}


def _channel(setting: Scenario) -> dict[str, str]:
    custom = resolve(setting).custom
    return {"channel": custom[1].how} if custom else {}


def target_of(criterion: str, share: float, items: int) -> Target:
    """Return what half of the runs reach where a criterion's U* lies."""
    # With k wrong items allowed, half of the runs have at most k where the expected number is the median's: about
    # Poisson, ``P(Poisson(m) <= k) = 1/2``. Without any it is all right with probability 1/2.
    allowed = _allowed(share, items)
    if criterion == LABELS[0] or allowed == 0:
        return Target(success=0.5, accuracy=None)
    return Target(success=None, accuracy=1 - float(gammaincinv(allowed + 1, 0.5)) / items)


def _allowed(share: float, items: int) -> int:
    """Return how many items may be wrong where a share is right."""
    return math.floor((1 - share) * items + 1e-9)


def varied(settings: Sequence[Scenario]) -> list[str]:
    """Return the axes that curves run along, none that goes in step with another; items where there is no curve."""
    axes: list[str] = []
    for name in AXES:
        finite = [setting for setting in settings if math.isfinite(axis_value(name, setting))]
        labels = [_label(setting, name, settings) for setting in finite]
        values = {axis: [axis_value(axis, setting) for setting in finite] for axis in (name, *axes)}
        if len(set(labels)) < len(labels) and not any(_in_step(values[name], values[other]) for other in axes):
            axes.append(name)
    return axes or ["items"]


def _in_step(values: Sequence[Any], other: Sequence[Any]) -> bool:
    """Return whether each value of one goes with one value of the other."""
    return len(set(zip(values, other, strict=True))) == len(set(values)) == len(set(other))


def _label(setting: Scenario, axis: str, settings: Sequence[Scenario]) -> str:
    """Return the label of a curve along ``axis``: its design, and what else varies, but not in step with the axis."""
    fields, every = fields_of(setting), [fields_of(other) for other in settings]
    rows = [row for row in every if row["design"] == fields["design"]]
    labels = [str(fields["design"])]
    for name, value in fields.items():
        along = _in_step([row[axis] for row in rows], [row[name] for row in rows])
        if name not in ("design", axis) and len({row[name] for row in every}) > 1 and not along:
            labels.append(f"{name} {value}")
    return ", ".join(labels)


def _bounds(setting: Scenario, criterion: str, share: float) -> dict[str, float]:
    if not setting.mechanism.bounded or criterion == TOP:  # bounds are about labels
        return {}
    mistakes = 0 if criterion == "exact" else _allowed(share, setting.world.items)
    bounds = bounds_of(setting, mistakes=mistakes, adaptive_queries=adapts(setting))
    best = None if setting.settings.rated_public else binding(bounds)  # others count on rated items being hidden
    capacity = next(bound.users for bound in bounds if bound.name == "capacity")
    return {"lower bound": best.users if best else 0.0, "lower bound, capacity": capacity}


_SETTING = ("design", *AXES, "clusters", "theta", "like")
_WORDS = ("design", "theta", "like", "success", "decoder", "channel")


def _show_fits(console: Console, fits: Sequence[Row], success: Callable[[Row], str]) -> None:
    rows: list[list[str]] = []
    for number, row in enumerate(fits):
        left_out = f" ({row['left_out']} settings not reached)" if row["left_out"] else ""
        if not number or row["label"] != fits[number - 1]["label"]:
            rows.append([f"{row['label']}{left_out}"])
        expected = "" if row["expected"] is None else f"{row['expected']:g}"
        covered = {None: "", True: "yes", False: "no"}[row["covers"]]
        cells = [ratio(row["slope"]), interval_of(row, write=ratio), ratio(row.get("predicted")), expected, covered]
        rows.append(["  " + success(row), *cells])
    columns = ["success", "slope", "95 %", "planned", "expected", "covered"]
    show_table(console, columns, rows, title="exponents", words=_WORDS)


def _planned(row: Row) -> str:
    """Return the planner's number, marked where the measured interval does not hold it."""
    predicted = row.get("predicted")
    return "" if predicted is None else f"{whole(predicted)}{' !' if row['inside'] is False else ''}"


def _success(share: float, row: Row) -> str:
    """Return decoder and criterion in words."""
    right = {"exact": "all right", "share": f"{share:.4g} right", "top": f"{share:.4g} of the top 50"}[row["criterion"]]
    return ", ".join(filter(None, [row.get("decoder", ""), right]))


_USERS_COLUMNS: tuple[tuple[str, Cell], ...] = (
    ("U*", lambda row: whole(row["users"])),
    ("95 %", partial(interval_of, write=whole, missing="not reached")),
    ("planned", _planned),
)
_RATIO_COLUMNS: tuple[tuple[str, Cell], ...] = (
    ("ratio", lambda row: ratio(row["ratio"])),
    ("95 %", partial(interval_of, write=ratio)),
)
_PROBE_COLUMNS: tuple[tuple[str, Cell], ...] = (
    ("decoder", "decoder"),
    ("users", lambda row: whole(row["users"])),
    ("measured", lambda row: f"{row['accuracy']:.4f}"),
    ("error", lambda row: f"{row['standard_error']:.4f}"),
    ("planned", lambda row: f"{row['predicted']:.4f}"),
    ("within 3", lambda row: "yes" if row["within"] else "no"),
)


def users(values: Row) -> Study[SettingKey, Values]:
    """Check a grid over users."""
    grid = UsersGrid.read(values)
    return Study(
        content=grid.content(),
        key=SettingKey,
        units=grid.units,
        result=grid.result,
        frame=grid.table,
        row_frame=rows_of,
        plotted=lambda _, result: {"figure": grid.curves(result["settings"])},
        show=show,
    )


def rows_of(result: Row) -> pd.DataFrame:
    """Return a result's ``settings`` as a table; what was not reached is NaN."""
    return pd.DataFrame(result["settings"]).astype(dict.fromkeys(("users", "low", "high", "epsilon"), float))


def show(console: Console, result: Row, title: str) -> None:
    """Print U* of every setting, the exponents, and what the paper's decoder costs."""
    settings: Sequence[Row] = result["settings"]
    share = float(result["share"])
    shown = [name for name in _SETTING if name in AXES or len({row[name] for row in settings}) > 1]
    fields: list[tuple[str, Cell]] = [(name, partial(setting_text, name)) for name in shown]
    how: dict[str, Any] = {"words": _WORDS, "names": len(shown) + 1}
    success = ("success", partial(_success, share))
    columns = [*fields, success, *_USERS_COLUMNS]
    if any("channel" in row for row in settings):
        columns.append(("channel", lambda row: str(row.get("channel", ""))))
    show_rows(console, columns, settings, title=f"{title}: users U*, success in half of the seeds", **how)
    if any(row.get("inside") is False for row in settings):
        remark(console, "! the measured interval does not hold the planner's number")
    if result["fits"]:
        _show_fits(console, result["fits"], success[1])
    if result.get("probes"):
        show_rows(console, [*fields, *_PROBE_COLUMNS], result["probes"], title="share of items right", **how)
    if result["ratios"]:
        title = f"users, {PAIR[0]} over {PAIR[1]}"
        show_rows(console, [*fields, success, *_RATIO_COLUMNS], result["ratios"], title=title, **how)
    few = min((float(row["level"]) for row in settings), default=1.0)
    if few < result["confidence"]:
        remark(console, f"too few seeds for intervals of {result['confidence']:.0%}: those of U* reach {few:.1%}")


MEANINGS = {
    "criterion": "what counts as success: exact, or a share of the items",
    "inside": "whether the plan lies in the measured interval",
    "unreached": "seeds that never succeed within the limit",
    "predicted": "users that the plan says",
    "fits": "exponents of users against what varies",
    "slope": "exponent that was measured",
    "expected": "exponent that the theory says",
    "covers": "whether the interval holds the expected exponent",
    "per": "what users are divided by before the fit",
    "left_out": "settings that a fit leaves out, because a seed never succeeded there",
    "ratios": "quotients of users of two decoders or mechanisms",
    "ratio": "quotient of users, median over seeds",
    "over": "decoder whose users are divided",
    "under": "decoder by whose users they are divided",
    "probes": "shares of items right where the plan says a share",
    "resolution": "relative width at which bisection stops",
    "most_users": "largest number of users that is tried",
}
KIND = Kind(
    meanings=MEANINGS,
    fields=UsersGrid.model_fields,
    read=users,
    tables=("thresholds.parquet", "settings.csv"),
    help="""\
Success has two definitions: all labels right, as in the paper, or 99 % of them. For every seed bisection finds the
population where success begins; smaller populations are prefixes of larger ones, so that each device is asked only
once. U* is the median over seeds, with an interval from order statistics.

Grids `planner`, `planner-pairwise` and `planner-open` test the planner's predictions. `accuracy`, `lying`, `poison` and
`voters` measure accuracy, and a file with sweep = "results" measures any column of any experiment. A grid of your
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
the 50 of highest score. A file allows only this one: set ratings = "ratings.csv" in [base]; its users are drawn with
replacement, up to most_users = 40000000.

Tables show predicted beside measured users; `probe = 0.9` also measures accuracy at the users for which the planner
predicts 0.9.
""",
)
