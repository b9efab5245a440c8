"""The sweep of results: any experiment over any of its fields, every column of its record with its interval."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Collection, Mapping
from functools import cached_property, partial
from typing import Annotated, Any

import pandas as pd
from pydantic import BaseModel, ConfigDict, Field
from rich.console import Console

from coordinator.protocol.errors import InputError, name_choices
from scenarios.backends.selection import InProcess
from scenarios.config.files import brief
from scenarios.config.settings import validated
from scenarios.experiment.experiment import Experiment, Running
from scenarios.experiments import EXPERIMENTS
from scenarios.show.columns import Average, mean_of
from scenarios.show.intervals import CONFIDENCE, named, quantile_interval
from scenarios.show.tables import Cell, interval_of, is_number, remark, show_rows
from scenarios.studies.study import Row, Study, Values
from scenarios.studies.sweep.grid import FIRST_SEED, SettingKey, SettingsGrid, expanded, setting_text
from scenarios.studies.sweep.sweeps import Kind
from scenarios.studies.sweep.threshold import BisectionRange

MEASURED = (Average.MEAN, Average.COUNT, Average.SHARE)
"""Columns that are shown unless others are named: what differs from seed to seed."""


def measure_result(experiment: str, scenario: BaseModel) -> Values:
    """Run one seed of an experiment, in this process."""
    running = Running(session=InProcess(1), console=Console(quiet=True, file=io.StringIO()))
    values = EXPERIMENTS[experiment].once(scenario, running).values
    return {"record": {name: value for name, value in values.items() if not isinstance(value, (dict, list, tuple))}}


class SmallestNumber(BaseModel):
    """What `threshold` of a grid says: the smallest number from which a column of the record meets a target."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    column: str  # Of the experiment's record
    least: float | None = None  # What it must reach, or stay below; one of them. Truths count as 1 and 0
    most: float | None = None
    field: str = "users"  # Of the experiment's scenario: the whole number that is sought
    start: Annotated[int, Field(ge=1)] = 1000  # Where the search begins, and where it ends
    limit: Annotated[int, Field(ge=1)] = 10**7
    resolution: Annotated[float, Field(gt=0, le=1)] = 0.02  # Relative width at which bisection stops

    def met(self, record: Mapping[str, Any]) -> bool:
        """Return whether a record meets the target; one that does not know the column does not."""
        value = math.inf if record.get(self.column) == "inf" else record.get(self.column)
        if value is None:
            return False
        return value >= self.least if self.least is not None else value <= (self.most or 0.0)

    def check(self, experiment: Experiment[Any], fixed: Collection[str]) -> None:
        """Refuse what cannot be sought."""
        if (self.least is None) == (self.most is None):
            raise InputError(f"threshold of {self.column}: give least or most, one of them")
        if self.column not in {column.name for column in experiment.columns}:
            raise InputError(f"column {brief(self.column)} is unknown to blindrec {experiment.name}; see its JSON")
        if self.field in fixed:
            raise InputError(f"{self.field} is what the threshold looks for; leave it out of [base] and [[grid]]")

    @property
    def description(self) -> str:
        """It in words."""
        target = f"at least {self.least:g}" if self.least is not None else f"at most {self.most:g}"
        return f"smallest {self.field} with {self.column} of {target}, median over seeds"


def measure_smallest(experiment: str, target: SmallestNumber, scenario: Any) -> Values:
    """Find the smallest number from which one seed meets a target, by a run for each number that is looked at."""
    kind, values = EXPERIMENTS[experiment], scenario.again()

    def success(number: int) -> bool:
        return target.met(measure_result(experiment, kind.read(None, {**values, target.field: number}))["record"])

    search = BisectionRange(start=target.start, most=target.limit, resolution=target.resolution)
    return {"record": {target.field: search.crossing(success)}}


