"""The main job as an experiment: `blindrec run`. Devices answer queries, the server learns item clusters."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from scenarios.app.experiment import Experiment, Named, Record, Running
from scenarios.given.config import Scenario
from scenarios.given.policies import import_policy
from scenarios.run.columns import COLUMNS
from scenarios.store.mark import RUN, Mark


class MainJob(Experiment[Scenario]):
    """Devices that rated items answer an untrusted server in rounds of queries."""

    name = RUN
    kind = Scenario
    columns = COLUMNS
    titled = "design"
    named = ("items", "users", "epsilon", "repeat", "accuracy", "accuracy_predicted", "hit_rate", "seconds")
    own = True
    loads = "scenarios.run.one_seed"
    help = """Run one experiment: devices answer, the server learns item clusters and scores, devices take advice.

Speed flags (--backend, --workers, --devices-per-actor) never change an answer. With --out every round is kept: a run
that was killed or interrupted goes on by blindrec resume FOLDER, or by the same command.
"""

    def check(self, scenario: Scenario) -> None:
        """Refuse a policy that cannot be imported."""
        if ":" in scenario.policy:
            import_policy(scenario.policy)

    def warn(self, scenario: Scenario, console: Console) -> None:
        """Warn of clusters that no number of users tells apart, and of what the file of ratings is like."""
        super().warn(scenario, console)
        from scenarios.theory.separability import warning  # noqa: PLC0415 (`--help` need not wait for what runs load)

        if line := warning(scenario):
            console.print(line, highlight=False, soft_wrap=True)

    def mark(self, scenario: Scenario, repeat: int) -> Mark:
        """Return the mark of a run; what is one's own counts by its code."""
        from scenarios.run.claiming import mark_of_run  # noqa: PLC0415 (as in `warn`)

        return mark_of_run(scenario, repeat)

    def resumed(self, out: Path, mark: Mark, named: Named) -> Scenario:
        """Return the scenario of a run that was interrupted, with what is one's own named again."""
        from scenarios.run.claiming import claimed  # noqa: PLC0415 (as in `warn`)

        return claimed(out, mark, named)

    def once(self, scenario: Scenario, running: Running) -> Record:
        """Run one seed; with a ratings file and finite epsilon the same run without noise follows, to compare with."""
        from scenarios.run.one_seed import run_seed  # noqa: PLC0415 (as in `warn`)

        return run_seed(scenario, running)
