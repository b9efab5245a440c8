"""The sweep of results: any experiment over any of its fields, every column of its record with its interval."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, NamedTuple

import pandas as pd
from pydantic import BaseModel, ConfigDict, Field
from rich.console import Console

from coordinator.protocol.errors import InputError
from scenarios.app.experiment import Experiment, Running
from scenarios.experiments import EXPERIMENTS
from scenarios.given.parsing import brief
from scenarios.given.settings import validated
from scenarios.places.in_process import InProcess
from scenarios.report.columns import Average, Column, mean_of
from scenarios.report.intervals import CONFIDENCE, named
from scenarios.report.tables import interval_of, is_number, number, remark, show_table
from scenarios.sweep.grid import expand, told_of
from scenarios.sweep.kinds import Kind, Sweep

HELP = """Measure any column of any experiment over any of its fields; a file with experiment, [base] and [[grid]]."""
MEASURED = (Average.MEAN, Average.COUNT, Average.SHARE)
"""Columns that are shown unless others are named: what differs from seed to seed."""


class ResultKey(NamedTuple):
    """A unit: place of the setting in the grid, and seed."""

    setting: int
    seed: int


class ResultUnit(NamedTuple):
    """What is run in one process."""

    experiment: str
    scenario: BaseModel


@dataclass(frozen=True, slots=True)
class ResultMeasurement:
    """The plain values of the experiment's record."""

    record: dict[str, Any]


def measure_result(unit: ResultUnit) -> ResultMeasurement:
    """Run one seed of an experiment, in this process."""
    running = Running(session=InProcess(1), console=Console(quiet=True, file=io.StringIO()))
    values = EXPERIMENTS[unit.experiment].once(unit.scenario, running).values
    return ResultMeasurement(
        {name: value for name, value in values.items() if not isinstance(value, (dict, list, tuple))}
    )


