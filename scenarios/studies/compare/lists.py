"""Lists of a comparison as other evaluators read them: what each row recommends whom, and what was held out."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from coordinator.protocol.arrays import Indices, Ints
from coordinator.protocol.budget import parse_epsilon
from scenarios.store.whole_files import write_tables
from scenarios.studies.compare.comparison_settings import COORDINATOR, Comparison
from scenarios.studies.compare.row import RowRequest
from scenarios.studies.compare.scoring import (
    CompareKey,
    evaluated_people,
    ranked_lists,
    rows_of,
    scores_of_lists,
)
from scenarios.studies.compare.worlds import table_of, world_of

LISTS, HOLDOUT = "lists.parquet", "holdout.parquet"


def write_lists(out: Path, settings: Comparison, keys: Iterable[CompareKey]) -> None:
    """Write the lists of rows, and the likes that were held out, into the folder ``lists`` of a comparison.

    Rows are learned again for it, one after the other, from the same coins: one row's lists are in memory at a time.
    """
    people = table_of(settings).users  # other numbers of people were measured for how many it takes alone
    named = [key for key in keys if key.trust_model != COORDINATOR and key.users % people == 0]
    folder = out / "lists"
    write_tables(folder / HOLDOUT, (_holdout(settings, seed) for seed in sorted({key.seed for key in named})))
    write_tables(folder / LISTS, (table for key in named for table in list_tables(settings, key)))


def list_tables(settings: Comparison, key: CompareKey) -> Iterator[pd.DataFrame]:
    """Yield a unit's lists, without public features, and with them where the row has any.

    Columns are the unit's, then ``user_id``, ``item_id``, ``rank`` from 1, and ``score``, by which the row ranks.
    """
    world, row = world_of(settings, key.seed), rows_of(settings)[f"{key.trust_model}: {key.mechanism}"]
    epsilon, public = parse_epsilon(key.epsilon) if key.epsilon else None, float(key.public or 0)
    for features in (False, True) if world.features is not None and row.featured else (False,):
        # coins go on from what was learned to the order of equal scores, so that each variant begins anew
        request = RowRequest(settings=settings, epsilon=epsilon, users=key.users, public=public, seed=key.seed)
        learned = row.advise(world, request)
        people = evaluated_people(world, learned, request)
        if features:
            ranked_lists(world, learned, request, people[:1], features=False)
        lists = ranked_lists(world, learned, request, people, features=features)
        scores = scores_of_lists(world, learned, people, lists, features=features)
        person, rank = np.nonzero(lists >= 0)
        columns = {
            **key._asdict(),
            "features": features,
            **_ids(settings, people[person], lists[person, rank]),
            "rank": rank + 1,
            "score": scores[person, rank],
        }
        yield pd.DataFrame(columns)


def _ids(settings: Comparison, people: Ints, items: Ints | Indices) -> dict[str, Any]:
    table = table_of(settings)
    return {"user_id": table.user_labels[people].astype(str), "item_id": table.item_labels[items].astype(str)}


def _holdout(settings: Comparison, seed: int) -> pd.DataFrame:
    world = world_of(settings, seed)
    holdout = world.fold.holdout.of(world.evaluated)
    people = np.repeat(world.evaluated, holdout.degrees)
    return pd.DataFrame({"seed": seed, **_ids(settings, people, holdout.items)})
