"""The sweep of adaptive rounds: users for all labels right, in one round and in several, over items."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from scenarios.given.config import MOST_USERS
from scenarios.given.validation import validated
from scenarios.sweep.adaptive_measure import Key, Measured, Unit, measure
from scenarios.sweep.adaptive_settings import GENEROUS, Comparison, check_comparison
from scenarios.sweep.adaptive_summary import rows_table, summarize
from scenarios.sweep.adaptive_tables import show
from scenarios.sweep.kind import Kind, Sweep
from scenarios.sweep.schemes import SCHEMES

HELP = """Compare how many users it takes to get all labels right: one round against adaptive rounds, over items N.

\b
  paper              MaxSense in one round, the paper's decoder
  centred            MaxSense in one round, the centred decoder
  sign               sign sensing in one round
  adaptive-maxsense  MaxSense, decided items leave the pool
  adaptive-sign      sign sensing, decided items leave the pool
  adaptive-vectors   the same, a device chooses among --vectors sign vectors

All at the same chance of success, --confidence. An adaptive run stops by itself: its users are those that it asked, a
mean over seeds with Student's interval, beside the share of seeds with all labels right. One round needs the users at
which all labels are right in that share of the seeds: for every seed bisection finds the population where it gets them
right, and the users are a quantile of these, with an interval of order statistics. A 95 % quantile has an upper end
from 72 seeds on; with fewer it is open. Beside it stands what exact moments say (planned). Ratios are to adaptive-sign.

With --statistic moments nobody answers: sign sensing's sums are drawn from their exact moments, so that hundreds of
seeds at thousands of items take minutes. MaxSense is planned only, then.

\b
  blindrec sweep adaptive --items 100,300,1000 --out compared
  blindrec sweep adaptive --items 300,1000,3000 --seeds 400 --statistic moments --out emulated

Every finished run (scheme, items, seed) is kept in the folder at once: Ctrl-C loses only what is under way, and the
same command goes on; with more --seeds, --items or --schemes it goes on, too. At the end the folder holds result.json,
units.parquet (every run), table.csv, users.png with users.csv (every point, lower bounds included), trajectory.png with
trajectory.csv (one adaptive run, round by round) and versions.json.
"""


@dataclass(frozen=True, slots=True)
class AdaptiveSweep(Sweep[Key, Unit, Measured]):
    """A comparison to be measured, or that was measured."""

    wanted: Comparison
    key, found, measure = Key, Measured, staticmethod(measure)
    rows, show = staticmethod(rows_table), staticmethod(show)

    def units(self, done: Mapping[Key, Measured]) -> dict[Key, Unit]:
        """Return every unit, seed by seed, so that an unfinished sweep tells something of all schemes."""
        wanted = self.wanted
        firsts = {(name, items): self._first(name, items) for items in wanted.items for name in wanted.measured}
        return {
            Key(name, items, seed): replace(
                first,
                scenario=first.scenario.model_copy(update={"seed": seed}),
                told=SCHEMES[name].adaptive and seed == 0,
            )
            for seed in range(wanted.seeds)
            for (name, items), first in firsts.items()
        }

    def _first(self, name: str, items: int) -> Unit:
        planned = self.wanted.planned(name, items)
        assert planned is not None  # checked before
        start = round(planned)
        scenario = self.wanted.scenario(name, items, users=min(round(GENEROUS * start), MOST_USERS))
        return Unit(scenario=scenario, statistic=self.wanted.statistic, start=start)

    def table(self, units: Mapping[Key, Measured]) -> pd.DataFrame:
        """Return every measured unit, one row each; ``users`` is NaN where the most users did not do."""
        table = Sweep.table(self, units).drop(columns="steps")
        return table.assign(users=table["users"].astype(float), right=table["right"].astype("boolean"))

    def result(self, units: Mapping[Key, Measured]) -> dict[str, Any]:
        """Return users of all schemes, their ratios and the bounds; see `summarize`."""
        return summarize(self.wanted, units)


def read(values: Mapping[str, Any]) -> AdaptiveSweep:
    """Check what is to be compared."""
    wanted = validated(Comparison, None, dict(values))
    check_comparison(wanted)
    return AdaptiveSweep(wanted)


ADAPTIVE = Kind(name="adaptive", help=HELP, fields=Comparison.model_fields, read=read)
