"""Two Ray nodes on this machine, one of them killed in the middle of a round: the same releases, nobody spends more."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from runs import here, small

SCENARIO = {"items": 300, "rated": 40, "users": 1_500_000, "design": "sign", "policy": "fixed", "rounds": 2, "seed": 5}
SCRIPT = """
import json, sys
from pathlib import Path
from ray.cluster_utils import Cluster
from scenarios.backends.ray_instance import on_ray
from scenarios.config.scenario import Scenario
from scenarios.families.main.run import run

if __name__ == "__main__":
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
    other = cluster.add_node(num_cpus=1)
    killed = []

    def progress(tally):
        if tally.answers > 300_000 and not killed:
            killed.append(tally.answers)
            cluster.remove_node(other, allow_graceful=False)

    with on_ray(address=cluster.address, workers=2) as session:
        scenario = Scenario.model_validate(json.loads(sys.argv[1]))
        over = run(scenario, session, progress=progress, ledger=Path(sys.argv[2]))
    cluster.shutdown()
    told = {"killed": len(killed), "retries": over.costs.retries, "digest": over.outcome.releases_sha256,
            "score": over.outcome.model.score.tolist(), "spent": sorted({str(spent) for _, _, spent in over.spent})}
    print("told " + json.dumps(told))
"""


@pytest.mark.thorough  # `benchmarks.kills` kills nodes, too, and the simulation of faults plays it by default
@pytest.mark.cluster
@pytest.mark.slow
def test_a_node_that_is_killed_in_a_round_changes_nothing(tmp_path: Path) -> None:
    script = tmp_path / "two_nodes.py"
    script.write_text(SCRIPT)
    command = [sys.executable, str(script), json.dumps(SCENARIO), str(tmp_path / "ledger")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False, cwd=Path.cwd())
    lines = [line for line in ended.stdout.splitlines() if line.startswith("told ")]
    assert lines, ended.stderr[-3000:]
    told = json.loads(lines[0].removeprefix("told "))
    undisturbed = here(small(**SCENARIO), workers=2)
    assert told["killed"] == 1
    assert told["digest"] == undisturbed.outcome.releases_sha256
    assert told["score"] == undisturbed.outcome.model.score.tolist()
    assert told["spent"] == [str(SCENARIO_EPSILON)]


SCENARIO_EPSILON = small(**SCENARIO).epsilon
