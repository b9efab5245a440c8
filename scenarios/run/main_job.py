"""The main job as an experiment: `blindrec run`. Devices answer queries, the server learns item clusters."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from coordinator.server.server_half import TRUST_CURATOR
from scenarios.app.experiment import Experiment, NamedCode, Record, Running
from scenarios.given.config import Scenario
from scenarios.given.policies import import_policy
from scenarios.given.run_spec import RunSpec, half_in
from scenarios.run.columns import COLUMNS
from scenarios.store.files import size_of
from scenarios.store.manifest import RUN, Manifest


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
        """Refuse what the mechanism cannot do, and a policy that cannot be imported."""
        RunSpec(scenario)
        if ":" in scenario.policy:
            import_policy(scenario.policy)

    def warn(self, scenario: Scenario, console: Console) -> None:
        """Warn of clusters that no number of users tells apart, and of what the file of ratings is like."""
        super().warn(scenario, console)
        from scenarios.theory.separability import warning  # noqa: PLC0415 (`--help` need not wait for what runs load)

        if line := warning(scenario):
            console.print(line, highlight=False, soft_wrap=True)

    def mark(self, scenario: Scenario, repeat: int) -> Manifest:
        """Return the mark of a run; what is one's own counts by its code."""
        from scenarios.run.claiming import mark_of_run  # noqa: PLC0415 (as in `warn`)

        return mark_of_run(scenario, repeat)

    def resumed(self, out: Path, mark: Manifest, named: NamedCode) -> Scenario:
        """Return the scenario of a run that was interrupted, with what is one's own named again."""
        from scenarios.run.claiming import claimed  # noqa: PLC0415 (as in `warn`)

        return claimed(out, mark, named)

    def work(self, scenario: Scenario) -> float:
        """Predict it from the number of answers: 0.5 microseconds each, and 25 ns for every item that a device rated.

        Most of our local mechanisms took less, none half as much again; six times as much is assumed for a curator, who
        gets ratings as they are, and ten times for a mechanism of one's own. A file of ratings has a user for every 256
        bytes, and is run twice.
        """
        users = scenario.users or (10**6 if scenario.ratings is None else size_of(scenario.ratings) // 256)
        a_device = scenario.answers_per_device * (0.5e-6 + 25e-9 * (scenario.rated or 20))
        slower = 10 if ":" in scenario.design else 6 if half_in(scenario).trust == TRUST_CURATOR else 1
        return users * a_device * slower * (1 if scenario.ratings is None else 2)

    def once(self, scenario: Scenario, running: Running) -> Record:
        """Run one seed; with a ratings file and finite epsilon the same run without noise follows, to compare with."""
        from scenarios.run.one_seed import run_seed  # noqa: PLC0415 (as in `warn`)

        return run_seed(scenario, running)
