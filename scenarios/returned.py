"""What `blindrec.run`, `sweep` and `plan` return: the record that `--json` prints, as mapping, table and figure."""

from __future__ import annotations

import html
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd

from coordinator.protocol.errors import InputError
from scenarios.app.experiment import Experiment, Record
from scenarios.pictures.figures import pictures_of
from scenarios.pictures.panel import Picture
from scenarios.planner.plan import DesignPlan
from scenarios.planner.tables import recommendation
from scenarios.report.printing import lines_of, text_of
from scenarios.report.records import flat
from scenarios.sweep.folder import Swept

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_ROWS = 20
Table = Literal["runs", "items", "rounds", "clients", "voters", "iterations", "validated"]
"""Tables of a run, or of one of the three experiments."""


class Result(Mapping[str, Any]):
    """A finished run, sweep or plan.

    As a mapping it is the record that the command's `--json` prints: ``result["accuracy"]``, ``dict(result)``.

    Parameters
    ----------
    record : mapping
        JSON values by stable names.
    """

    def __init__(self, record: Mapping[str, Any]) -> None:
        self._record = dict(record)

    def __getitem__(self, name: str) -> Any:
        return self._record[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._record)

    def __len__(self) -> int:
        return len(self._record)

    @abstractmethod
    def frame(self) -> pd.DataFrame:
        """Return the result as a table."""

    @abstractmethod
    def _pictures(self) -> tuple[Picture, ...]:
        """Return the result's pictures."""

    def plot(self, of: str | None = None) -> Axes:
        """Draw the result, as `--figure` does, and return the first axes; ``axes.figure`` holds all of its panels.

        A notebook shows the figure, a script saves it.

        Parameters
        ----------
        of : str, optional
            Name of a picture, such as ``"items"``, ``"shares"`` or ``"rounds"`` of a run; default: the first.

        Raises
        ------
        InputError
            If there is no such picture.
        """
        from matplotlib import pyplot as plt  # noqa: PLC0415 (plotting, where something is drawn)

        from scenarios.pictures.drawing import draw_picture  # noqa: PLC0415 (as above)

        pictures = {one.name: one for one in self._pictures()}
        if not pictures or (of is not None and of not in pictures):
            raise InputError(
                f"of is {of!r}; {f'choose among {chr(44).join(pictures)}' if pictures else 'nothing here can be drawn'}"
            )
        figure = plt.figure()
        draw_picture(pictures[of or next(iter(pictures))], figure)
        return figure.axes[0]

    def flat(self, *, texts: bool = True) -> dict[str, Any]:
        """Return the result as one level of numbers and texts by stable names, as tools that track experiments log it.

        Parameters
        ----------
        texts : bool
            Whether texts stand in it, or numbers only.

        Returns
        -------
        dict
            See `scenarios.report.records.flat`.
        """
        return {name: value for name, value in flat(self._record).items() if texts or not isinstance(value, str)}

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(repr(self))}</p>{self.frame().to_html(index=False, max_rows=_MOST_ROWS)}"


class RunResult(Result):
    """A run, or the means over the seeds of a repeated one.

    Parameters
    ----------
    experiment : Experiment
        What was run.
    record : Record
        What came of it.
    """

    def __init__(self, experiment: Experiment[Any], record: Record) -> None:
        super().__init__(record.values)
        self._experiment, self._tables = experiment, record.tables()

    def _pictures(self) -> tuple[Picture, ...]:
        return pictures_of(self._experiment.name, self, self._tables)

    def frame(self, of: Table = "runs") -> pd.DataFrame:
        """Return a table of the runs, one row a seed, or one of the first seed's tables.

        Parameters
        ----------
        of : str
            ``"runs"``, or a table as the run's folder holds it: of a `Scenario` ``"items"``, what the server learned,
            and ``"rounds"``, what it asked; of an `OnlineScenario` ``"clients"``, ``"rounds"`` and ``"voters"``; of a
            `TwoTierScenario` ``"iterations"`` and ``"validated"``.

        Returns
        -------
        DataFrame

        Raises
        ------
        InputError
            If there is no such table.
        """
        if of != "runs":
            if of not in self._tables:
                raise InputError(f"of is {of!r}; choose runs, {', '.join(self._tables)}")
            return self._tables[of].copy()
        table = pd.DataFrame(self.get("runs", [self._record]))
        numbers = [name for name in table if "inf" in table[name].tolist() or _is_privacy(str(name))]
        return table.astype(dict.fromkeys(numbers, float))  # "inf" is a float to pandas, and no number to JSON

    def __repr__(self) -> str:
        lines = [f"{name}={text_of(value)}" for name in self._experiment.named if (value := self.get(name)) is not None]
        return f"RunResult({', '.join([str(self[self._experiment.titled]), *lines])})"

    def _repr_html_(self) -> str:
        rows = [f"<tr><td>{html.escape(one)}</td><td>{html.escape(two)}</td></tr>" for one, two in self._lines()]
        return f"<table>{''.join(rows)}</table>"

    def _lines(self) -> list[tuple[str, str]]:
        titled = self._experiment.titled
        lines = lines_of(self, self._experiment.columns)
        return [(titled, str(self[titled])), *(line for line in lines if line[0] != titled)]


def _is_privacy(name: str) -> bool:
    """Return whether a column holds nats, which may be infinite."""
    return "epsilon" in name or name.startswith("spent_")


class PlanResult(Result):
    """A plan: what each design needs.

    Parameters
    ----------
    made : DesignPlan
        The plan.
    record : mapping
        What `--json` prints of it.
    """

    def __init__(self, made: DesignPlan, record: Mapping[str, Any]) -> None:
        super().__init__(record)
        self._told = recommendation(made)

    def _pictures(self) -> tuple[Picture, ...]:
        return pictures_of("plan", self)

    def frame(self, of: Literal["designs", "bounds", "worth"] = "designs") -> pd.DataFrame:
        """Return a table of the designs, one row a design and decoder; of the lower bounds; or of a file's advice."""
        table = pd.DataFrame(self[of])
        return table.astype({"epsilon": float, "users": float} if of == "designs" else {})

    def __repr__(self) -> str:
        return f"PlanResult({self._told})"


class SweepResult(Result):
    """A sweep of any kind; by default the users U* that it takes in each setting.

    Parameters
    ----------
    swept : Swept
        What was measured.
    """

    def __init__(self, swept: Swept) -> None:
        super().__init__(swept.result)
        self._swept = swept

    def _pictures(self) -> tuple[Picture, ...]:
        return pictures_of(self._swept.sweep.family, self, self._swept.plotted_tables())

    def frame(self, of: Literal["settings", "seeds"] = "settings") -> pd.DataFrame:
        """Return a table of the result, such as U*, one row a setting, decoder and criterion; or of every unit."""
        sweep = self._swept.sweep
        return sweep.rows(self) if of == "settings" else sweep.table(self._swept.units)

    def __repr__(self) -> str:
        seeds = len({key.seed for key in self._swept.units})
        return f"SweepResult({self._swept.sweep.in_words(self.frame())}, {seeds} seeds)"