class ResultsGrid(BaseModel):
    """What a grid of results says."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    experiment: str = "run"  # The command of the experiment: run, online or two-tier
    # Runs of every setting; their seeds start at the base's ``seed``
    seeds: Annotated[int, Field(ge=1, le=100_000)] = 5
    columns: tuple[str, ...] = ()  # Columns of its record; default: all that are measured
    base: dict[str, Any] = {}  # Keys of its scenario that all settings have
    grid: tuple[dict[str, Any], ...] = ()  # Keys of its scenario; the lists of one table expand as a cartesian product


@dataclass(frozen=True)
class ResultsSweep(Sweep[ResultKey, ResultUnit, ResultMeasurement]):
    """Settings of an experiment, with the fields in which they differ."""

    wanted: ResultsGrid
    settings: tuple[Any, ...]
    key, found, measure = ResultKey, ResultMeasurement, staticmethod(measure_result)
    tables = ("units.parquet", "settings.csv")

    @property
    def experiment(self) -> Experiment[Any]:
        """The experiment."""
        return EXPERIMENTS[self.wanted.experiment]

    @cached_property
    def varied(self) -> list[dict[str, Any]]:
        """What differs, a dictionary each setting; None where a setting does not say it."""
        every = [setting.flat() for setting in self.settings]
        names = dict.fromkeys(name for table in self.wanted.grid for name in table)
        shown = [name for name in names if len({str(one.get(name)) for one in every}) > 1]
        return [{name: one.get(name) for name in shown or names} for one in every]

    def content(self) -> dict[str, Any]:
        """Return the experiment and its settings, as they make a run the same run; a file counts by its content."""
        marks = [self.experiment.mark(setting, 1) for setting in self.settings]
        return {"sweep": "results", "settings": [[*mark.identity] for mark in marks]}

    def units(self, done: Mapping[ResultKey, ResultMeasurement]) -> dict[ResultKey, ResultUnit]:
        """Return every unit, seed by seed, so that an unfinished sweep tells something of all settings."""
        return {
            ResultKey(place, seed): ResultUnit(self.wanted.experiment, setting.model_copy(update={"seed": seed}))
            for turn in range(self.wanted.seeds)
            for place, setting in enumerate(self.settings)
            for seed in [setting.seed + turn]
        }

    def table(self, units: Mapping[ResultKey, ResultMeasurement]) -> pd.DataFrame:
        """Return the record of every setting and seed, one row each."""
        rows = [{**self.named(key), **self.varied[key.setting], **one.record} for key, one in units.items()]
        table = pd.DataFrame(rows)
        mixed = [name for name in table if len({isinstance(one, str) for one in table[name].dropna()}) > 1]
        return table.astype(dict.fromkeys(mixed, str))  # a column of a file holds values of one type

    def result(self, units: Mapping[ResultKey, ResultMeasurement]) -> dict[str, Any]:
        """Return a row each setting: every column's mean, as its `Average` says, with ``_low`` and ``_high``."""
        every = [
            [one.record for key, one in units.items() if key.setting == place] for place in range(len(self.settings))
        ]
        means = [mean_of(self.experiment.columns, records) for records in every]
        columns = [column for column in self._columns() if any(one.get(column.name) is not None for one in means)]
        rows = []
        for place, (mean, varied) in enumerate(zip(means, self.varied, strict=True)):
            filled = {name: mean.get(name) if value is None else value for name, value in varied.items()}
            row = {"setting": place, **filled, "seeds": len(every[place])}
            for column in columns:
                low, high = mean["intervals"].get(column.name, (None, None))
                row |= named((mean.get(column.name), low, high), column.name)
            rows.append(row)
        words = {column.name: column.words.strip() or column.name for column in columns}
        told = {"experiment": self.wanted.experiment, "varied": list(self.varied[0]), "columns": words}
        return {"sweep": "results", **told, "interval": CONFIDENCE, "settings": rows}

    def _columns(self) -> Sequence[Column]:
        known = {column.name: column for column in self.experiment.columns}
        if self.wanted.columns:
            return [known[name] for name in self.wanted.columns]
        return [column for column in known.values() if column.average in MEASURED]

    def rows(self, result: Mapping[str, Any]) -> pd.DataFrame:
        """Return the settings."""
        return pd.DataFrame(result["settings"])

    def show(self, console: Console, result: Mapping[str, Any], title: str) -> None:
        """Print all settings of one column after the other."""
        varied: list[str] = result["varied"]
        seeds = result["settings"][0]["seeds"]
        remark(console, f"{title}: blindrec {result['experiment']}, means over {seeds} seed{'s' if seeds > 1 else ''}")
        for name, words in result["columns"].items():
            rows = [
                [*(_told(row[one]) for one in varied), number(row[name]), interval_of(row, name)]
                for row in result["settings"]
            ]
            texts = [one for one in varied if not all(is_number(row[one]) for row in result["settings"])]
            show_table(console, [*varied, name, "95 %"], rows, title=words, words=texts, names=len(varied))


def _told(value: Any) -> str:
    return "" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


def read(values: Mapping[str, Any]) -> ResultsSweep:
    """Check a grid of results, and expand its settings."""
    wanted = validated(ResultsGrid, None, dict(values))
    if wanted.experiment not in EXPERIMENTS:
        raise InputError(f"experiment is {brief(wanted.experiment)}; choose among {', '.join(EXPERIMENTS)}")
    experiment = EXPERIMENTS[wanted.experiment]
    known = [column.name for column in experiment.columns if column.average is not Average.NOTHING]
    for name in wanted.columns:
        if name not in known:
            raise InputError(f"column {brief(name)} is unknown; blindrec {experiment.name} has {', '.join(known)}")
    if not wanted.grid:
        raise InputError("grid is empty; give at least one [[grid]] table")
    settings: list[Any] = []
    for table in wanted.grid:
        if "seed" in table:
            raise InputError("seed cannot vary within a grid; give the first seed in [base] and their number as seeds")
        for varied in expand(table):
            try:
                setting = experiment.read(None, {**wanted.base, **varied})
                experiment.check(setting)
            except InputError as error:
                raise InputError(f"setting {told_of(varied)}: {error}") from None
            if setting in settings:
                raise InputError(f"setting {told_of(varied)} is given twice; drop one of them")
            files = {name: getattr(setting, name).absolute() for name in experiment.files if getattr(setting, name)}
            settings.append(setting.model_copy(update=files))  # workers may run in another directory
    return ResultsSweep(wanted, tuple(settings))


RESULTS = Kind(name="results", help=HELP, fields=ResultsGrid.model_fields, read=read)
