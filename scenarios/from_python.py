"""What a script or a notebook calls, `run`, `sweep`, `compare`, `risk`, `plan`, `data`, `report`, and their results."""

from __future__ import annotations

import html
import re
import sys
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd
from rich.console import Console

from coordinator.protocol.errors import InputError, name_choices
from scenarios.backends.selection import BackendChoice, InProcess, opened
from scenarios.backends.session import Backend
from scenarios.config.frames import named
from scenarios.config.settings import ExperimentScenario
from scenarios.config.signals import InterruptedRunError
from scenarios.experiment.experiment import Experiment, Record, finished_run
from scenarios.experiments import experiment_of
from scenarios.log import width_of
from scenarios.show.picture import Picture
from scenarios.show.records import flat, pictures_of
from scenarios.show.tables import lines_of, text_of
from scenarios.studies.plan_of_file import FileAnswer, describe_file, planned
from scenarios.studies.planner.plan import DesignPlan, recommendation
from scenarios.studies.planner.request import PlanRequest
from scenarios.studies.study import Study, StudyOutcome, run_study
from scenarios.studies.sweep.sweeps import load_sweep

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_MOST_ROWS = 20
_NATS = re.compile("epsilon|^spent_")  # Names of columns that hold nats, which may be infinite
Table = Literal["runs", "items", "rounds", "clients", "voters", "iterations", "validated"]
"""Tables of a run, or of one of the three experiments."""


def _check_table(of: object, tables: Iterable[str]) -> None:
    if of not in (names := list(tables)):
        raise InputError(f"of is {of!r}; {name_choices(of, names)}")


class Result(Mapping[str, Any]):
    """A finished run, sweep or plan.

    As a mapping it is the record that the command's `--json` prints: ``result["accuracy"]``, ``dict(result)``.
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

        from scenarios.show.drawing import draw_picture  # noqa: PLC0415 (as above)

        pictures = {picture.name: picture for picture in self._pictures()}
        if not pictures or (of is not None and of not in pictures):
            raise InputError(f"of is {of!r}; {name_choices(of, pictures) if pictures else 'nothing here can be drawn'}")
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
            See `scenarios.show.records.flat`.
        """
        return {name: value for name, value in flat(self._record).items() if texts or not isinstance(value, str)}

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(repr(self))}</p>{self.frame().to_html(index=False, max_rows=_MOST_ROWS)}"


class RunResult(Result):
    """A run, or the means over the seeds of a repeated one."""

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
        _check_table(of, ("runs", *self._tables))
        if of != "runs":
            return self._tables[of].copy()
        table = pd.DataFrame(self.get("runs", [self._record]))
        numbers = [name for name in table if "inf" in table[name].tolist() or _NATS.search(str(name))]
        return table.astype(dict.fromkeys(numbers, float))  # "inf" is a float to pandas, and no number to JSON

    def __repr__(self) -> str:
        lines = [f"{name}={text_of(value)}" for name in self._experiment.named if (value := self.get(name)) is not None]
        return f"RunResult({', '.join([str(self[self._experiment.titled]), *lines])})"

    def _repr_html_(self) -> str:
        rows = [f"<tr><td>{html.escape(label)}</td><td>{html.escape(two)}</td></tr>" for label, two in self._lines()]
        return f"<table>{''.join(rows)}</table>"

    def _lines(self) -> list[tuple[str, str]]:
        titled = self._experiment.titled
        lines = lines_of(self, self._experiment.columns)
        return [(titled, str(self[titled])), *(line for line in lines if line[0] != titled)]


class PlanResult(Result):
    """A plan: what each design needs, or of a file of ratings what lists are worth to people like its own."""

    def __init__(self, made: DesignPlan | FileAnswer, record: Mapping[str, Any]) -> None:
        super().__init__(record)
        self._told = recommendation(made) if isinstance(made, DesignPlan) else made.words

    def _pictures(self) -> tuple[Picture, ...]:
        return pictures_of("plan", self)

    def frame(self, of: Literal["designs", "bounds", "rows"] | None = None) -> pd.DataFrame:
        """Return a table: of the designs, one row a design and decoder, or of the lower bounds; of a file its rows.

        The first of these that there is, unless one is named.
        """
        there = [name for name in ("designs", "bounds", "rows") if name in self]
        name = of or there[0]
        _check_table(name, there)
        return pd.DataFrame(self[name]).astype({"epsilon": float, "users": float} if name == "designs" else {})

    def __repr__(self) -> str:
        return f"PlanResult({self._told})"


