"""Plans as tables."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from coordinator.protocol.custom import UNCHECKED
from scenarios.show.tables import OPEN, SAFE, failing, name_of, number, remark, titled, trust_of
from scenarios.studies.planner.central_plan import promise_in_words
from scenarios.studies.planner.plan import EMULATED, SIMULATED, TOO_MANY, DesignPlan, in_words
from scenarios.theory.emulated_runs import MOST_USERS

NOTHING_LEARNABLE = (
    "too few ratings to say what could be learned: at no epsilon would a block model of the file's shape put more of "
    "its items right than one label for all of them does"
)


def show_plan(console: Console, made: DesignPlan, title: str, not_for: str | None = None) -> None:
    """Print a plan: every design's need, the lower bounds, what it holds for (and not), and the recommendation."""
    needed = "users" if made.users_here is None else "users needed"
    here = "" if made.users_here is None else f"\nright and all right: with {_count(made.users_here)} users"
    columns = ("design, decoder", needed, "epsilon", "right", "all right")
    table = titled(title + here, *columns, box=box.SIMPLE_HEAD, pad_edge=False)
    table.columns[0].overflow = "fold"
    for column in table.columns[1:]:
        column.no_wrap = True
    noiseless = any(row["private"] and row["epsilon"] == "inf" for row in made.rows)
    for trust, rows in groupby(made.rows, key=trust_of):
        heading = f"{trust.replace(SAFE, 'local')}, no noise" if noiseless and trust != OPEN else trust
        table.add_row(Text(f"{heading}:", style="italic"))
        for row in rows:
            numbers = [_users(row), number(row["epsilon"]), _share(row["accuracy"]), _share(row["exact"])]
            how = next((f" ({word})" for word in (SIMULATED, EMULATED) if row.get(word)), "")
            table.add_row(Padding(Text(f"{name_of(row)}{how}"), (0, 0, 0, 2)), *map(Text, numbers))
    console.print(table)
    valid = [row for row in made.bounds if row["valid"]]
    bounds = [f"{row['name']} {row['users']:,.0f}{' (binds)' if row['binds'] else ''}" for row in valid]
    notes = dict.fromkeys(row["note"] for row in made.rows if row["note"] and row["note"] != TOO_MANY)
    lines = [note if note.startswith(SIMULATED) else f"{_short(note)}: {note}" for note in notes]
    allowed = failing(made.failure, made.mistakes)
    if bounds:
        lines.append(f"users that any epsilon-LDP learner needs {allowed}: {', '.join(bounds)}")
    lines += [promise_in_words(row) for row in made.rows if row.get("epsilon_local") or row.get("noise_deviation")]
    unchecked = [name_of(row) for row in made.rows if row.get("channel") == UNCHECKED]
    lines += [f"{UNCHECKED}: that {name} protects all a device holds; it is never recommended" for name in unchecked]
    lines += _neighbours(made.rows)
    if made.sufficient:
        enough = f"to fail with probability {made.failure:g} at most, by Theorem 15: {_count(made.sufficient)} users"
        lines.append(f"enough for MaxSense {enough}")
    holds = f"holds for {in_words(made.world)}{'; ' * bool(not_for)}{not_for or ''}"
    remark(console, *lines, holds, recommendation(made), *([f"why: {made.why}"] if made.why else []))


def _neighbours(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return lines about which neighbours, and which delta, the epsilons of rows are."""
    designs: dict[tuple[str, float], list[str]] = {}
    for row in rows:
        if row.get("neighbours") is not None:
            designs.setdefault((row["neighbours"], row["delta"]), []).append(str(row["design"]))
    lines = list[str]()
    for (relation, delta), names in sorted(designs.items(), key=lambda pair: len(pair[1])):
        of = f"epsilon of {', '.join(dict.fromkeys(names))}"
        if len(names) == max(map(len, designs.values())):
            of = f"every {'other ' if lines else ''}epsilon"
        lines.append(f"{of}: neighbours {relation}, delta {number(delta)}")
    return lines


def recommendation(made: DesignPlan) -> str:
    """Return the recommendation as a line."""
    if made.best is None:
        return f"no design that protects all that a device holds reaches {made.target.words}"
    best = made.best
    sentence = f"{_count(best['users'])} users at epsilon {number(best['epsilon'])} for {made.target.words}"
    if made.users_here is not None and best["accuracy"] is not None:
        sentence += f"; {_count(made.users_here)} users put {_share(best['accuracy'])} of the items right"
    return f"recommended: {name_of(best)}: {sentence}"


def show_cost(console: Console, cost: Mapping[str, Any]) -> None:
    """Print what a simulation would cost."""
    console.print(
        f"to simulate it: {cost['core_seconds']:,.0f} core seconds ({cost['devices_per_second_and_core']:,.0f} devices "
        f"a second and core, measured here); to end within an hour it takes {cost['cores_for_an_hour']:,} "
        f"core{'' if cost['cores_for_an_hour'] == 1 else 's'}, within a day {cost['cores_for_a_day']:,}",
        highlight=False,
    )


def show_check(console: Console, check: Mapping[str, Any]) -> None:
    """Print predicted beside measured."""
    table = titled("the plan's own check", "checked", "predicted", "measured", "95 % interval")
    for name, words in (("accuracy", "items right"), ("exact", "all items right")):
        low, high = check["intervals"].get(name, [None, None])
        reach = "" if low is None else f"[{low:.4f}, {high:.4f}]"
        table.add_row(words, _share(check[f"{name}_predicted"]), _share(check[name]), Text(reach))
    console.print(table)


def show_learnable(console: Console, rows: Sequence[Mapping[str, Any]]) -> None:
    """Print what a file's users could let a server learn."""
    if not rows:
        remark(console, NOTHING_LEARNABLE)
        return
    columns = ("epsilon", "best design", "right with these users", "users for 99 % right")
    table = titled("what could be learned (two clusters by share of likes)", *columns)
    table.columns[3].no_wrap = True
    for row in rows:
        design = "none" if row["design"] is None else name_of(row)
        table.add_row(str(row["epsilon"]), Text(design), _share(row["accuracy"]), _users(row))
    console.print(table)
    remark(console, f"holds for {rows[0]['holds_for']}; {rows[0]['not_for']}")


def _users(row: Mapping[str, Any]) -> str:
    if row["users"] is None:
        return _short(str(row.get("note") or ""))
    if "users_low" not in row:
        return _count(row["users"])
    low, high = ("open" if end is None else _count(end) for end in (row["users_low"], row["users_high"]))
    return f"{_count(row['users'])}\n[{low},\n{high}]"


def _count(users: float) -> str:
    """Return a number of users, whole as long as it can be read at a glance."""
    return f"{users:,.0f}" if users < 1e11 else f"{users:.4g}"


def _short(note: str) -> str:
    """Return what stands in the table for a note."""
    if note == TOO_MANY:
        return f"> {MOST_USERS:.0e}"
    return note.split(" ", 1)[0] if note.startswith("blind") else "not here" if note else ""


def _share(value: float | bool | None) -> str:
    return "" if value is None else f"{value:.4f}"
