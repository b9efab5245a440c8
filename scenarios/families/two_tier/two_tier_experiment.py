"""Two tiers as an experiment, `blindrec two-tier`: its record's columns, and one seed of it."""

from __future__ import annotations

from scenarios.experiment.experiment import Experiment, Record, Running
from scenarios.families.two_tier.two_tier_scenario import TwoTier
from scenarios.show.columns import Average, Column
from scenarios.store.manifest import TWO_TIER
from scenarios.store.whole_files import size_of

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


class TwoTiers(Experiment[TwoTier]):
    """Public users hand over their ratings; private devices answer once each, with one second-order vector."""

    name = TWO_TIER
    loads = "scenarios.families.two_tier.two_tier_seed"
    kind = TwoTier
    columns = COLUMNS
    titled = "mechanism"
    named = ("users", "items", "public", "private", "repeat", "rmse", "rmse_public_only", "rmse_baseline", "seconds")
    sized = False
    help = """Public users teach item features; private devices complete their own vectors and answer once.

Rank, regularisation and the weights of noisy releases are chosen on held-out public users where they are not given.
Speed flags (--backend, --workers) never change an answer. With --out every batch of releases is kept: a run that was
killed or interrupted goes on by blindrec resume FOLDER, or by the same command; models are fitted again.
"""

    def check(self, scenario: TwoTier) -> None:
        """Read the ratings, so that a file that cannot be used is refused before a place is opened."""
        from scenarios.families.two_tier.two_tier_seed import table_of  # noqa: PLC0415 (`--help` need not wait for what runs load)

        table_of(scenario)

    def work(self, scenario: TwoTier) -> float:
        """Predict it from the number of private devices, a millisecond each; models are fitted here in any case."""
        users = size_of(scenario.ratings) // 256 if scenario.ratings else (scenario.planted or (0,))[0]
        return 1e-3 * (users if scenario.private is None else scenario.private)

    def once(self, scenario: TwoTier, running: Running) -> Record:
        """Run one seed."""
        from scenarios.families.two_tier.two_tier_seed import teach_seed  # noqa: PLC0415 (as in `check`)

        return teach_seed(scenario, running)
