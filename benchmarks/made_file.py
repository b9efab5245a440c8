"""A file of ratings as people have them, made up: clusters of taste, text for ids, half stars, ISO times, repeats.

``python -m benchmarks.made_file OUT.csv [--features KINDS.csv] [--users N] [--items N] [--seed S]``. `blindrec compare`
is timed on it; what recommendations are worth there says nothing about people.
"""

from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
import typer

from coordinator.protocol.arrays import Floats, Ints

CLUSTERS = 20
EACH, SPREAD = 36.0, 0.8
"""Ratings of a person before repeats are merged, in the mean, and their spread on the logarithm's scale."""
OWN, AGAIN = 0.6, 0.1
"""Share of a person's ratings that are of its two favourite clusters, and of all ratings that are given again."""
KEEN = 1.2  # Stars that a favourite cluster's items have more
BEGIN, YEARS = 1_577_836_800, 5


def made(*, users: int, items: int, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return ratings, in the order of their times, and public features of items.

    People have two favourite clusters of items, whose items they rate more often and higher; within a cluster items
    are rated as often as 1 over their rank to the power 0.8. Columns are customer, product, stars (0.5 to 5) and
    when, and of features product and kind: its cluster, or another one of every fifth.
    """
    coins = np.random.default_rng(seed)
    cluster = coins.permutation(np.arange(items) % CLUSTERS)
    owners, choices, liked = _choices(users, cluster, coins)
    stars = 3.1 + KEEN * liked + coins.normal(0, 0.5, items)[choices] + coins.normal(0, 0.8, choices.size)
    again = coins.random(choices.size) < AGAIN
    stars = np.concatenate([stars, stars[again] + coins.normal(0, 0.7, int(again.sum()))])
    seconds = coins.integers(0, YEARS * 365 * 86_400, choices.size)
    seconds = np.concatenate([seconds, seconds[again] + coins.integers(1, 86_400, int(again.sum()))])
    people, things = _names("customer", users), _names("product", items)
    ratings = pd.DataFrame(
        {
            "customer": people[np.concatenate([owners, owners[again]])],
            "product": things[np.concatenate([choices, choices[again]])],
            "stars": np.clip(np.round(2 * stars) / 2, 0.5, 5),
            "when": pd.to_datetime(BEGIN + seconds, unit="s").strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
    )
    kinds = np.where(coins.random(items) < 0.2, coins.integers(0, CLUSTERS, items), cluster)
    ordered = ratings.iloc[np.argsort(seconds, kind="stable")]
    return ordered, pd.DataFrame({"product": things, "kind": _names("kind", CLUSTERS)[kinds]})


def _choices(users: int, cluster: Ints, coins: np.random.Generator) -> tuple[Ints, Ints, Floats]:
    """Return who rates what, each pair once, and 1 where the item is of a favourite cluster, else 0."""
    sizes = np.maximum(3, coins.lognormal(np.log(EACH) - SPREAD**2 / 2, SPREAD, users)).astype(np.int64)
    owners = np.repeat(np.arange(users), sizes)
    favourites = coins.integers(0, CLUSTERS, (users, 2))
    own = favourites[owners, coins.integers(0, 2, owners.size)]
    clusters = np.where(coins.random(owners.size) < OWN, own, coins.integers(0, CLUSTERS, owners.size))
    choices = np.empty(owners.size, np.int64)
    for one in range(CLUSTERS):
        inside, here = np.flatnonzero(cluster == one), clusters == one
        weight = 1 / np.arange(1, inside.size + 1) ** 0.8
        choices[here] = coins.choice(inside, int(here.sum()), p=weight / weight.sum())
    owners, choices = np.divmod(np.unique(owners * cluster.size + choices), cluster.size)
    return owners, choices, (favourites[owners] == cluster[choices][:, None]).any(axis=1).astype(np.float64)


def _names(kind: str, many: int) -> np.ndarray[tuple[int], np.dtype[np.object_]]:
    return np.array([f"{kind}-{place:05d}" for place in range(many)], dtype=object)


def main(
    out: Annotated[Path, typer.Argument(help="CSV of customer, product, stars and when.")],
    features: Annotated[Path | None, typer.Option(help="CSV of product and kind, public features of items.")] = None,
    users: Annotated[int, typer.Option(help="People.")] = 50_000,
    items: Annotated[int, typer.Option(help="Items.")] = 5_000,
    seed: Annotated[int, typer.Option(help="The same seed makes the same file.")] = 0,
) -> None:
    """Write the file, and features of items beside it."""
    ratings, kinds = made(users=users, items=items, seed=seed)
    ratings.to_csv(out, index=False)
    if features is not None:
        kinds.to_csv(features, index=False)
    print(f"{len(ratings):,} ratings of {items:,} items by {users:,} people in {out}")


if __name__ == "__main__":
    typer.run(main)