class DataResult(Result):
    """What is in a file of ratings, and what lists are worth on each rung to people like its own."""

    def __init__(self, answer: FileAnswer, record: Mapping[str, Any]) -> None:
        super().__init__(record)
        self._answer = answer

    def _pictures(self) -> tuple[Picture, ...]:
        return pictures_of("data", self)

    def frame(self, of: Literal["rows", "file", "answer"] = "rows") -> pd.DataFrame:
        """Return a table: of what lists are worth, a row each; of what is in the file, one row; or the answer's."""
        study = self._answer.study
        answer = None if study is None else study.answer(self)
        _check_table(of, ("rows", "file", *(["answer"] if answer is not None else [])))
        if of == "rows":
            return pd.DataFrame(self["rows"])
        if of == "answer" and answer is not None:
            return answer
        lists = ("answer", "rows", "people", "remarks", "warnings", "learnable")
        return pd.DataFrame([flat({name: value for name, value in self.items() if name not in lists})])

    def __repr__(self) -> str:
        counts = ", ".join(f"{self[name]:,} {name}" for name in ("ratings", "users", "items"))
        return f"DataResult({counts}: {self._answer.words})"

    def _repr_html_(self) -> str:
        counts = self.frame("file").T.to_html(header=False)
        answer = self.frame("answer").to_html(index=False) if self["answer"] else ""
        return f"<p>{html.escape(repr(self))}</p>{answer}{counts}"


class SweepResult(Result):
    """A sweep of any kind; by default the users U* that it takes in each setting."""

    def __init__(self, done: StudyOutcome) -> None:
        super().__init__(done.result)
        self._done = done

    def _pictures(self) -> tuple[Picture, ...]:
        return pictures_of(self._done.study.family, self, self._done.plotted())

    def frame(self, of: Literal["settings", "seeds", "answer"] = "settings") -> pd.DataFrame:
        """Return a table of the result, such as U*, one row a setting, decoder and criterion; or of every unit.

        A comparison that ends in an answer has that of ``"answer"``, too: what its command prints, in words.
        """
        study = self._done.study
        answer = study.answer(self)
        _check_table(of, ("settings", "seeds", *(["answer"] if answer is not None else [])))
        if of == "answer" and answer is not None:
            return answer
        return study.rows(self) if of == "settings" else study.table(self._done.units)

    def __repr__(self) -> str:
        return f"SweepResult({self._done.in_words()})"

    def _repr_html_(self) -> str:
        if (answer := self._done.study.answer(self)) is None:
            return super()._repr_html_()
        advice = [at["advice"]["headline"] for at in self.get("answer", {}).get("by_epsilon", ())]
        paragraphs = "".join(f"<p>{html.escape(line)}</p>" for line in (*advice, repr(self)))
        return f"{answer.to_html(index=False)}{paragraphs}"


Numbers = str | Sequence[float]  # ``[0.9, 0.1]``, or as on the command line ``"0.9,0.1"``


def run(
    scenario: ExperimentScenario,
    backend: BackendChoice | None = None,
    *,
    ratings: str | Path | pd.DataFrame | None = None,
    columns: tuple[str, ...] | None = None,
    repeat: int = 1,
    out: str | Path | None = None,
    devices_per_actor: int | None = None,
    progress: bool = True,
) -> RunResult:
    """Run an experiment, as `blindrec run`, `online` or `two-tier` does: the same answer, record and folder.

    Parameters
    ----------
    scenario : Scenario, OnlineScenario or TwoTierScenario
        What is simulated, and under which privacy.
    backend : InProcess or Ray, optional
        Where; no answer depends on it. Default: in this process, on all its CPUs.
    ratings : path or DataFrame, optional
        Real ratings, in place of the scenario's own; a DataFrame has the columns that a file would have.
    columns : tuple of str, optional
        Names of its user, item and rating columns; default: the names that files have, such as ``userId``.
    repeat : int
        Run this many seeds, from the scenario's own on; the result holds their means.
    out : path, optional
        New folder for the result, or that of the same run which was interrupted: it goes on there.
    devices_per_actor : int, optional
        Size of a cohort; no answer depends on it.
    progress : bool
        Whether to show progress: a bar on a terminal or in a notebook, a line now and then elsewhere.

    Returns
    -------
    RunResult

    Raises
    ------
    InputError
        If something cannot be used; no device was asked.
    PolicyError
        If the policy went astray; its ``result`` holds what earlier rounds learned.
    LostError
        If something was lost; a `ResumableError` where ``out`` keeps rounds to go on from.
    KeyboardInterrupt
        On Ctrl-C, or a notebook's stop button: the text says what ``out`` keeps.
    """
    if ratings is not None:
        scenario = _of_ratings(scenario, ratings, columns)
    experiment = experiment_of(scenario)
    running = finished_run(
        experiment,
        scenario,
        opened(backend or InProcess()),
        repeat=repeat,
        devices_per_actor=devices_per_actor,
        console=_console(progress),
        out=_folder(out),
    )
    with _interruptible(out), running as finished:
        return RunResult(experiment, finished)


