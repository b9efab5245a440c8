"""Runs with one random process killed at a random time, each compared with a run that nothing disturbs.

``python -m benchmarks.kills [--family run|online|two-tier]`` kills, with SIGKILL, one of the run's actors (aggregators
or public users' hosts, devices, the coordinator), the driver (then resumes the run) or a whole node, at a random share
of the run. Kind, victim and time follow from the seed. Releases or recommendations, model and what devices spent must
be the same in all runs; else the exit code is 1.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Protocol

import numpy as np
import typer

from benchmarks.families import FAMILIES, Family
from benchmarks.killing import Cluster, Kill, Survived
from coordinator.protocol.coins import derive

AT_LEAST = 3
"""Fewest runs of each kind if there are enough runs."""
ATTEMPTS = 3
"""How often a run is repeated that ended before anything was killed."""
EARLIEST, LATEST = 0.02, 0.95
"""Earliest and latest share of a run at which something is killed."""
COLUMNS = ("kind", "seconds", "answers", "retries", "restarts", "resumed", "identical", "victim")


class Arena(Protocol):
    """A cluster on which runs are disturbed; see `benchmarks.killing.Cluster`."""

    def undisturbed(self) -> Survived:
        """Run once without a kill."""
        ...

    def disturbed(self, kill: Kill) -> Survived:
        """Run once with a kill."""
        ...


def kinds_of(family: Family) -> tuple[str, ...]:
    """Return the kinds of processes that are killed in runs of a family."""
    return (*family.kinds, "driver", "node")


def plan(family: Family, runs: int, seed: int) -> list[Kill]:
    """Return what is killed in each run, and when.

    Parameters
    ----------
    family : Family
    runs : int
        Each kind gets `AT_LEAST` of them or its equal share, whichever is less; the others are drawn.
    seed : int
        Everything follows from it.
    """
    coins = np.random.default_rng(int.from_bytes(derive(seed, "kills"), "little"))
    of = kinds_of(family)
    sure = list(of) * min(AT_LEAST, runs // len(of))
    kinds = coins.permutation([*sure, *coins.choice(of, runs - len(sure))])
    return [Kill(str(kind), int(coins.integers(1 << 16)), float(coins.uniform(EARLIEST, LATEST))) for kind in kinds]


def rows(kills: list[Kill], arena: Arena) -> Iterator[dict[str, Any]]:
    """Run once undisturbed, then once for each kill; yield the results.

    A run is ``identical`` if something was killed in it and it ended with the same releases, model and privacy spent.

    Raises
    ------
    RuntimeError
        If the undisturbed run did not end.
    """
    whole = arena.undisturbed()
    if whole.end is None:
        raise RuntimeError(f"the undisturbed run did not end: {whole.complaint}")
    for kill in kills:
        found = arena.disturbed(kill)
        for _ in range(ATTEMPTS - 1):
            if not found.victim:  # on a busy machine a short run may end before it is checked
                found = arena.disturbed(kill)
        yield {
            "kind": kill.kind,
            "share": kill.share,
            "victim": found.victim or "none: the run was over",
            "seconds": found.seconds,
            "answers": found.answers,
            "retries": found.retries,
            "restarts": found.restarts,
            "resumed": found.resumed,
            "identical": bool(found.victim) and found.end == whole.end,
            "complaint": found.complaint,
            "undisturbed": whole.end,
            "end": found.end,
        }


def line(number: int, row: dict[str, Any]) -> str:
    """Return a row of the table."""
    cells = [row["kind"], f"{row['seconds']:.2f}", f"{row['answers']:,}", row["retries"], row["restarts"]]
    cells += ["yes" if row["resumed"] else "no", "yes" if row["identical"] else "NO", row["victim"]]
    return f"| {number} | {' | '.join(str(cell) for cell in cells)} | {row['complaint']}".rstrip()


def measure(family: Family, runs: int, seed: int, arena: Arena) -> dict[str, Any]:
    """Run all, print the table as it grows, and return the figures."""
    print(f"| run | {' | '.join(COLUMNS)} |\n|{'---|' * (len(COLUMNS) + 1)}")
    begin, found = time.perf_counter(), list[dict[str, Any]]()
    for row in rows(plan(family, runs, seed), arena):
        found.append(row)
        print(line(len(found), row), flush=True)
    same = sum(row["identical"] for row in found)
    seconds = time.perf_counter() - begin
    print(f"{same} of {runs} identical to the undisturbed run, {seconds:.0f} s")
    return {"runs": runs, "seed": seed, "identical": same, "seconds": seconds, "rows": found}


def main(
    runs: Annotated[int, typer.Option(help="Runs in which something is killed.")] = 20,
    seed: Annotated[int, typer.Option(help="What is killed, and when, follows from it.")] = 0,
    family: Annotated[str, typer.Option(help=f"{', '.join(FAMILIES)}.")] = "run",
    size: Annotated[int | None, typer.Option(help="Devices, clients or private devices of a run.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures here too.")] = None,
) -> None:
    """Kill random processes of runs at random times; the exit code is 1 if a run ends with another result."""
    of = FAMILIES[family]
    size = of.default if size is None else size
    with tempfile.TemporaryDirectory(prefix="kills") as folder, Cluster(Path(folder), of, size) as cluster:
        figures = measure(of, runs, seed, cluster)
    if json_file:
        json_file.write_text(json.dumps({"family": family, **figures, "size": size}, indent=2) + "\n", encoding="utf-8")
    sys.exit(figures["identical"] < runs)


if __name__ == "__main__":
    typer.run(main)
