"""Lists by pairs that two servers add up: devices' real shares beside the law that a comparison draws sums from.

``python -m benchmarks.pair_totals ml-latest-small/ratings.csv --epsilon 1,4 --scale 10,33`` lets devices answer both
rounds of design `pair-totals`, splits and persons as in `blindrec compare`, and scores lists as that does, beside its
row `two-servers: pairs with EASE` with the same settings. Intervals are of splits, t with one less than these.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from scipy.stats import t

from benchmarks.worth import table
from coordinator.protocol.arrays import Floats
from scenarios.config.files import brief
from scenarios.studies.compare.advisors import pair_constants
from scenarios.studies.compare.comparison_settings import Comparison
from scenarios.studies.compare.row import Row, RowRequest
from scenarios.studies.compare.rows import registered_rows
from scenarios.studies.compare.rows.local import LocalRow
from scenarios.studies.compare.scoring import score
from scenarios.studies.compare.worlds import world_of

DEVICES = LocalRow("pairs of devices", "pair-totals", None, pair_constants, trust_model="two-servers")
COLUMNS = ("people", "epsilon", "devices answer", "the law", "devices less law")


def _ndcg(row: Row, settings: Comparison, request: RowRequest) -> float:
    world = world_of(settings, request.seed)
    return score(world, row.advise(world, request), request, features=False).ndcg


def _interval(values: Floats) -> str:
    reach = float(t.ppf(0.975, values.size - 1) * values.std(ddof=1) / np.sqrt(values.size))
    return f"{values.mean():.4f} ± {reach:.4f}"


def _rows(settings: Comparison) -> Sequence[tuple[str, ...]]:
    law, rows, people = registered_rows()["two-servers: pairs with EASE"], [], world_of(settings, 0).people
    for users in (people * scale for scale in settings.scale):
        for epsilon in settings.epsilon:
            requests = [
                RowRequest(settings=settings, epsilon=epsilon, users=users, seed=seed)
                for seed in range(settings.seed, settings.seed + settings.seeds)
            ]
            devices, sampled = (np.array([_ndcg(row, settings, one) for one in requests]) for row in (DEVICES, law))
            cells = (_interval(devices), _interval(sampled), _interval(devices - sampled))
            rows.append((f"{users:,}", "inf" if epsilon is None else f"{float(epsilon):g}", *cells))
            print("|", " | ".join(rows[-1]), "|", flush=True)
    return rows


def main(
    ratings: Path,
    epsilon: Annotated[str, typer.Option(help="Privacy in nats, by ','.")] = "1,4",
    scale: Annotated[str, typer.Option(help="People, as multiples of the file's, by ','.")] = "10,33",
    like_from: float = 4,
    seeds: Annotated[int, typer.Option(min=5, help="Splits, each with its own coins.")] = 5,
) -> None:
    """Print the table."""
    values = {"ratings": ratings, "like_from": like_from, "epsilon": epsilon, "scale": scale, "seeds": seeds}
    settings = Comparison.model_validate(values)
    print(f"{brief(str(ratings))}: NDCG at 10, {settings.seeds} splits, w 20, M {settings.top}")
    print(table(COLUMNS, _rows(settings)))


if __name__ == "__main__":
    typer.run(main)
