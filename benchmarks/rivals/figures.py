"""Figures of all three side by side: for rivals the best pass counts, for blindrec the slower of two."""

from collections.abc import Sequence
from typing import Any

from benchmarks.rivals.inside.one_bit import OneBit
from coordinator.protocol.errors import InputError
from scenarios.backends.selection import InProcess

Figures = dict[str, Any]
APART = 6.0
"""Standard errors that the rivals' shares of ones may lie apart, which two runs of one job exceed once in 10**8."""


def assembled(
    job: OneBit, workers: int, before: Sequence[Figures], after: Sequence[Figures], flower: Figures, hadamard: Figures
) -> Figures:
    """Return everything measured, the rates, and how many times as fast blindrec is.

    Parameters
    ----------
    job : OneBit
        The job.
    workers : int
        Processors given to each.
    before, after : sequence of dict
        Rows of `benchmarks.rivals.ours.measure`, made before the rivals and after them.
    flower, hadamard : dict
        What the rivals' scripts returned.

    Raises
    ------
    InputError
        If Flower's clients and our devices disagree on how often the released bit is 1: then it is not one job.
    """
    rows = [min(both, key=lambda row: float(row["devices_per_second"])) for both in zip(before, after, strict=True)]
    best, start = min(flower["seconds"]), flower["start_seconds"]
    clients = flower["clients"]
    rates = {
        "flower_clients_per_second": clients / best,
        "flower_with_start_clients_per_second": clients / (start + best),
        "hadamard_users_per_second": {
            processes: hadamard["users"] / min(passes["seconds"]) for processes, passes in hadamard["processes"].items()
        },
    }
    theirs = flower | {"share_of_ones": flower["ones"] / flower["answered"]}
    _check_same_job(theirs, rows[-1])
    figures = {
        "items": job.items,
        "rated": job.rated,
        "epsilon": job.epsilon,
        "workers": workers,
        "blindrec": {"before": list(before), "after": list(after), "slower": rows},
        "flower": theirs,
        "hadamard": hadamard,
    }
    ours = _headline(rows)["devices_per_second"]
    times = {
        "flower": ours / rates["flower_clients_per_second"],
        "hadamard": {processes: ours / rate for processes, rate in rates["hadamard_users_per_second"].items()},
    }
    return figures | rates | {"times": times}


def table(figures: Figures) -> str:
    """Return the figures as a Markdown table."""
    flower, hadamard = figures["flower"], figures["hadamard"]
    ours = _headline(figures["blindrec"]["slower"])["devices_per_second"]
    lines = ["| | users | seconds | users a second | blindrec is times as fast |", "|---|---|---|---|---|"]
    for row in figures["blindrec"]["slower"]:
        where = "in process" if row["backend"] == InProcess.name else "Ray"
        lines.append(_line(f"blindrec, {where}", row["devices"], row["seconds"], None))
    best = min(flower["seconds"])
    name = f"Flower {flower['version']}"
    lines.append(_line(name, flower["clients"], best, ours))
    lines.append(_line(f"{name} with its start", flower["clients"], best + flower["start_seconds"], ours))
    for processes, passes in hadamard["processes"].items():
        name = f"pure-ldp {hadamard['version']}, {processes} process{'es' if processes != '1' else ''}"
        lines.append(_line(name, hadamard["users"], min(passes["seconds"]), ours))
    return "\n".join(lines)


def _line(name: str, users: int, seconds: float, ours: float | None) -> str:
    times = "" if ours is None else f"{ours * seconds / users:,.0f}"
    return f"| {name} | {users:,} | {seconds:,.2f} | {users / seconds:,.0f} | {times} |"


def _headline(rows: Sequence[Figures]) -> Figures:
    """Return the row that rivals are held against: most devices, on Ray, which is measured last."""
    return max(rows, key=lambda row: (row["backend"] != InProcess.name, row["devices"]))


def _check_same_job(flower: Figures, ours: Figures) -> None:
    theirs, expected = flower["share_of_ones"], ours["share_of_ones"]
    radius: float = APART * (expected * (1 - expected) * (1 / flower["answered"] + 1 / ours["devices"])) ** 0.5
    if abs(theirs - expected) > radius:
        raise InputError(
            f"share of ones is {theirs:.4f} with Flower and {expected:.4f} with blindrec, further apart than "
            f"{radius:.4f}; the two do not run the same job, mend benchmarks/rivals/inside/one_bit.py"
        )
