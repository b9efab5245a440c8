"""The columns of a two-tier record, and the tables of its folder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from scenarios.show.columns import Average, Column

if TYPE_CHECKING:
    import pandas as pd


COLUMNS = (
    Column(name="seed", average=Average.FIRST),
    Column(name="trust_model", words="trust model"),
    Column(name="mechanism", words="mechanism"),
    Column(name="guarantee", words="guarantee of private devices"),
    Column(name="epsilon", words="epsilon [nats]"),
    Column(name="users", words="users"),
    Column(name="items", words="items"),
    Column(name="lines_skipped", words="bad lines of the file left out"),
    Column(name="public", words="public users"),
    Column(name="private", words="private devices asked"),
    Column(name="answered", words="answered, once each", average=Average.COUNT),
    Column(name="malicious", words="share of liars"),
    Column(name="attack", words="attack"),
    Column(name="lies", words="answers that are lies", average=Average.MEAN),
    Column(name="unseen_items", words="items that no public user rated"),
    Column(name="rank", words="rank"),
    Column(name="regularisation", words="regularisation kappa"),
    Column(name="weight", words="weight of a release"),
    Column(name="validation_users", words="  chosen on public users that no announced model knows"),
    Column(name="rmse", words="RMSE", average=Average.MEAN),
    Column(name="rmse_public_only", words="  public users alone", average=Average.MEAN),
    Column(name="rmse_baseline", words="  items' means", average=Average.MEAN),
    Column(name="hit_rate", words="hit rate at 10 of held-out likes", average=Average.MEAN, most=1),
    Column(name="popularity_hit_rate", words="  by popularity", average=Average.MEAN, most=1),
    Column(name="ndcg", words="NDCG at 10", average=Average.MEAN, most=1),
    Column(name="popularity_ndcg", words="  by popularity", average=Average.MEAN, most=1),
    Column(name="evaluated", words="devices with held-out likes"),
    Column(name="overlap_gamma_median", words="gamma of rated items (Theorem 3.5), median"),
    Column(name="iterations", words="EM iterations"),
    Column(name="change", words="  change of S~ in the last one"),
    Column(name="convergence", average=Average.FIRST),
    Column(name="validated", average=Average.FIRST),
    Column(name="model_digest", average=Average.NOTHING),
    Column(name="seconds", words="seconds", average=Average.MEAN),
    Column(name="seconds_per_iteration", words="  an EM iteration, median"),
    Column(name="peak_memory_mb", words="peak memory, all processes [MB]", average=Average.WORST),
    Column(name="releases_sha256", words="SHA-256 of all releases", average=Average.NOTHING),
)
"""Columns of a record."""


def tables_of(record: Mapping[str, Any]) -> dict[str, pd.DataFrame]:
    """Return the tables of a run's folder by their names: EM iterations, and the settings that were tried."""
    import pandas as pd  # noqa: PLC0415 (settings are read without it)

    iterations = pd.DataFrame(record["convergence"])
    iterations.insert(0, "iteration", range(1, len(iterations) + 1))
    tried = pd.DataFrame(record["validated"], columns=["rank", "regularisation", "rmse"])
    return {"iterations": iterations, "validated": tried.astype({"rank": int, "regularisation": float, "rmse": float})}
