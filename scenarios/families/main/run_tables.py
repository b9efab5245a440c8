"""The tables of a run's folder: what was learned of every item, what was asked in every round, and devices' lists."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from coordinator.protocol.budget import as_json
from scenarios.data.populations import liked_share
from scenarios.families.main.run import MainResult
from scenarios.families.main.score import ranked, ranks

if TYPE_CHECKING:
    import pandas as pd


LISTED = 1000  # Devices whose lists are written


def items_table(run: MainResult) -> pd.DataFrame:
    """Return the learned items: item, score, standard_error, cluster; public, as devices receive it.

    Where the server knows how sure it is, ``doubt`` is the probability that the cluster is another one, and ``decided``
    tells which items are decided at the scenario's confidence. Where scores are a list by popularity, ``rank`` is an
    item's place in it, and ``popularity``, which only the experimenter knows, the true share of devices that like it.
    """
    import pandas as pd  # noqa: PLC0415 (only where a folder is written)

    model, posterior = run.outcome.model, run.outcome.posterior
    table = pd.DataFrame(
        {
            "item": run.population.item_labels.astype(str),
            "score": model.score,
            "standard_error": model.error,
            "cluster": model.cluster,
        }
    )
    if posterior is not None:
        table["doubt"], table["decided"] = posterior.doubt, posterior.decided(1 - run.scenario.confidence)
    if run.population.descriptions is not None and run.population.descriptions.titles is not None:
        table.insert(1, "title", run.population.descriptions.titles.astype(str))
    if ranked(run.scenario):
        table["rank"], table["popularity"] = ranks(model.score), liked_share(run.population)
    return table


def rounds_table(run: MainResult) -> pd.DataFrame:
    """Return the rounds, in order: what was asked, of which devices, and how many answered."""
    import pandas as pd  # noqa: PLC0415 (only where a folder is written)

    state = run.outcome.state
    rows = [
        {
            "round": ask.query.round,
            "design": ask.query.design,
            "epsilon": as_json(ask.query.epsilon),
            "pool": ask.query.items if ask.query.pool is None else ask.query.pool.size,
            "first_device": ask.first,
            "asked": counts.asked,
            "answered": counts.answered,
            "refused": counts.refused,
            "query_id": ask.query.id.hex(),
        }
        for ask, counts in zip(state.asked, state.counts, strict=True)
    ]
    return pd.DataFrame(rows).astype({"epsilon": float})


def lists_table(run: MainResult) -> pd.DataFrame:
    """Return the lists of at most `LISTED` devices: device, place from 1, item, and its title if a file tells it.

    In a deployment lists stay on devices; the experimenter knows them, because every device is simulated.
    """
    import pandas as pd  # noqa: PLC0415 (only where a folder is written)

    advice, descriptions = run.advice[:LISTED], run.population.descriptions
    device, place = np.nonzero(advice >= 0)
    items = advice[device, place]
    table = pd.DataFrame({"device": device, "place": place + 1, "item": run.population.item_labels[items].astype(str)})
    if descriptions is not None and descriptions.titles is not None:
        table["title"] = descriptions.titles[items].astype(str)
    return table


def tables_of(run: MainResult) -> dict[str, pd.DataFrame]:
    """Return the tables of a run's folder by their names: items and rounds; each tells of which run it is."""
    tables = {"items": items_table(run), "rounds": rounds_table(run)}
    if run.population.split is not None:
        tables["lists"] = lists_table(run)
    for table in tables.values():
        table.attrs["releases_sha256"] = run.outcome.releases_sha256
    return tables
