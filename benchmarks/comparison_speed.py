"""How long `blindrec compare` takes of all trust models, and how much memory, on made files of three sizes.

``python -m benchmarks.comparison_speed [--file NAME] [--seeds N] [--folder DIR]``. Processor time is that of all
processes, and counts on a busy machine; the clock does on an idle one. Kernels that are not compiled yet add to both.
Many images set PYTHONDONTWRITEBYTECODE, with which each process compiles pandas and others anew: here it is left out.
"""

import os
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
import typer

from benchmarks.watching import took

FILES = {"c": (6_040, 3_706, 1_000_000), "a": (30_000, 2_000, 1_200_000), "b": (50_000, 5_000, 2_000_000)}
TASTES, KEEN = 12, 4.0  # Clusters of people and of items, and how much more often people rate those of their own
MODELS = "none,curator,two-servers,shuffled,two-tier,local"


def made(people: int, items: int, ratings: int) -> pd.DataFrame:
    """Return ratings from 1 to 5 of people with tastes, of items whose popularity falls by a power law."""
    coins = np.random.default_rng(0)
    popularity, item_taste = np.arange(1, items + 1) ** -0.7, coins.integers(TASTES, size=items)
    taste, degrees = coins.integers(TASTES, size=people), coins.lognormal(0, 0.8, people)
    degrees = np.clip(np.rint(degrees * ratings / degrees.sum()), 5, items // 3).astype(int)
    owners, rated = [], []
    for cluster in range(TASTES):
        weights = np.cumsum(popularity * np.where(item_taste == cluster, KEEN, 1.0))
        for person in np.flatnonzero(taste == cluster):
            items_of = np.unique(np.searchsorted(weights, weights[-1] * coins.random(int(1.25 * degrees[person]) + 2)))
            rated.append(coins.permutation(items_of)[: degrees[person]])
            owners.append(np.full(rated[-1].size, person))
    owner, item = np.concatenate(owners), np.concatenate(rated)
    quality = coins.normal(3.4, 0.5, items)[item] + 0.6 * (item_taste[item] == taste[owner])
    stars = np.clip(np.rint(quality + coins.normal(0, 1, item.size)), 1, 5).astype(int)
    return pd.DataFrame({"userId": owner, "movieId": item, "rating": stars}).iloc[coins.permutation(item.size)]


def main(
    file: Annotated[str, typer.Option(help="Some of the files c, a, b.")] = "c,a,b",
    seeds: Annotated[int, typer.Option(help="Splits of each.")] = 3,
    folder: Annotated[Path | None, typer.Option(help="Where made files are, or go [a temporary folder].")] = None,
) -> None:
    """Make the files, and time the command on each."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryDirectory() as temporary:
        for name in file.split(","):
            path = (folder or Path(temporary)) / f"{name}.csv"
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.exists():
                made(*FILES[name]).to_csv(path, index=False)
            flags = ["--trust-models", MODELS, "--epsilon", "1,4", "--scale", "1,10,100", "--like-from", "4"]
            flags += ["--mechanisms", "all", "--public", "0.01,0.05,0.2", "--worth", "0.95", "--of", "popularity"]
            command = [sys.executable, "-m", "blindrec", "compare", str(path), *flags, "--seeds", str(seeds)]
            clock, seen = took(command, environment=environment, memory=True)
            print(f"{name}: {clock:,.0f} s by the clock, {seen.processor:,.0f} s of processor time,", end=" ")
            print(f"{seen.proportional / 1e6:,.0f} MB", os.getloadavg())


if __name__ == "__main__":
    typer.run(main)
