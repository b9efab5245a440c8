"""Whether an answer's intervals hold: files of a few of a file's people, each compared with the whole file.

``python -m benchmarks.forecasts FILE [--people N] [--files N] [--epsilon E] [--like-from L]``. An answer tells how many
people like a file's a list takes for 95 % of plain popularity; see `scenarios.studies.plan_of_file`.
"""

import math
import tempfile
from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
import typer

from scenarios.backends.selection import InProcess, opened
from scenarios.data.datasets import RatingTable, read_ratings
from scenarios.show.tables import short
from scenarios.studies.compare import rungs
from scenarios.studies.plan_of_file import describe_file

WHOLE = 12  # Splits of the whole file, whose number stands for the true one
LEVELS = {"95 %": 1.0, "75 %": 1.150 / 1.960}
"""How far intervals of a level reach, of that of 95 % on the logarithm of people."""


def written(table: RatingTable, people: np.ndarray, path: Path) -> Path:
    """Write the ratings of some people as a file of their own."""
    some = table.of(people)
    columns = {"user": some.owners, "item": table.item_labels[some.items], "rating": some.values}
    pd.DataFrame(columns).to_csv(path, index=False)
    return path


Reach = tuple[float, float | None, float | None]


def people_for(file: Path, like_from: float | None, epsilon: str, seeds: int = 3) -> dict[str, Reach]:
    """Return the people that each rung takes for 95 %, with their interval, where the number is located."""
    settings = {"ratings": file, "like_from": like_from, "epsilon": epsilon, "seeds": seeds}
    _, _, record = describe_file(settings, partial(opened, InProcess()), block_model=False)
    every = record["answer"]["by_epsilon"][0]["rungs"] if record["answer"] else []
    needed = {rung["key"]: rung["needed"] for rung in every if rung["needed"] and rung["needed"]["value"]}
    return {key: (number["value"], number["low"], number["high"]) for key, number in needed.items()}


def in_words(reach: Reach) -> str:
    """Return a number of people with its interval."""
    return f"{short(reach[0])} [{', '.join('' if end is None else short(end) for end in reach[1:])}]"


def main(
    file: Annotated[Path, typer.Argument(help="A file of ratings.")],
    people: Annotated[int, typer.Option(help="People of each small file.")] = 600,
    files: Annotated[int, typer.Option(help="Small files.")] = 15,
    epsilon: Annotated[str, typer.Option(help="Privacy of every device [nats].")] = "1",
    like_from: Annotated[float | None, typer.Option(help="A rating from which on an item is liked.")] = None,
) -> None:
    """Print the whole file's numbers, each small file's, and how many intervals hold."""
    rungs.FEWEST = 0  # What is said of fewer people is measured here
    table, hits = read_ratings(file), dict[tuple[str, str], list[bool]]()
    whole = people_for(file, like_from, epsilon, WHOLE)
    print("whole file:", {name: in_words(reach) for name, reach in whole.items()}, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for number in range(files):
            some = np.random.default_rng(number).choice(table.users, people, replace=False)
            reaches = people_for(written(table, some, Path(folder) / f"{number}.csv"), like_from, epsilon)
            for name, (middle, low, high) in reaches.items():
                for level, share in LEVELS.items() if name in whole else ():
                    least = 0.0 if low is None else middle * (low / middle) ** share
                    most = math.inf if high is None else middle * (high / middle) ** share
                    hits.setdefault((name, level), []).append(least <= whole[name][0] <= most)
            print(f"{number}:", {name: in_words(reach) for name, reach in reaches.items()}, flush=True)
    for (name, level), covers in hits.items():
        print(f"{name}: {sum(covers)} of {len(covers)} intervals of {level} hold the whole file's number")


if __name__ == "__main__":
    typer.run(main)
