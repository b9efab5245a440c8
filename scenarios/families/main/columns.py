"""The columns of the main job's record, and the tables of its folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from coordinator.protocol.budget import as_json
from scenarios.data.populations import liked_share
from scenarios.families.main.run import Result
from scenarios.families.main.score import ranked, ranks
from scenarios.show.columns import Average, Column

if TYPE_CHECKING:
    import pandas as pd


LYING = (
    Column(name="malicious", words="share of liars"),
    Column(name="attack", words="attack"),
    Column(name="lied_about", words="items lied about", average=Average.COUNT),
    Column(name="lies", words="answers that are lies", average=Average.MEAN),
    Column(name="labels_wrong", words="labels wrong, clusters not swapped", average=Average.MEAN),
    Column(name="labels_wrong_predicted", words="labels wrong, not swapped, predicted", average=Average.FORMULA),
    Column(name="all_right", words="all labels right, not swapped", average=Average.SHARE),
    Column(name="decided_wrong", words="decided items with a wrong label", average=Average.MEAN),
    Column(name="promoted_rank", words="mean rank of promoted items", average=Average.MEAN),
    Column(name="promoted_rank_predicted", words="mean rank of promoted items, predicted", average=Average.FORMULA),
    Column(name="tipping_share", words="share of liars that tips an item", average=Average.FORMULA),
    Column(name="tipping_limit", words="share of liars that tips any design", average=Average.FORMULA),
)
"""Columns of a record with liars; others have none of these keys."""


COLUMNS = (
    Column(name="seed", average=Average.FIRST),
    Column(name="trust_model", words="trust model"),
    Column(name="guarantee", words="guarantee"),
    Column(name="mechanism", words="mechanism"),
    Column(name="channel", words="channel"),
    Column(name="epsilon", words="epsilon of a device [nats]"),
    Column(name="person_epsilon", words="epsilon of a person [nats]", average=Average.WORST),
    Column(name="copies_max", average=Average.WORST),
    Column(name="questions", words="questions a device", unless_one="questions"),
    Column(name="epsilon_per_question", words="epsilon of a question [nats]", unless_one="questions"),
    Column(name="policy", words="policy", unless_one="rounds"),
    Column(name="rounds", words="rounds", average=Average.COUNT, unless_one="rounds"),
    Column(name="answers_per_device", words="answers a device, at most", unless_one="answers_per_device"),
    Column(name="users", words="users"),
    Column(name="asked", average=Average.COUNT),
    Column(name="answered", words="answered", average=Average.COUNT),
    Column(name="refused", words="refused", average=Average.COUNT),
    Column(name="missing", words="missing", average=Average.COUNT),
    Column(name="items", words="items"),
    Column(name="rated", words="rated items (public)"),
    Column(name="from_the_file", words="public constants taken from the file"),
    Column(name="lines_skipped", words="bad lines of the file left out"),
    Column(name="clusters", words="clusters"),
    Column(name="unlearned", words="items not learned", average=Average.COUNT),
    Column(name="undecided", words="items not decided", average=Average.COUNT),
    Column(name="verified", words="items that fresh devices were asked about again", average=Average.COUNT),
    Column(name="verifying_answers", words="  their answers", average=Average.COUNT),
    Column(name="disputed", words="  labels that they dispute", average=Average.COUNT),
    Column(name="policy_error", words="policy went astray"),
    Column(name="accuracy", words="items right", average=Average.MEAN, most=1),
    Column(name="accuracy_predicted", words="items right, predicted", average=Average.FORMULA),
    Column(name="exact", words="all items right", average=Average.SHARE),
    *LYING,
    Column(name="ari", words="adjusted Rand index", average=Average.MEAN),
    Column(name="nmi", words="normalised mutual information", average=Average.MEAN, most=1),
    Column(name="advice_liked", words="devices like of their own top 10", average=Average.MEAN, most=1),
    Column(name="random_liked", words="devices like of random items", average=Average.FORMULA),
    Column(name="clusters_follow", words="clusters follow"),
    Column(name="popularity_share", words="variance of popularity between clusters", average=Average.MEAN, most=1),
    Column(name="taste_share", words="variance of taste between clusters", average=Average.MEAN, most=1),
    Column(name="noiseless_ari", words="agreement with clusters without noise (ARI)", average=Average.MEAN),
    Column(
        name="top_50",
        words="true top 50 items among the estimated",
        average=Average.MEAN,
        most=1,
        unless_known="accuracy",
    ),
    Column(
        name="rank_correlation",
        words="rank correlation with popularity",
        average=Average.MEAN,
        unless_known="accuracy",
    ),
    Column(name="hit_rate", words="hit rate at 10", average=Average.MEAN, most=1),
    Column(name="popularity_hit_rate", words="  by popularity (knows all ratings)", average=Average.MEAN, most=1),
    Column(name="random_hit_rate", words="  by chance", average=Average.MEAN, most=1),
    Column(name="ndcg", words="NDCG at 10", average=Average.MEAN, most=1),
    Column(name="popularity_ndcg", words="  by popularity (knows all ratings)", average=Average.MEAN, most=1),
    Column(name="random_ndcg", words="  by chance", average=Average.MEAN, most=1),
    Column(name="evaluated", words="users with held-out likes"),
    Column(name="seconds", words="seconds", average=Average.MEAN),
    Column(name="devices_per_second", words="devices a second", average=Average.MEAN),
    Column(name="releases_sha256", words="SHA-256 of all releases", average=Average.NOTHING),
)
"""Columns of a record. In a block model all items of a cluster are equally popular: clusters tell more than lists."""


LISTED = 1000
"""Devices whose lists are written."""


def items_table(run: Result) -> pd.DataFrame:
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


def rounds_table(run: Result) -> pd.DataFrame:
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


def lists_table(run: Result) -> pd.DataFrame:
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


def tables_of(run: Result) -> dict[str, pd.DataFrame]:
    """Return the tables of a run's folder by their names: items and rounds; each tells of which run it is."""
    tables = {"items": items_table(run), "rounds": rounds_table(run)}
    if run.population.split is not None:
        tables["lists"] = lists_table(run)
    for table in tables.values():
        table.attrs["releases_sha256"] = run.outcome.releases_sha256
    return tables
