"""Two tiers as an experiment, `blindrec two-tier`, and one seed of it."""

from scenarios.experiment.experiment import Experiment
from scenarios.families.two_tier.two_tier_scenario import TwoTier
from scenarios.store.manifest import TWO_TIER
from scenarios.store.whole_files import size_of


class TwoTiers(Experiment[TwoTier]):
    """Public users hand over their ratings; private devices answer once each, with one second-order vector."""

    name = TWO_TIER
    runner = "scenarios.families.two_tier.two_tier_seed:teach_seed"
    kind = TwoTier
    column_list = "scenarios.families.two_tier.two_tier_columns:COLUMNS"
    titled = "mechanism"
    named = ("users", "items", "public", "private", "repeat", "rmse", "rmse_public_only", "rmse_baseline", "seconds")
    sized = False
    help = """Public users teach item features; private devices complete their own vectors and answer once.

Unless you set them, rank, regularisation and the weights of noisy releases are chosen on held-out public users.
Speed flags (--backend, --workers) never change a result. With --out every batch of releases is stored: blindrec resume
FOLDER, or the same command, resumes a run that was killed or interrupted, and fits the models again.
"""

    def check(self, scenario: TwoTier) -> None:
        """Read the ratings, so that a file that cannot be used is refused before a backend is opened."""
        from scenarios.families.two_tier.two_tier_seed import table_of  # noqa: PLC0415 (`--help` need not wait for what runs load)

        table_of(scenario)

    def work(self, scenario: TwoTier) -> float:
        """Predict it from the number of private devices, a millisecond each; models are fitted here in any case."""
        users = size_of(scenario.ratings) // 256 if scenario.ratings else (scenario.planted or (0,))[0]
        return 1e-3 * (users if scenario.private is None else scenario.private)
