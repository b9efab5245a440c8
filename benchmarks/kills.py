"""Runs with one random process killed at a random time, each compared with a run that nothing disturbs.

``python -m benchmarks.kills [--family run|shuffled|two-servers|online|two-tier]`` kills, with SIGKILL, one of the run's
actors (aggregators, a shuffler, two servers, public users' hosts, devices, the coordinator), the driver (then resumes
the run) or a whole node, at a random share of the run. Kind, victim and time follow from the seed. Releases or
recommendations, model and what devices spent must be the same in all runs; else the exit code is 1. With ``--json
FILE`` each run is kept as soon as it has ended, and the same command goes on after the last one.
"""

import json
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import Annotated, Any, Protocol

import numpy as np
import typer

from benchmarks import pages
from benchmarks.families import FAMILIES, Family
from benchmarks.killing import Cluster, Kill, RunRecord
from coordinator.protocol.coins import derive

ATTEMPTS = 3  # How often a run is repeated that ended before anything was killed
EARLIEST, LATEST = 0.02, 0.95  # Earliest and latest share of a run at which something is killed
MOMENTS = 5  # A run is divided into so many equal parts in the table
COLUMNS = ("family", "kind", "seconds", "answers", "retries", "restarts", "resumed", "identical", "victim")

Row = dict[str, Any]  # A disturbed run; see `rows`


class Arena(Protocol):
    """A cluster on which runs are disturbed; see `benchmarks.killing.Cluster`."""

    def undisturbed(self, family: str) -> RunRecord:
        """Run once without a kill."""
        ...

    def disturbed(self, kill: Kill) -> RunRecord:
        """Run once with a kill."""
        ...


def kinds_of(family: Family) -> tuple[str, ...]:
    """Return the kinds of processes that are killed in runs of a family."""
    return (*family.kinds, "driver", "node")


def plan(names: Sequence[str], runs: int, seed: int) -> list[Kill]:
    """Return what is killed in each run, and when; with more runs, the first ones stay the same.

    Families take turns; within one each kind is killed once before any is killed again.
    """
    return list(islice((next(kills) for kills in cycle([_kills(name, seed) for name in names])), runs))


def _kills(name: str, seed: int) -> Iterator[Kill]:
    """Yield the kills of a family, without end."""
    coins = np.random.default_rng(int.from_bytes(derive(seed, f"kills of {name}"), "little"))
    while True:
        for kind in coins.permutation(kinds_of(FAMILIES[name])):
            yield Kill(name, str(kind), int(coins.integers(1 << 16)), float(coins.uniform(EARLIEST, LATEST)))


def rows(kills: Sequence[Kill], arena: Arena, previous: Sequence[Row] = ()) -> Iterator[Row]:
    """Run each family once undisturbed, then once for each kill that is not among the kept rows; yield the results.

    A run is ``identical`` if something was killed in it and it ended with the same releases, model and privacy
    spent. A `RuntimeError` says that an undisturbed run did not end, or not as the kept rows say of it.
    """
    done = {tuple(row[name] for name in Kill._fields) for row in previous}
    wholes: dict[str, RunRecord] = {}
    for kill in kills:
        if kill in done:
            continue
        if kill.family not in wholes:
            wholes[kill.family] = _whole(kill.family, arena, previous)
        yield _row(kill, arena, wholes[kill.family])


def _whole(family: str, arena: Arena, previous: Sequence[Row]) -> RunRecord:
    whole = arena.undisturbed(family)
    if whole.end is None:
        raise RuntimeError(f"the undisturbed run did not end: {whole.complaint}")
    if any(row["undisturbed"] != whole.end for row in previous if row["family"] == family):
        raise RuntimeError(f"undisturbed, {family} ends otherwise than in the kept rows; begin a new file with --json")
    return whole


def _row(kill: Kill, arena: Arena, whole: RunRecord) -> Row:
    run = arena.disturbed(kill)
    for _ in range(ATTEMPTS - 1):
        if not run.victim:  # on a busy machine a short run may end before it is checked
            run = arena.disturbed(kill)
    return kill._asdict() | {
        "victim": run.victim or "none: the run was over",
        "killed": bool(run.victim),
        "seconds": run.seconds,
        "answers": run.answers,
        "moment": run.answers / whole.answers,
        "retries": run.retries,
        "restarts": run.restarts,
        "resumed": run.resumed,
        "identical": bool(run.victim) and run.end == whole.end,
        "complaint": run.complaint,
        "undisturbed": whole.end,
        "end": run.end,
    }