def sweep(
    grid: str | Path | Mapping[str, Any],
    backend: BackendChoice | None = None,
    *,
    seeds: int | None = None,
    out: str | Path | None = None,
    progress: bool = True,
    allow_code: bool = False,
) -> SweepResult:
    """Measure a grid of any kind, as `blindrec sweep` does; by default how many users it takes in every setting.

    Parameters
    ----------
    grid : str, path or mapping
        Name of a built-in grid, a TOML file, or what such a file holds.
    backend : InProcess or Ray, optional
        Where; default: in this process, on all its CPUs.
    seeds : int, optional
        Runs of every setting; wins over the grid's.
    out : path, optional
        Folder in which every finished unit is kept; the same call goes on there. Default: nothing is kept.
    progress : bool
        Whether to show progress: a bar on a terminal or in a notebook, a line now and then elsewhere.
    allow_code : bool
        Whether a TOML file may name a custom design or policy, which is imported; a mapping may.

    Returns
    -------
    SweepResult

    Raises
    ------
    InputError
        If something cannot be used.
    KeyboardInterrupt
        On Ctrl-C, or a notebook's stop button: the text says what ``out`` keeps.
    """
    return _measured(load_sweep(grid, seeds=seeds, allow_code=allow_code), backend, out, progress=progress)


def _of_ratings(
    scenario: ExperimentScenario, ratings: str | Path | pd.DataFrame, columns: tuple[str, ...] | None
) -> ExperimentScenario:
    """Return a scenario about a file, or a frame, of ratings; what was given of it stays."""
    values = {name: getattr(scenario, name) for name in scenario.model_fields_set} | {"ratings": ratings}
    return type(scenario)(**values | ({} if columns is None else {"columns": columns}))


def compare(
    ratings: str | Path | pd.DataFrame,
    backend: BackendChoice | None = None,
    *,
    out: str | Path | None = None,
    progress: bool = True,
    **settings: Any,
) -> SweepResult:
    """Compare what recommendations are worth under each trust model, as `blindrec compare` does.

    Parameters
    ----------
    ratings : path or DataFrame
        A file of ratings, or a DataFrame with the columns that it would have. A DataFrame stays in memory; its digest
        is its name, so that the same call with the same folder goes on and that with another frame is refused.
    backend : InProcess or Ray, optional
        Where; default: in this process, on all its CPUs.
    out : path, optional
        Folder in which every finished row is kept; the same call goes on there. Default: nothing is kept.
    progress : bool
        Whether to show progress.
    **settings
        Flags of the command by their names, such as ``features="movies.csv"``, ``epsilon=(1, 4)``, ``scale=(1, 100)``,
        ``trust_models``, ``mechanisms`` and ``seeds``; ``columns`` names those of the ratings, and ``held_out`` is a
        share, or a file or DataFrame of the pairs that are held out.

    Returns
    -------
    SweepResult
        ``frame()`` has the rows, and ``plot()`` draws NDCG against people.

    Raises
    ------
    InputError
        If something cannot be used.
    KeyboardInterrupt
        On Ctrl-C, or a notebook's stop button: the text says what ``out`` keeps.
    """
    from scenarios.studies.compare.comparison import (  # noqa: PLC0415 (others need not wait for what it loads)
        comparison,
    )

    return _measured(comparison({"ratings": ratings, **settings}), backend, out, progress=progress)


