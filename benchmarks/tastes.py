"""How near directions of taste, learned from signs of pairs, come to the noise-free ones, and what they are worth.

``python -m benchmarks.tastes FILE [--users N,...] [--epsilon E,...] [--like-from L] [--seed S] [--devices N]``. Rates
of single items are public, and all devices are asked about pairs; with ``--private`` devices tell the rates, too.
Printed are the cosine of the first direction with that of the mechanism's own noise-free limit, how far the first three
span the limit's first three (mean squared cosine), the share of the items that were asked about on which both first
directions have one sign, and NDCG at 10: of plain popularity, of rates that devices weigh by how many items they rated,
and of directions beside these.
"""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from coordinator.protocol.arrays import Floats2, Indices
from coordinator.protocol.budget import Epsilon, parse_epsilon
from coordinator.protocol.errors import InputError
from coordinator.protocol.messages import Model
from scenarios.studies.compare.comparison_settings import Comparison
from scenarios.studies.compare.row import RowRequest
from scenarios.studies.compare.rows import registered_rows
from scenarios.studies.compare.rows.local import Directions, limit_of
from scenarios.studies.compare.rows.trusted import popularity
from scenarios.studies.compare.scoring import score
from scenarios.studies.compare.worlds import world_of

TOP = 3  # Directions that are compared with each other


def likeness(one: Floats2, other: Floats2) -> float:
    """Return the mean squared cosine of the angles between two subspaces of one dimension, from 0 to 1.

    Shapes: ``one``, ``other`` (M, j).
    """
    return float(np.square(one.T @ other).sum() / max(other.shape[1], 1))


def in_catalogue(pool: Indices, vectors: Floats2, items: int) -> Floats2:
    """Return vectors of a pool's items as vectors of all items, shape (N, k)."""
    padded = np.zeros((items, vectors.shape[1]))
    padded[pool] = vectors
    return padded


def likenesses(directions: Floats2, limit: Floats2) -> tuple[float, float, float]:
    """Return cosine of the first directions, likeness of the first three, and how far signs of the first agree.

    Parameters
    ----------
    directions : ndarray of float64, shape (N, k)
        Learned directions, orthogonal; there may be none.
    limit : ndarray of float64, shape (N, j)
        Orthonormal directions without noise, at least one.
    """
    if not directions.shape[1]:
        return 0.0, 0.0, 0.0
    directions = directions / np.linalg.norm(directions, axis=0)
    first, first_limit = directions[:, 0], limit[:, 0]
    cosine = float(first @ first_limit)
    same = (np.sign(first) == np.sign(cosine) * np.sign(first_limit))[first_limit != 0]
    return abs(cosine), likeness(directions[:, :TOP], limit[:, :TOP]), float(same.mean())


def measure(comparison: Comparison, row: Directions, epsilon: Epsilon, users: int) -> dict[str, float]:
    """Return how near the directions come that so many devices let the server learn, and what they are worth."""
    world = world_of(comparison, comparison.seed)
    pool, limit = limit_of(comparison, comparison.seed)

    def request() -> RowRequest:
        return RowRequest(settings=comparison, epsilon=epsilon, users=users, public=0, seed=comparison.seed)

    def worth(model: Model) -> float:
        return score(world, row.ranking_of(world, request(), model), request(), features=False).ndcg

    model = row.learn(world, request())
    assert model.tastes is not None  # perhaps without any direction
    first, three, same = likenesses(model.tastes.vectors, in_catalogue(pool, limit.vectors, world.items))
    without = replace(model, tastes=replace(model.tastes, vectors=np.zeros((world.items, 0))))
    plain = score(world, popularity(world), request(), features=False).ndcg
    names = ("directions", "cosine", "of three", "signs", "popularity", "rates", "with directions")
    figures = (model.tastes.vectors.shape[1], first, three, same, plain, worth(without), worth(model))
    return dict(zip(names, figures, strict=True))


def main(
    file: Annotated[Path, typer.Argument(help="A file of ratings.")],
    users: Annotated[str, typer.Option(help="Devices, drawn from the file with replacement, by ','.")] = "2000000",
    epsilon: Annotated[str, typer.Option(help="Privacy of every device in nats, by ','.")] = "1",
    like_from: Annotated[float | None, typer.Option(help="A rating from which on an item is liked.")] = None,
    seed: Annotated[int, typer.Option(help="Of the split and all coins.")] = 0,
    devices: Annotated[
        int, typer.Option(min=0, help="Up to so many devices answer; of more the sum is drawn.")
    ] = 1_000_000,
    paired: Annotated[int, typer.Option(help="Items whose pairs are asked about.")] = 70,
    *,
    private: Annotated[bool, typer.Option(help="Let devices tell the rates of items, too.")] = False,
) -> None:
    """Print a line for each number of devices and epsilon, and where directions begin to stand out."""
    epsilons = tuple(map(parse_epsilon, epsilon.split(",")))
    comparison = Comparison(
        ratings=file, like_from=like_from, seed=seed, devices=devices, epsilon=epsilons, paired=paired
    )
    row = registered_rows()["local: directions" if private else "public-rates: directions"]
    assert isinstance(row, Directions)  # by its name
    print(*row.remarks(comparison), sep="\n", flush=True)
    for spent in epsilons:
        for count in map(int, users.split(",")):
            figures = measure(comparison, row, spent, count)
            print(
                f"epsilon {spent}, {count:,}:",
                ", ".join(f"{name} {value:.4g}" for name, value in figures.items()),
                flush=True,
            )


if __name__ == "__main__":
    try:
        typer.run(main)
    except (InputError, OSError) as error:
        sys.exit(f"tastes: {error}")
