"""Two tiers as an experiment, `blindrec two-tier`: its record's columns, and one seed of it."""

from scenarios.experiment.experiment import Experiment
from scenarios.families.two_tier.two_tier_scenario import TwoTier
from scenarios.show.tables import Average, Column
from scenarios.store.manifest import TWO_TIER
from scenarios.store.whole_files import size_of

COLUMNS = (
    Column("seed", average=Average.FIRST),
    Column("trust_model", "trust model"),
    Column("mechanism", "mechanism"),
    Column("guarantee", "guarantee of private devices", beside=("neighbours", "delta")),
    Column("epsilon", "epsilon [nats]"),
    Column("users", "users"),
    Column("items", "items"),
    Column("lines_skipped", "bad lines of the file left out"),
    Column("lines_unrated", "lines of the file without a rating, left out"),
    Column("public", "public users"),
    Column("private", "private devices asked"),
    Column("answered", "answered, once each", Average.COUNT),
    Column("malicious", "share of liars"),
    Column("attack", "attack"),
    Column("lies", "answers that are lies", Average.MEAN),
    Column("unseen_items", "items that no public user rated"),
    Column("rank", "rank"),
    Column("regularisation", "regularisation kappa"),
    Column("weight", "weight of a release"),
    Column("validation_users", "  chosen on public users that no announced model knows"),
    Column("rmse", "RMSE", Average.MEAN),
    Column("rmse_public_only", "  public users alone", Average.MEAN),
    Column("rmse_baseline", "  items' means", Average.MEAN),
    Column("held_out", "held out: a share, or ratings of each"),
    Column("split_by", "  chosen by"),
    Column("people_left_out", "  people who come after the date"),
    Column("items_unseen", "  items rated after the date only"),
    Column("hit_rate", "hit rate at 10 of held-out likes", Average.MEAN, most=1),
    Column("popularity_hit_rate", "  by popularity of training likes", Average.MEAN, most=1),
    Column("ndcg", "NDCG at 10", Average.MEAN, most=1),
    Column("popularity_ndcg", "  by popularity of training likes", Average.MEAN, most=1),
    Column("evaluated", "users with held-out likes"),
    Column("overlap_gamma_median", "gamma of rated items (Theorem 3.5), median"),
    Column("iterations", "EM iterations"),
    Column("change", "  change of S~ in the last one"),
    Column("convergence", average=Average.FIRST),
    Column("validated", average=Average.FIRST),
    Column("model_digest", average=Average.NOTHING),
    Column("seconds", "seconds", Average.MEAN),
    Column("seconds_per_iteration", "  an EM iteration, median"),
    Column("peak_memory_mb", "peak memory, all processes [MB]", Average.WORST),
    Column("releases_sha256", "SHA-256 of all releases", Average.NOTHING),
)
"""Columns of a record."""


class TwoTiers(Experiment[TwoTier]):
    """Public users hand over their ratings; private devices answer once each, with one second-order vector."""

    name = TWO_TIER
    runner = "scenarios.families.two_tier.two_tier_seed:teach_seed"
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
        """Read the ratings, so that a file that cannot be used is refused before a backend is opened."""
        from scenarios.families.two_tier.two_tier_seed import table_of  # noqa: PLC0415 (`--help` need not wait for what runs load)

        table_of(scenario)

    def work(self, scenario: TwoTier) -> float:
        """Predict it from the number of private devices, a millisecond each; models are fitted here in any case."""
        users = size_of(scenario.ratings) // 256 if scenario.ratings else (scenario.planted or (0,))[0]
        return 1e-3 * (users if scenario.private is None else scenario.private)