def risk(
    ratings: str | Path | pd.DataFrame,
    backend: BackendChoice | None = None,
    *,
    out: str | Path | None = None,
    progress: bool = True,
    **settings: Any,
) -> SweepResult:
    """Measure how often the best attack guesses right on each rung, as `blindrec risk` does, beside epsilon's bound.

    Parameters
    ----------
    ratings : path or DataFrame
        A file of ratings, or a DataFrame with the columns that it would have.
    backend : InProcess or Ray, optional
        Where; default: in this process, on all its CPUs.
    out : path, optional
        Folder in which every finished row is kept; the same call goes on there. Default: nothing is kept.
    progress : bool
        Whether to show progress.
    **settings
        Flags of the command by their names, such as ``epsilon=(1, 4)``, ``people=10_000``, ``trust_models`` and
        ``mechanisms``.

    Returns
    -------
    SweepResult
        ``frame()`` has a row for each view of an attacker: shares of guesses that are right, with intervals of 95 %.

    Raises
    ------
    InputError
        If something cannot be used.
    KeyboardInterrupt
        On Ctrl-C, or a notebook's stop button: the text says what ``out`` keeps.
    """
    from scenarios.studies.compare.risk.risk_study import (  # noqa: PLC0415 (others need not wait for what it loads)
        risk as study,
    )

    return _measured(study({"ratings": ratings, **settings}), backend, out, progress=progress)


def years(
    ratings: str | Path | pd.DataFrame | None = None,
    backend: BackendChoice | None = None,
    *,
    out: str | Path | None = None,
    progress: bool = True,
    **settings: Any,
) -> SweepResult:
    """Measure what it costs to keep asking, as `blindrec years` does: people by schedule, on each rung of trust.

    Parameters
    ----------
    ratings : path or DataFrame, optional
        A file of ratings with times, or a DataFrame with the columns that it would have. Default: made worlds.
    backend : InProcess or Ray, optional
        Where; default: in this process, on all its CPUs.
    out : path, optional
        Folder in which every finished unit is kept; the same call goes on there. Default: nothing is kept.
    progress : bool
        Whether to show progress.
    **settings
        Flags of the command by their names, such as ``period="month"``, ``periods=12``, ``schedule=("once", "front")``,
        ``epsilon``, ``trust_models`` and ``seeds``.

    Returns
    -------
    SweepResult
        ``frame()`` has a row each rung and schedule, and ``plot()`` draws people that each takes.

    Raises
    ------
    InputError
        If something cannot be used.
    KeyboardInterrupt
        On Ctrl-C, or a notebook's stop button: the text says what ``out`` keeps.
    """
    from scenarios.studies.years.years_sweep import years as study  # noqa: PLC0415 (others need not wait for it)

    return _measured(study({"ratings": ratings, **settings}), backend, out, progress=progress)