def line(number: int, row: Row) -> str:
    """Return a row of the table."""
    cells = [row["family"], row["kind"], f"{row['seconds']:.2f}", f"{row['answers']:,}", row["retries"]]
    cells += [row["restarts"], "yes" if row["resumed"] else "no", "yes" if row["identical"] else "NO", row["victim"]]
    return f"| {number} | {' | '.join(str(cell) for cell in cells)} | {row['complaint']}".rstrip()


def read(file: Path | None) -> list[Row]:
    """Return the rows in a file, none if there is no file. What a crash left of a last line is removed from it."""
    if file is None or not file.exists():
        return []
    content = file.read_bytes()
    if torn := content[content.rfind(b"\n") + 1 :]:
        with file.open("r+b") as opened:
            opened.truncate(len(content) - len(torn))
    return [json.loads(line) for line in content.splitlines()[: content.count(b"\n")]]


def keep(file: Path | None, row: Row) -> None:
    """Add a row to a file, if there is one."""
    if file is not None:
        with file.open("a", encoding="utf-8") as opened:
            opened.write(json.dumps(row) + "\n")


def table(rows: Iterable[Row]) -> list[str]:
    """Return a table of runs by victim and moment: how many were identical, of how many in which something was killed.

    The moment of a kill is the run's progress just before it, as a share of the whole run. Runs that were over before
    anything could be killed stand in the last column, and only there.
    """
    groups: dict[tuple[str, str], list[list[bool]]] = {}
    for row in rows:
        cells = groups.setdefault((row["family"], row["kind"]), [[] for _ in range(MOMENTS + 1)])
        cell = min(int(MOMENTS * row["moment"]), MOMENTS - 1) if row["killed"] else MOMENTS
        cells[cell].append(row["identical"])
    bounds = [f"{100 * part // MOMENTS} to {100 * (part + 1) // MOMENTS} %" for part in range(MOMENTS)]
    lines = []
    for (family, kind), cells in sorted(groups.items()):
        killed = [*cells[:MOMENTS], [outcome for cell in cells[:MOMENTS] for outcome in cell]]
        shares = [f"{sum(cell)} of {len(cell)}" if cell else "" for cell in killed]
        lines.append([family, kind, *shares, str(len(cells[MOMENTS]) or "")])
    return pages.table(["family", "victim", *bounds, "all", "over before"], lines).splitlines()


def measure(kills: Sequence[Kill], arena: Arena, file: Path | None) -> list[Row]:
    """Run all that a file does not have yet, print the table as it grows, and return all rows of the file."""
    table_rows, begin = read(file), time.perf_counter()
    if table_rows:
        print(f"{len(table_rows)} runs are kept in {file}")
    print(f"| run | {' | '.join(COLUMNS)} |\n|{'---|' * (len(COLUMNS) + 1)}")
    for row in rows(kills, arena, tuple(table_rows)):
        keep(file, row)
        table_rows.append(row)
        print(line(len(table_rows), row), flush=True)
    same = sum(row["identical"] for row in table_rows)
    print(f"{same} of {len(table_rows)} identical to the undisturbed run, {time.perf_counter() - begin:.0f} s\n")
    print("\n".join(table(table_rows)))
    return table_rows


def main(
    runs: Annotated[int, typer.Option(help="Runs in which something is killed.")] = 20,
    seed: Annotated[int, typer.Option(help="What is killed, and when, follows from it.")] = 0,
    family: Annotated[str | None, typer.Option(help=f"{', '.join(FAMILIES)}; by default all, in turns.")] = None,
    size: Annotated[
        int | None, typer.Option(help="Devices, clients or private devices of a run of one family.")
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Keep each run here, a line each, and go on.")
    ] = None,
) -> None:
    """Kill random processes of runs at random times; the exit code is 1 if a run ends with another result."""
    if family is not None and family not in FAMILIES:
        raise typer.BadParameter(f"family is {family!r}; choose one of {', '.join(FAMILIES)}")
    if size is not None and family is None:
        raise typer.BadParameter("--size is that of one family; say which with --family")
    sizes = {name: of.default if size is None else size for name, of in FAMILIES.items()}
    names = list(FAMILIES) if family is None else [family]
    folder = Path(tempfile.mkdtemp(prefix="kills"))
    with Cluster(folder, sizes) as cluster:
        all_rows = measure(plan(names, runs, seed), cluster, json_file)
    alike = all(row["identical"] for row in all_rows)
    if alike:
        shutil.rmtree(folder)
    else:
        print(f"not all runs ended alike; folders and logs of those made now are in {folder}")
    sys.exit(not alike)


if __name__ == "__main__":
    typer.run(main)
