"""The sweep of results: any experiment over any of its fields, every column of its record with its interval."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Annotated, Any, ClassVar

import pandas as pd
from pydantic import BaseModel, ConfigDict, Field
from rich.console import Console

from coordinator.protocol.errors import InputError
from scenarios.app.experiment import Experiment, Running
from scenarios.experiments import EXPERIMENTS
from scenarios.given.validation import validated
from scenarios.given.values import brief
from scenarios.places.in_process import InProcess
from scenarios.report.columns import Average, Column, mean_of
from scenarios.report.intervals import CONFIDENCE, named
from scenarios.report.tables import interval_of, is_number, number, remark, show_table
from scenarios.sweep.grid import FIRST_SEED, expanded
from scenarios.sweep.kinds import SettingKey, Sweep

MEASURED = (Average.MEAN, Average.COUNT, Average.SHARE)
"""Columns that are shown unless others are named: what differs from seed to seed."""


@dataclass(frozen=True, slots=True)
class ResultMeasurement:
    """The plain values of the experiment's record."""

    record: dict[str, Any]


def measure_result(experiment: str, scenario: BaseModel) -> ResultMeasurement:
    """Run one seed of an experiment, in this process."""
    running = Running(session=InProcess(1), console=Console(quiet=True, file=io.StringIO()))
    values = EXPERIMENTS[experiment].once(scenario, running).values
    return ResultMeasurement({name: one for name, one in values.items() if not isinstance(one, (dict, list, tuple))})


class ResultsSweep(BaseModel, Sweep[SettingKey, ResultMeasurement]):
    """What a grid of results says."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    key: ClassVar = SettingKey
    measurement: ClassVar = ResultMeasurement
    tables: ClassVar = ("units.parquet", "settings.csv")
    help: ClassVar = (
        "Measure any column of any experiment over any of its fields; a file with experiment, [base] and [[grid]]."
    )

    experiment: str = "run"  # The command of the experiment: run, online or two-tier
    # Runs of every setting; their seeds start at the base's ``seed``
    seeds: Annotated[int, Field(ge=1, le=100_000)] = 5
    columns: tuple[str, ...] = ()  # Columns of its record; default: all that are measured
    base: dict[str, Any] = {}  # Keys of its scenario that all settings have
    grid: tuple[dict[str, Any], ...] = ()  # Keys of its scenario; the lists of one table expand as a cartesian product

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> ResultsSweep:
        """Check a grid of results, and expand its settings."""
        sweep = validated(cls, None, dict(values))
        if sweep.experiment not in EXPERIMENTS:
            raise InputError(f"experiment is {brief(sweep.experiment)}; choose among {', '.join(EXPERIMENTS)}")
        known = [column.name for column in sweep.runs.columns if column.average is not Average.NOTHING]
        for name in sweep.columns:
            if name not in known:
                raise InputError(f"column {brief(name)} is unknown; blindrec {sweep.runs.name} has {', '.join(known)}")
        _ = sweep.settings  # refuses those that cannot be run
        return sweep

    @property
    def runs(self) -> Experiment[Any]:
        """The experiment."""
        return EXPERIMENTS[self.experiment]

    @cached_property
    def settings(self) -> tuple[Any, ...]:
        """The settings, whose files have absolute paths: workers may run in another directory."""

        def setting(varied: dict[str, Any]) -> Any:
            one = self.runs.read(None, {**self.base, **varied})
            self.runs.check(one)
            paths = {name: getattr(one, name).absolute() for name in self.runs.files if getattr(one, name)}
            return one.model_copy(update=paths)

        return expanded(self.grid, setting, {"seed": FIRST_SEED})

    @cached_property
    def varied(self) -> list[dict[str, Any]]:
        """What differs, a dictionary each setting; None where a setting does not say it."""
        every = [setting.flat() for setting in self.settings]
        names = dict.fromkeys(name for table in self.grid for name in table)
        shown = [name for name in names if len({str(one.get(name)) for one in every}) > 1]
        return [{name: one.get(name) for name in shown or names} for one in every]

    def content(self) -> dict[str, Any]:
        """Return the experiment and its settings, as they make a run the same run; a file counts by its content."""
        return {"sweep": "results", "settings": [[*self.runs.mark(one, 1).identity] for one in self.settings]}

    def units(self, done: Mapping[SettingKey, ResultMeasurement]) -> dict[SettingKey, Callable[[], ResultMeasurement]]:
        """Return a unit each setting and seed."""
        return {
            SettingKey(place, one.seed + turn): partial(
                measure_result, self.experiment, one.model_copy(update={"seed": one.seed + turn})
            )
            for turn in range(self.seeds)
            for place, one in enumerate(self.settings)
        }

    def table(self, units: Mapping[SettingKey, ResultMeasurement]) -> pd.DataFrame:
        """Return the record of every setting and seed, one row each."""
        rows = [{**key._asdict(), **self.varied[key.setting], **one.record} for key, one in units.items()]
        table = pd.DataFrame(rows)
        mixed = [name for name in table if len({isinstance(one, str) for one in table[name].dropna()}) > 1]
        return table.astype(dict.fromkeys(mixed, str))  # a column of a file holds values of one type

    def result(self, units: Mapping[SettingKey, ResultMeasurement]) -> dict[str, Any]:
        """Return a row each setting: every column's mean, as its `Average` says, with ``_low`` and ``_high``."""
        places = range(len(self.settings))
        every = [[one.record for key, one in units.items() if key.setting == place] for place in places]
        means = [mean_of(self.runs.columns, records) for records in every]
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
        shared = {"experiment": self.experiment, "varied": list(self.varied[0]), "columns": words}
        return {"sweep": "results", **shared, "interval": CONFIDENCE, "settings": rows}

    def _columns(self) -> list[Column]:
        known = {column.name: column for column in self.runs.columns}
        return [known[name] for name in self.columns] or [one for one in known.values() if one.average in MEASURED]

    def rows(self, result: Mapping[str, Any]) -> pd.DataFrame:
        """Return the settings."""
        return pd.DataFrame(result["settings"])

    def show(self, console: Console, result: Mapping[str, Any], title: str) -> None:
        """Print all settings of one column after the other."""
        varied: list[str] = result["varied"]
        seeds = result["settings"][0]["seeds"]
        remark(console, f"{title}: blindrec {result['experiment']}, means over {seeds} seed{'s' if seeds > 1 else ''}")
        texts = [one for one in varied if not all(is_number(row[one]) for row in result["settings"])]
        for name, words in result["columns"].items():
            rows = [
                [*(_text(row[one]) for one in varied), number(row[name]), interval_of(row, name)]
                for row in result["settings"]
            ]
            show_table(console, [*varied, name, "95 %"], rows, title=words, words=texts, names=len(varied))


ResultsSweep.fields = ResultsSweep.model_fields


def _text(value: Any) -> str:
    return "" if value is None else f"{value:,}" if isinstance(value, int) else str(value)
