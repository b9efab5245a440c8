"""The sweep of online recommenders on clients of a file, whose services are also rows of `blindrec compare`."""

from __future__ import annotations

import time
from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console

from scenarios.backends.selection import InProcess
from scenarios.backends.session import stop_if_abandoned
from scenarios.config.settings import validated
from scenarios.data.datasets import lines_skipped, read_for, tell_remarks
from scenarios.families.online import online_report as report
from scenarios.families.online import online_run as online
from scenarios.families.online.online_scenario import REFERENCE, OnlineScenario
from scenarios.families.online.online_worlds import OnlineWorld
from scenarios.log import console
from scenarios.show.columns import finite
from scenarios.show.intervals import CONFIDENCE, mean_interval, named, standard_error
from scenarios.show.tables import Cell, interval_of, number, percent, remark, show_rows
from scenarios.studies.study import Measure, Row, Study, Values

RATINGS = "ratings"
"""What recommenders that are compared on ratings files say in `NamedRecommender.compared`."""
CLIENTS = 50
"""Clients of a file, unless another number is asked for."""
STYLE: dict[str, Any] = {"words": ("recommender",)}
"""How columns of the tables are set."""


def serve(scenario: OnlineScenario, world: OnlineWorld) -> online.OnlineResult:
    """Serve a world's clients, in this process."""
    return online.run_online(scenario, InProcess(1), world=world, progress=lambda _: stop_if_abandoned())


def rows_table(rows: Sequence[Row]) -> pd.DataFrame:
    """Return rows of a result as a table; NaN: not known, inf: no finite number."""
    table = pd.DataFrame(rows)
    return table.astype({str(name): float for name in table if table[name].map(lambda value: value == "inf").any()})


ClientsKey = namedtuple("ClientsKey", ("recommender", "seed"))  # A unit of a sweep on clients of a file


_NUMBERS = ("loss_bound", "epsilon_proved", "privacy_loss_of_run", "privacy_loss_of_peers")
_COUNTS = ("rounds", "voters", "peers", "diversity", "radius", "skipped", "loss", "loss_random")
CLIENT_COLUMNS = ("client", *_COUNTS, *_NUMBERS, "peers_alive", "peers_kicked")
BESIDE = "plurality"
"""Whose loss is set beside every other's, client by client: ``to_plurality`` is a key of the result."""
_SIZES = dict(zip(("epsilon", "privacy_loss", "privacy_loss_any"), _NUMBERS[1:], strict=True))
_SPREAD = ("mean", "least", "median", "most")


def client_rows(scenario: OnlineScenario, world: OnlineWorld) -> tuple[Values, ...]:
    """Serve a world's clients, and return a record of each, with the columns `CLIENT_COLUMNS`."""
    run = serve(scenario, world)
    records = (report.client_record(run, client) for client in run.clients)
    return tuple({name: record[name] for name in CLIENT_COLUMNS} for record in records)


world_of = lru_cache(maxsize=1)(online.build_world)
"""A scenario's world; the last one is cached, since all recommenders serve the same clients."""


def measure_clients(scenario: OnlineScenario) -> Values:
    """Serve the clients of a file by one recommender."""
    begin = time.perf_counter()
    rows = client_rows(scenario, world_of(scenario.model_copy(update={"recommender": REFERENCE})))
    return {"clients": rows, "seconds": time.perf_counter() - begin}


Clients = Mapping[ClientsKey, Values]


@dataclass(frozen=True, kw_only=True)
class ClientsGrid:
    """Recommenders on clients of a file."""

    base: Mapping[str, Any]  # Of all scenarios: the file and how it is read, clients, rounds and objects
    sha256: str  # Of the file: it is known by its content, not by its name
    recommenders: tuple[str, ...]
    seeds: int  # Each draws its own clients

    def check(self) -> None:
        """Refuse what cannot be run, before anything runs; the first seed's clients are drawn for that."""
        reference = self.scenario(REFERENCE, 0)
        tell_remarks(read_for(reference), console())
        for recommender in self.recommenders:
            scenario = self.scenario(recommender, 0)
            for client in world_of(reference).clients:
                online.proved(scenario, client, recommender)

    def scenario(self, recommender: str, seed: int) -> OnlineScenario:
        """Return what is run."""
        return validated(OnlineScenario, None, {**self.base, "recommender": recommender, "seed": seed})

    def content(self) -> dict[str, Any]:
        """Return what every unit depends on, as JSON values."""
        scenario = self.scenario(REFERENCE, 0)
        columns = None if scenario.columns is None else list(scenario.columns)
        names = ("like_from", "duplicates", "bad_lines", "clients", "rounds", "objects")
        shared = {name: getattr(scenario, name) for name in names}
        shared |= {} if scenario.unrated is None else {"unrated": scenario.unrated}
        return {"sweep": "online ratings", "ratings_sha256": self.sha256, "columns": columns, **shared}

    def units(self, _: Clients) -> dict[ClientsKey, Measure[Values]]:
        """Return a unit a recommender and seed."""
        keys = [ClientsKey(name, seed) for seed in range(self.seeds) for name in self.recommenders]
        return {key: partial(measure_clients, self.scenario(*key)) for key in keys}

    def table(self, units: Clients) -> pd.DataFrame:
        """Return every client of every unit, one row each; NaN: not computed or not proved."""
        table = pd.DataFrame([{**key._asdict(), **row} for key, unit in units.items() for row in unit["clients"]])
        return table.astype(dict.fromkeys(_NUMBERS, float))

    def result(self, units: Clients) -> dict[str, Any]:
        """Return the summary, and how many lines of the file were left out."""
        scenario = self.scenario(REFERENCE, 0)
        return {**self.summary(units), **lines_skipped(scenario, read_for(scenario))}

    def summary(self, units: Clients) -> dict[str, Any]:
        """Return means and paired differences over clients."""
        # A client that several seeds drew counts once, with its means: intervals are Student's, over clients.
        # ``to_random`` and ``to_plurality`` are paired differences, client by client: below 0 is better. Random
        # recommendations' loss is the exact expectation. ``privacy_loss`` is what the runs leaked of voters that are no
        # peers where there are no more than P.
        table = self.table(units)
        for share, size in (("share", "loss"), ("random_share", "loss_random"), ("radius_share", "radius")):
            table[share] = table[size] / table["rounds"]
        means = table.groupby(["recommender", "client"], sort=False).mean(numeric_only=True)
        first = means.loc[self.recommenders[0]]
        world = {name: _spread(first[name].to_numpy(np.float64)) for name in _WORLD}
        rows = [_recommender_row(name, means, table[table["recommender"] == name]) for name in self.recommenders]
        grid = {"seeds": self.seeds, "interval": CONFIDENCE, "distinct_clients": len(first)}
        return {**self.content(), **grid, "world": world, "recommenders": rows}

    def study(self) -> Study[ClientsKey, Values]:
        """Return what is measured; pictures show every service, for what is leaked."""
        return Study(
            content=self.content(),
            key=ClientsKey,
            units=self.units,
            result=self.result,
            frame=self.table,
            row_frame=rows_of_clients,
            plotted=lambda units, _: {"units": self.table(units)},
            show=show_clients,
        )


