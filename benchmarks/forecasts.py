"""Whether a forecast's interval holds: files of a few of a file's people, each compared with the whole file.

``python -m benchmarks.forecasts FILE [--people N] [--files N] [--epsilon E] [--like-from L]``. A forecast tells how
many people like a file's private advice takes for 95 % of plain popularity; see
`scenarios.studies.compare.people_needed`.
"""

import tempfile
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
import typer

from coordinator.protocol.budget import Epsilon, parse_epsilon
from scenarios.data.datasets import RatingTable, read_ratings
from scenarios.show.tables import short
from scenarios.studies.compare import people_needed
from scenarios.studies.compare.comparison_settings import Comparison

LEVELS = {"95 %": 1.0, "75 %": 1.150 / 1.960}
"""How far intervals of a level reach, of that of 95 % on the logarithm of people."""


def written(table: RatingTable, people: np.ndarray, path: Path) -> Path:
    """Write the ratings of some people as a file of their own."""
    some = table.of(people)
    columns = {"user": some.owners, "item": table.item_labels[some.items], "rating": some.values}
    pd.DataFrame(columns).to_csv(path, index=False)
    return path


def forecast_of(file: Path, like_from: float | None, epsilon: Epsilon) -> dict[str, tuple[float, float, float]]:
    """Return the people for 95 %, with their interval, by mechanism."""
    settings = Comparison(ratings=file, like_from=like_from, seeds=people_needed.SPLITS)
    made = people_needed.forecast_of(settings, epsilons=(epsilon,))
    return {row.mechanism: row.needed for row in made.rows if row.needed is not None}


def main(
    file: Annotated[Path, typer.Argument(help="A file of ratings.")],
    people: Annotated[int, typer.Option(help="People of each small file.")] = 600,
    files: Annotated[int, typer.Option(help="Small files.")] = 15,
    epsilon: Annotated[str, typer.Option(help="Privacy of every device [nats].")] = "1",
    like_from: Annotated[float | None, typer.Option(help="A rating from which on an item is liked.")] = None,
) -> None:
    """Print the whole file's numbers, each small file's, and how many intervals hold."""
    people_needed.FEWEST = 0  # What is forecast of fewer people is measured here
    spent, table, hits = parse_epsilon(epsilon), read_ratings(file), dict[tuple[str, str], list[bool]]()
    whole = forecast_of(file, like_from, spent)
    print("whole file:", {name: [short(one) for one in reach] for name, reach in whole.items()}, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for number in range(files):
            some = np.random.default_rng(number).choice(table.users, people, replace=False)
            reaches = forecast_of(written(table, some, Path(folder) / f"{number}.csv"), like_from, spent)
            for name, (middle, low, high) in reaches.items():
                for level, share in LEVELS.items():
                    ends = (middle * (end / middle) ** share for end in (low, high))
                    covers = hits.setdefault((name, level), [])
                    covers.append(next(ends) <= whole[name][0] <= next(ends))
            print(f"{number}:", {name: [short(one) for one in reach] for name, reach in reaches.items()}, flush=True)
    for (name, level), covers in hits.items():
        print(f"{name}: {sum(covers)} of {len(covers)} intervals of {level} hold the whole file's number")


if __name__ == "__main__":
    typer.run(main)