def plan(
    *,
    items: int | None = None,
    rated: int | None = None,
    epsilon: float | str | Fraction | None = None,
    like: Numbers | Sequence[Sequence[float]] | None = None,
    class_shares: Numbers | None = None,
    cluster_shares: Numbers | None = None,
    success: float | None = None,
    accuracy: float | None = None,
    users: int | None = None,
    ratings: str | Path | pd.DataFrame | None = None,
    columns: tuple[str, ...] | None = None,
    like_from: float | None = None,
    duplicates: Literal["last", "first", "mean", "sum"] | None = None,
    bad_lines: Literal["refuse", "skip"] = "refuse",
    unrated: float | None = None,
    features: str | Path | None = None,
    feature_columns: tuple[str, ...] | None = None,
    worth: float | None = None,
    of: Literal["best", "popularity"] | None = None,
    block_model: bool = False,
    design: str | None = None,
    trust: Literal["local", "shuffled", "two-servers"] | None = None,
    delta: float | None = None,
    expected_answers: float | None = None,
    own_questions: bool | None = None,
    **settings: Any,
) -> PlanResult:
    """Compute how many users each design needs, and which to use, as `blindrec plan` does, before anything is run.

    With ``users`` and without ``epsilon`` the smallest epsilon is sought with which they are enough.

    Parameters
    ----------
    items, rated : int, optional
        N and w; default: 200 and 20.
    epsilon : float, str or Fraction, optional
        Privacy parameter [nats], ``"inf"`` for none; default: 1.
    like : numbers, optional
        Probability of a like, a number each item cluster, or such a row each user class; default: 0.9, 0.1.
    class_shares, cluster_shares : numbers, optional
        Shares of user classes and of item clusters; default: equal.
    success, accuracy : float, optional
        Target: the probability that all items are right, and the share that is; default: a success of 0.95.
    users : int, optional
        Users there are.
    ratings : path or DataFrame, optional
        Say what lists are worth on each rung to people like this file's, of whom there are ``users``.
    columns, like_from, duplicates, bad_lines, unrated : optional
        Names of its user, item and rating columns; the rating from which on it is a like; which one counts of several;
        whether lines that cannot be read are an error or left out; a number that stands for no rating.
    features : path, optional
        Public features of its items, which devices weigh scores by.
    feature_columns : tuple of str, optional
        Its columns of words; default: all but numbers, dates and those of more than 500 words.
    worth, of : optional
        Of a file, the share that lists are to be worth of those of ``"popularity"`` or of the ``"best"`` list without
        privacy; default: 0.95 of popularity.
    block_model : bool
        Whether to plan for a block model of the file's shape instead, which says nothing of its lists.
    design : str, optional
        A custom design to plan for beside ours, ``package.module:Name``.
    trust, delta, expected_answers, own_questions : optional
        Whom devices trust: with ``"shuffled"`` epsilon is the central one, and each row has the local epsilon that
        follows from its users; the delta of that promise, and the share of users on whose answers it counts.
    **settings
        Settings that several mechanisms share, such as ``theta``.

    Returns
    -------
    PlanResult

    Raises
    ------
    InputError
        If something cannot be used, or no design that protects all a device holds can do it.
    """
    request: dict[str, Any] = dict(locals())  # All parameters: a request calls them the same
    custom = None if request.pop("design") is None else {"design": design}
    file = named(ratings) if isinstance(ratings, pd.DataFrame) else _folder(ratings)
    paths = {"ratings": file, "features": _folder(features)}
    return PlanResult(*planned(PlanRequest(**request | paths, custom=custom), _here))


def data(ratings: str | Path | pd.DataFrame, *, block_model: bool = False, **settings: Any) -> DataResult:
    """Describe a file of ratings, and say what lists are worth to people like its own, as `blindrec data` does.

    Parameters
    ----------
    ratings : path or DataFrame
        A file of ratings, or a DataFrame with the columns that it would have.
    block_model : bool
        Whether to add what a block model of the file's shape lets a server learn.
    **settings
        Flags of the command by their names: ``columns``, ``like_from``, ``epsilon``, ``features`` and others.

    Returns
    -------
    DataResult
        ``frame("answer")`` has the answer, ``frame()`` every row, and ``frame("file")`` what is in the file.

    Raises
    ------
    InputError
        If something cannot be used.
    """
    _, answer, record = describe_file({"ratings": ratings, **settings}, _here, block_model=block_model)
    return DataResult(answer, record)


def report(*results: str | Path, out: str | Path, force: bool = False) -> Path:
    """Make a page to show of results, as `blindrec report` does: one HTML file that loads nothing.

    Parameters
    ----------
    *results : path
        Folders of ``out``, or files that `--json` wrote; several stand side by side.
    out : path
        The file for the page.
    force : bool
        Whether to write over a file that is there.

    Returns
    -------
    Path
        ``out``.

    Raises
    ------
    InputError
        If a result cannot be read, or a file cannot be written.
    """
    from scenarios.pages.page import write_report  # noqa: PLC0415 (others need not wait for what it loads)

    return write_report([Path(path) for path in results], Path(out), force=force)


def _measured(
    study: Study[Any, Any], backend: BackendChoice | None, out: str | Path | None, *, progress: bool
) -> SweepResult:
    with _interruptible(out):
        return SweepResult(run_study(study, opened(backend or InProcess()), _folder(out), _console(progress)))


def _here() -> AbstractContextManager[Backend]:
    return opened(InProcess())


def _folder(path: str | Path | None) -> Path | None:
    return None if path is None else Path(path)


def _console(progress: bool) -> Console:
    return Console(stderr=True, quiet=not progress, width=width_of(sys.stderr))


@contextmanager
def _interruptible(out: str | Path | None) -> Iterator[None]:
    """Make of what ends a command what Ctrl-C raises in Python, with what is kept."""
    try:
        yield
    except InterruptedRunError as interrupted:
        raise KeyboardInterrupt("interrupted" if out is None else str(interrupted)) from None
