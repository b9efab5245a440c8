"""How near directions of taste, told by signs of pairs, come to what they would be without noise, and what they give.

``python -m benchmarks.tastes FILE [--users N,...] [--epsilon E,...] [--like-from L] [--seed S] [--devices N]``. Rates
of single items are public, and all devices are asked about pairs; with ``--private`` devices tell the rates, too.
Printed are the cosine of the first direction with that of the mechanism's own noise-free limit, how far the first three
span the limit's first three (mean squared cosine), the share of the items that were asked about on which both first
directions have one sign, and NDCG at 10: of plain popularity, of rates that devices weigh by how many items they rated,
and of directions beside these.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from coordinator.protocol.arrays import Floats2
from coordinator.protocol.budget import Epsilon, parse_epsilon
from coordinator.protocol.errors import InputError
from coordinator.protocol.messages import Model
from coordinator.server.decoding.pair_model import likeness
from scenarios.compare.row import RowRequest
from scenarios.compare.rows import registered_rows
from scenarios.compare.rows.local import Directions, in_catalogue, limit_of
from scenarios.compare.rows.trusted import Popularity
from scenarios.compare.scoring import score
from scenarios.compare.settings import Comparison
from scenarios.compare.worlds import world_of

TOP = 3
"""Directions that are held against each other."""


def likenesses(told: Floats2, limit: Floats2) -> tuple[float, float, float]:
    """Return cosine of the first directions, likeness of the first three, and how far signs of the first agree.

    Parameters
    ----------
    told : ndarray of float64, shape (N, k)
        Directions that were told, orthogonal; there may be none.
    limit : ndarray of float64, shape (N, j)
        Orthonormal directions without noise, at least one.
    """
    if not told.shape[1]:
        return 0.0, 0.0, 0.0
    told = told / np.linalg.norm(told, axis=0)
    one, other = told[:, 0], limit[:, 0]
    cosine = float(one @ other)
    same = (np.sign(one) == np.sign(cosine) * np.sign(other))[other != 0]
    return abs(cosine), likeness(told[:, :TOP], limit[:, :TOP]), float(same.mean())


def measure(wanted: Comparison, row: Directions, epsilon: Epsilon, users: int) -> dict[str, float]:
    """Return what so many devices tell, and what it is worth."""
    world = world_of(wanted, wanted.seed)
    pool, limit = limit_of(wanted, wanted.seed)

    def asked() -> RowRequest:
        return RowRequest(settings=wanted, epsilon=epsilon, users=users, public=0, seed=wanted.seed)

    def worth(model: Model) -> float:
        return score(world, row.ranking_of(world, asked(), model), asked(), features=False).ndcg

    model = row.learn(world, asked())
    assert model.tastes is not None  # perhaps without any direction
    first, three, same = likenesses(model.tastes.vectors, in_catalogue(pool, limit.vectors, world.items))
    without = replace(model, tastes=replace(model.tastes, vectors=np.zeros((world.items, 0))))
    plain = score(world, Popularity().advise(world, asked()), asked(), features=False).ndcg
    names = ("directions", "cosine", "of three", "signs", "popularity", "rates", "with directions")
    told = (model.tastes.vectors.shape[1], first, three, same, plain, worth(without), worth(model))
    return dict(zip(names, told, strict=True))


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
    asked = tuple(map(parse_epsilon, epsilon.split(",")))
    wanted = Comparison(ratings=file, like_from=like_from, seed=seed, devices=devices, epsilon=asked, paired=paired)
    row = registered_rows()["local: directions" if private else "public-rates: directions"]
    assert isinstance(row, Directions)  # by its name
    print(*row.remarks(wanted), sep="\n", flush=True)
    for spent in asked:
        for many in map(int, users.split(",")):
            told = measure(wanted, row, spent, many)
            print(
                f"epsilon {spent}, {many:,}:", ", ".join(f"{name} {one:.4g}" for name, one in told.items()), flush=True
            )


if __name__ == "__main__":
    try:
        typer.run(main)
    except (InputError, OSError) as error:
        sys.exit(f"tastes: {error}")