def rows_of_clients(result: Row) -> pd.DataFrame:
    """Return all recommenders, one row each, and in every row what was measured of the clients; NaN: not known."""
    world = {f"{name}_{which}": value for name, of in result["world"].items() for which, value in of.items()}
    return rows_table([{**row, **world} for row in result["recommenders"]])


def show_clients(console: Console, result: Row, title: str) -> None:
    """Print what was measured of the clients, and every recommender beside random and plurality."""
    seeds = result["seeds"]
    remark(console, f"{title}: {result['distinct_clients']} clients, {seeds} seed{'s' if seeds > 1 else ''}")
    first = "measured of clients"
    world = [{"label": label, **result["world"][name]} for name, label in _WORLD.items() if label]
    show_rows(console, [(first, "label"), *[(which, which) for which in _SPREAD]], world, words=(first,))
    for columns in (_LOSSES, _SIZE_COLUMNS):
        show_rows(console, [("recommender", "recommender"), *columns], result["recommenders"], **STYLE)
    remark(
        console,
        "share: of the rounds; less random, less plurality: differences of shares, client by client, below 0 is better",
        "random's loss is its expectation where others are compared with it",
        "bound (L): mean over clients; epsilon: proved; run leaks: exact loss of any voter in a run; medians [nats]",
    )


def _spread(values: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Return mean, least, median and most; all None where it is not known of every one."""
    if np.isnan(values).any():
        return dict.fromkeys(_SPREAD)
    some = values.mean(), values.min(), np.median(values), values.max()
    return {which: finite(float(value)) for which, value in zip(_SPREAD, some, strict=True)}


def _recommender_row(name: str, means: pd.DataFrame, every: pd.DataFrame) -> dict[str, Any]:
    mine = means.loc[name]
    row: dict[str, Any] = {"recommender": name, "clients": len(mine), "services": len(every)}
    row |= {**_interval("loss", mine["loss"]), "loss_se": standard_error(list(mine["loss"]))}
    row |= _interval("share", mine["share"])
    pairs = {"random": (mine["loss_random"], mine["random_share"])}
    if BESIDE in means.index.get_level_values("recommender"):
        pairs[BESIDE] = means.loc[BESIDE, "loss"], means.loc[BESIDE, "share"]
    for other, (loss, share) in pairs.items():
        row |= _interval(f"to_{other}", mine["loss"] - loss) | _interval(f"to_{other}_share", mine["share"] - share)
    row["loss_bound"] = finite(float(mine["loss_bound"].mean(skipna=False)))
    for shown, column in _SIZES.items():
        sizes = _spread(every[column].to_numpy(np.float64))
        row |= {f"{shown}_{which}": value for which, value in sizes.items()}
    return {**row, "peers_alive": float(mine["peers_alive"].mean()), "peers_kicked": int(every["peers_kicked"].sum())}


def _interval(name: str, values: pd.Series[float]) -> dict[str, float | None]:
    return named(mean_interval(list(values)), name)


_WORLD = {
    "rounds": "rounds T", "skipped": "rounds skipped", "voters": "voters N", "peers": "peers P",
    "diversity": "diversity D", "radius": "radius R", "loss_random": "", "radius_share": "R / T",
    "random_share": "random's loss / T",
}  # fmt: skip
"""What is measured of each client, and what it is called where it is shown."""


def _with_interval(heading: str, name: str, write: Callable[[Any], str]) -> tuple[tuple[str, Cell], ...]:
    return (heading, lambda row: write(row.get(name))), ("95 %", partial(interval_of, name=name, write=write))


_LOSSES = (
    *_with_interval("loss", "loss", number),
    *_with_interval("share", "share", percent),
    *_with_interval("less random", "to_random_share", percent),
    *_with_interval("less plurality", "to_plurality_share", percent),
)
_SIZE_COLUMNS: tuple[tuple[str, Cell], ...] = (
    ("bound (L)", "loss_bound"),
    ("epsilon", "epsilon_median"),
    ("least", "epsilon_least"),
    ("most", "epsilon_most"),
    ("run leaks", "privacy_loss_any_median"),
    ("most leaked", "privacy_loss_any_most"),
    ("kicked", lambda row: str(row["peers_kicked"])),
)