class ResultsGrid(SettingsGrid):
    """What a grid of results says."""

    experiment: str = "run"  # The command of the experiment: run, online or two-tier
    seeds: Annotated[int, Field(ge=1, le=100_000)] = 5
    columns: tuple[str, ...] = ()  # Columns of its record; default: all that are measured
    threshold: SmallestNumber | None = None  # Measure the smallest number that meets a target instead

    @property
    def runs(self) -> Experiment[Any]:
        """The experiment."""
        return EXPERIMENTS[self.experiment]

    @cached_property
    def settings(self) -> tuple[Any, ...]:
        """The settings, whose files have absolute paths: workers may run in another directory."""

        def setting(varied: dict[str, Any]) -> Any:
            scenario = self.runs.read(None, {**self.base, **varied})
            if self.threshold is not None:
                for end in (self.threshold.start, self.threshold.limit):
                    self.runs.read(None, {**self.base, **varied, self.threshold.field: end})
            self.runs.check(scenario)
            paths = {name: getattr(scenario, name).absolute() for name in self.runs.files if getattr(scenario, name)}
            return scenario.model_copy(update=paths)

        return expanded(self.grid, setting, {"seed": FIRST_SEED})

    @cached_property
    def varied(self) -> list[dict[str, Any]]:
        """What differs, a dictionary each setting; None where a setting does not say it."""
        every = [setting.flat() for setting in self.settings]
        names = dict.fromkeys(name for table in self.grid for name in table)
        shown = [name for name in names if len({str(values.get(name)) for values in every}) > 1]
        return [{name: values.get(name) for name in shown or names} for values in every]

    def content(self) -> dict[str, Any]:
        """Return the experiment and its settings, as they make a run the same run; a file counts by its content."""
        target = {} if self.threshold is None else {"threshold": self.threshold.model_dump(mode="json")}
        identities = [[*self.runs.mark(setting, 1).identity] for setting in self.settings]
        return {"sweep": "results", **target, "settings": identities}

    def measure_of(self, setting: BaseModel) -> Callable[[BaseModel], Values]:
        """Return what runs one seed of the experiment, or finds its smallest number."""
        if self.threshold is not None:
            return partial(measure_smallest, self.experiment, self.threshold)
        return partial(measure_result, self.experiment)

    def table(self, units: Mapping[SettingKey, Values]) -> pd.DataFrame:
        """Return the record of every setting and seed, one row each."""
        rows = [{**key._asdict(), **self.varied[key.setting], **unit["record"]} for key, unit in units.items()]
        table = pd.DataFrame(rows)
        mixed = [name for name in table if len({isinstance(cell, str) for cell in table[name].dropna()}) > 1]
        return table.astype(dict.fromkeys(mixed, str))  # a column of a file holds values of one type

    def result(self, units: Mapping[SettingKey, Values]) -> dict[str, Any]:
        """Return a row each setting: every column's mean, as its `Average` says, with ``_low`` and ``_high``."""
        indices = range(len(self.settings))
        every = [[unit["record"] for key, unit in units.items() if key.setting == index] for index in indices]
        means = [mean_of(self.runs.columns, records) for records in every]
        by_name = {column.name: column for column in self.runs.columns}
        shown = [by_name[name] for name in self.columns] or [
            item for item in by_name.values() if item.average in MEASURED
        ]
        shown = shown if self.threshold is None else []
        columns = [column for column in shown if any(mean.get(column.name) is not None for mean in means)]
        rows = []
        for index, (mean, varied) in enumerate(zip(means, self.varied, strict=True)):
            filled = {name: mean.get(name) if value is None else value for name, value in varied.items()}
            row = {"setting": index, **filled, "seeds": len(every[index])}
            for column in columns:
                low, high = mean["intervals"].get(column.name, (None, None))
                row |= named((mean.get(column.name), low, high), column.name)
            rows.append(row)
        labels = {column.name: column.label.strip() or column.name for column in columns}
        if self.threshold is not None:
            labels = {self.threshold.field: self.threshold.description}
            for row, records in zip(rows, every, strict=True):
                numbers = [record[self.threshold.field] or math.nan for record in records]
                row.update(named(quantile_interval(numbers, 0.5), self.threshold.field))
        shared = {"experiment": self.experiment, "varied": list(self.varied[0]), "columns": labels}
        return {"sweep": "results", **shared, "interval": CONFIDENCE, "settings": rows}

    def show(self, console: Console, result: Row, title: str) -> None:
        """Print all settings of one column after the other."""
        varied: list[str] = result["varied"]
        seeds, how = result["settings"][0]["seeds"], "means" if self.threshold is None else "medians"
        remark(console, f"{title}: blindrec {result['experiment']}, {how} over {seeds} seed{'s' if seeds > 1 else ''}")
        texts = [name for name in varied if not all(is_number(row[name]) for row in result["settings"])]
        for name, label in result["columns"].items():
            columns: list[tuple[str, Cell]] = [(name, partial(setting_text, name)) for name in varied]
            columns += [(name, name), ("95 %", partial(interval_of, name=name))]
            show_rows(console, columns, result["settings"], title=label, words=texts, names=len(varied))


def results(values: Row) -> Study[SettingKey, Values]:
    """Check a grid of results, and expand its settings."""
    grid = validated(ResultsGrid, None, dict(values))
    if grid.experiment not in EXPERIMENTS:
        raise InputError(f"experiment is {brief(grid.experiment)}; {name_choices(grid.experiment, EXPERIMENTS)}")
    column_names = [column.name for column in grid.runs.columns if column.average is not Average.NOTHING]
    for name in grid.columns:
        if name not in column_names:
            lead = f"blindrec {grid.runs.name} has"
            raise InputError(f"column {brief(name)} is unknown; {name_choices(name, column_names, lead)}")
    if grid.threshold is not None:
        grid.threshold.check(grid.runs, {*grid.base, *(name for table in grid.grid for name in table)})
    return Study(
        content=grid.content(),  # whose settings refuse what cannot be run
        key=SettingKey,
        units=grid.units,
        result=grid.result,
        frame=grid.table,
        show=grid.show,
    )


MEANINGS = {
    "sweep": "kind of the sweep",
    "settings": "a row for each setting",
    "setting": "number of the setting",
    "interval": "confidence of the intervals",
    "label": "name in tables and figures",
}
"""Most of them are columns of all kinds."""
KIND = Kind(
    meanings=MEANINGS, fields=ResultsGrid.model_fields, read=results, help="", tables=("units.parquet", "settings.csv")
)
