"""Memory and traffic against the number of rounds: what the driver, the coordinator and the object store hold.

``python -m benchmarks.rounds`` runs the same fixed policy with more and more rounds and prints, at the end of each run,
the private memory of driver and coordinator and what Ray's object store holds. The figures should not grow with rounds.
"""

import tempfile
from pathlib import Path
from typing import Annotated, Any

import psutil
import typer

from benchmarks.reference import JsonFile, write_figures
from coordinator.server.rounds.state import RunProgress
from scenarios.backends.ray_instance import on_ray
from scenarios.config.scenario import Scenario
from scenarios.families.main.run import run
from scenarios.store.journal import Journal

LOOK = 10  # Number of measurements in a run


def measure(*, rounds: int, users: int, items: int, design: str) -> dict[str, Any]:
    """Return the largest memory of each part in the last measurements of a run of so many rounds [MB]."""
    scenario = Scenario(
        items=items, rated=min(30, items // 2), users=users, design=design, policy="fixed", rounds=rounds
    )
    driver, parts, looks = psutil.Process(), dict.fromkeys(("driver", "coordinator", "object_store"), 0.0), 0

    def look(tally: RunProgress) -> None:
        nonlocal looks
        if tally.count * LOOK < looks * users:
            return
        looks = tally.count * LOOK // users + 1
        for process in [driver, *driver.children(recursive=True)]:
            name = "driver" if process == driver else " ".join(process.cmdline()[:1])
            memory = process.memory_full_info()
            if name == "driver" or name.startswith("ray::Coordinator"):
                part = "driver" if name == "driver" else "coordinator"
                parts[part] = max(parts[part], memory.uss / 2**20)
            if name.endswith("/raylet"):
                parts["object_store"] = max(parts["object_store"], memory.shared / 2**20)

    with tempfile.TemporaryDirectory() as folder, on_ray(address=None, workers=2) as session:
        journal = Journal(Path(folder), scenario.seed)
        over = run(scenario, session, progress=look, rounds=journal, ledger=journal.ledger)
    assert len(over.outcome.state.asked) == rounds
    return {"design": design, "items": items, "users": users, "rounds": rounds, "seconds": over.costs.seconds, **parts}


def main(
    rounds: Annotated[list[int] | None, typer.Option(help="Rounds of a run; repeat it.")] = None,
    users: Annotated[int, typer.Option(help="Devices; each answers once.")] = 200_000,
    items: Annotated[int, typer.Option(help="Items N.")] = 300,
    design: Annotated[str, typer.Option(help="A design with a large statistic.")] = "pairwise",
    json_file: JsonFile = None,
) -> None:
    """Measure the memory of a run's parts as the number of rounds grows."""
    figures = [measure(rounds=one, users=users, items=items, design=design) for one in rounds or [1, 10, 100, 1000]]
    print(f"{'rounds':>8} {'driver MB':>10} {'coordinator MB':>15} {'object store MB':>16} {'seconds':>8}")
    for one in figures:
        print(
            f"{one['rounds']:8} {one['driver']:10.0f} {one['coordinator']:15.0f} {one['object_store']:16.0f} "
            f"{one['seconds']:8.1f}"
        )
    write_figures(json_file, figures)


if __name__ == "__main__":
    typer.run(main)
