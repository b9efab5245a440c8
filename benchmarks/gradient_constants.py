"""Constants of published rivals, chosen on a made file: ``python -m benchmarks.gradient_constants NAME``.

NAME is the name of such a row. For each number of rounds, step and bound it prints NDCG at epsilon 4 with
100,000, a million and a hundred million people and the mean of these, by which one is chosen, over three splits of a
file of `benchmarks.made_file`; no real file is read.
"""

from dataclasses import replace
from fractions import Fraction
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import numpy as np
import typer

from benchmarks.made_file import made
from scenarios.studies.compare.comparison_settings import Comparison
from scenarios.studies.compare.row import Row, RowRequest
from scenarios.studies.compare.rows import registered_rows
from scenarios.studies.compare.rows.private_gradients import GradientRow
from scenarios.studies.compare.scoring import score
from scenarios.studies.compare.worlds import world_of

PEOPLE, ITEMS, SEED = 600, 400, 39
ROUNDS, STEPS, BOUNDS = (1, 2, 4), (0.03, 0.1, 0.3), (1.0, 3.0, 10.0)
SEEDS = 3
USERS, EPSILON = (100_000, 1_000_000, 100_000_000), Fraction(4)


def main(name: Annotated[str, typer.Argument()]) -> None:
    """Print NDCG of each choice, and of popularity and set."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "made.csv"
        made(users=PEOPLE, items=ITEMS, seed=SEED)[0].to_csv(path, index=False)
        settings = Comparison(
            ratings=path, columns=("customer", "product", "stars"), duplicates="last", like_from=4, devices=0
        )
        rows = registered_rows()

        def line(label: str, row: Row) -> None:
            worth = np.zeros(len(USERS))
            for seed, (place, users) in product(range(SEEDS), enumerate(USERS)):
                world = world_of(settings, seed)
                request = RowRequest(settings=settings, epsilon=EPSILON, users=users, seed=seed)
                worth[place] += score(world, row.advise(world, request), request, features=False).ndcg / SEEDS
            print(label, *(f"{one:.4f}" for one in (*worth, worth.mean())), flush=True)

        for other in ("none: chance", "none: popularity", "local: set"):
            line(other, rows[other])
        row = rows[f"local: {name}"]
        assert isinstance(row, GradientRow)  # the two that are named above
        for rounds, step, bound in product(ROUNDS, STEPS, BOUNDS):
            line(f"{rounds} {step} {bound}", replace(row, rounds=rounds, step=step, bound=bound))


if __name__ == "__main__":
    typer.run(main)
