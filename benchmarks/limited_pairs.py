"""Which likes of a person two servers count, and how their pairs are read: people for 95 % of plain popularity.

``python -m benchmarks.limited_pairs ml-latest-small/ratings.csv --epsilon 1`` measures the row `two-servers: pairs with
EASE` of a comparison beside three others of the same noise: with 400 items; with 400 items and EASE of the pairs as
they are, whose ridge alone holds the noise down; and with that and a person's 20 likes drawn among all items, of which
those count that are among the 400, instead of 20 among the 400. Numbers of people are a quarter of a decade apart, and
interpolated between.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from benchmarks.worth import table
from coordinator.protocol.arrays import Floats2
from coordinator.protocol.budget import Epsilon, parse_epsilon
from coordinator.protocol.item_models import ItemToItem
from coordinator.server.decoding.pair_model import ease, item_to_item
from scenarios.config.files import brief
from scenarios.studies.compare.advisors import pair_advice, pair_design
from scenarios.studies.compare.comparison_settings import Comparison
from scenarios.studies.compare.row import LearnedScores, RowRequest
from scenarios.studies.compare.rows import registered_rows
from scenarios.studies.compare.rows.trusted import (
    contributors,
    counts_of,
    limited_likes,
    symmetric,
)
from scenarios.studies.compare.rows.two_servers import noises
from scenarios.studies.compare.scoring import score
from scenarios.studies.compare.worlds import FileWorld, world_of
from scenarios.studies.crossing import REACHED, bracket

QUARTER = 10**0.25


@dataclass(frozen=True)
class PairReading:
    """A way to count pairs, and to read them."""

    words: str
    top: int  # Items whose pairs are counted
    shrunk: bool = True  # Whether eigenvalues are shrunk by the noise, as of local pairs
    among_all: bool = False  # Whether a person's likes are drawn among all items, before those of the pool count

    def advise(self, world: FileWorld, request: RowRequest) -> LearnedScores:
        """Return what a device ranks by, from sums with both servers' noise."""
        settings, people = request.settings, contributors(world, request)
        likes = pair_design(settings, world.items).device_likes
        of_items, of_pairs = noises(world, request)
        whole = limited_likes(world, request, people, likes)
        counts = counts_of(whole)
        counts += of_items.draw(request.coins, counts.size)
        pool = np.sort(request.ranked(counts)[: self.top]).astype(np.int32)
        inside = whole[:, pool] if self.among_all else limited_likes(world, request, people, likes, pool)
        gram = (inside.T @ inside).toarray() + symmetric(of_pairs.draw(request.coins, (pool.size, pool.size)))
        model = self.model(pool, gram / request.users, of_pairs.deviation / request.users)
        return pair_advice(model, counts, request.coins.permutation(world.items), noise=of_items.deviation)

    def model(self, pool: np.ndarray, shares: Floats2, noise: float) -> ItemToItem:
        """Return the item-item model of noisy shares of pairs, whose diagonal are those of single items."""
        liked = np.diag(shares).copy()
        if self.shrunk:
            return item_to_item(pool, liked, shares, noise)
        return ItemToItem(pool=pool, liked=liked, weights=ease(shares))


READINGS = (
    PairReading("200 items, 20 likes among them, shrunk eigenvalues: the row", 200),
    PairReading("400 items", 400),
    PairReading("400 items, a ridge alone", 400, shrunk=False),
    PairReading("400 items, a ridge alone, 20 likes among all items", 400, shrunk=False, among_all=True),
)


def _ndcg(reading: PairReading, settings: Comparison, epsilon: Epsilon, users: int) -> float:
    values = []
    for seed in range(settings.seeds):
        request = RowRequest(settings=settings, epsilon=epsilon, users=users, seed=seed)
        world = world_of(settings, seed)
        values.append(score(world, reading.advise(world, request), request, features=False).ndcg)
    return float(np.mean(values))


def _plain(settings: Comparison) -> float:
    row, values = registered_rows()["none: popularity"], []
    for seed in range(settings.seeds):
        world = world_of(settings, seed)
        request = RowRequest(settings=settings, epsilon=None, users=world.people, seed=seed)
        values.append(score(world, row.advise(world, request), request, features=False).ndcg)
    return float(np.mean(values))


def people_for(curve: dict[int, float], height: float) -> int | None:
    """Return the number of people at which a curve reaches a height, interpolated on their logarithm.

    >>> people_for({100: 0.0, 10_000: 1.0}, 0.5), people_for({100: 0.0}, 0.5)
    (1000, None)
    """
    few, many = bracket(curve, height)
    if few is None or many is None:
        return many
    along = (height - curve[few]) / (curve[many] - curve[few])
    return round(few * math.pow(many / few, along))


def measured(settings: Comparison, epsilons: Sequence[Epsilon], grid: list[int]) -> Iterator[list[str]]:
    """Yield a line for each reading and epsilon: NDCG at numbers of people, and how many are needed."""
    height = REACHED * _plain(settings)
    for reading in READINGS:
        for epsilon in epsilons:
            curve = {users: _ndcg(reading, settings, epsilon, users) for users in grid}
            needed = people_for(curve, height)
            worth = (f"{curve[users]:.3f}".lstrip("0") for users in grid)
            yield [reading.words, str(epsilon), *worth, "more" if needed is None else f"{needed:,}"]


def main(
    ratings: Annotated[Path, typer.Argument(help="MovieLens latest-small's ratings.")],
    epsilon: Annotated[str, typer.Option(help="Epsilons, by ','.")] = "0.5,1,2,4",
    first: Annotated[int, typer.Option(help="Smallest number of people.")] = 1929,
    places: Annotated[int, typer.Option(help="Numbers of people, a quarter of a decade apart.")] = 8,
) -> None:
    """Print the table."""
    settings = Comparison(ratings=ratings, like_from=4, devices=0, seeds=5)
    grid = [round(first * QUARTER**place) for place in range(places)]
    epsilons = [parse_epsilon(part) for part in epsilon.split(",")]
    lines = list(measured(settings, epsilons, grid))
    print(f"{brief(ratings.name)}: NDCG by people, and people for {REACHED:.0%} of plain popularity")
    print(table(["two servers' pairs", "epsilon", *(f"{users:,}" for users in grid), "people"], lines))


if __name__ == "__main__":
    typer.run(main)
