"""The sweep over users: how many it takes in every setting of a grid, for every decoder and criterion."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from scenarios.sweep.curves import curves
from scenarios.sweep.grid import Grid, GridFile, read_grid
from scenarios.sweep.kind import Kind, Sweep
from scenarios.sweep.planned import add_plans, probes_of
from scenarios.sweep.summary import settings_table, summarize, thresholds
from scenarios.sweep.tables import show
from scenarios.sweep.threshold import Key, Measured, Unit, guess, measure

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
class UsersSweep(Sweep[Key, Unit, Measured]):
    """A grid to be measured, or that was measured."""

    wanted: Grid
    key, found, measure = Key, Measured, staticmethod(measure)
    rows, show, tables = staticmethod(settings_table), staticmethod(show), ("thresholds.parquet", "settings.csv")

    def units(self, done: Mapping[Key, Measured]) -> dict[Key, Unit]:
        """Return every unit, seed by seed, so that an unfinished sweep tells something of all settings."""
        grid = self.wanted
        starts = [guess(one.model_copy(update={"decoder": grid.decoders_of(one)[0]})) for one in grid.settings]
        probes = [probes_of(grid, one) for one in grid.settings]
        return {
            Key(place, setting.seed + turn): Unit(
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

    def table(self, units: Mapping[Key, Measured]) -> pd.DataFrame:
        """Return the threshold of every setting, seed, decoder and criterion."""
        return thresholds(self.wanted, units)

    def result(self, units: Mapping[Key, Measured]) -> dict[str, Any]:
        """Return U* of every setting, exponents and ratios, with what the planner says of them."""
        found = summarize(self.wanted, self.table(units))
        add_plans(found, self.wanted, units)
        return found

    def drawn(self, units: Mapping[Key, Measured], result: Mapping[str, Any]) -> dict[str, pd.DataFrame]:
        """Return the points of U* against what varies."""
        return {"figure": curves(self.wanted, result["settings"])}


def read(values: Mapping[str, Any]) -> UsersSweep:
    """Check a grid's values, and expand its settings."""
    return UsersSweep(read_grid(dict(values)))


USERS = Kind(name="users", help=HELP, fields=GridFile.model_fields, read=read)
