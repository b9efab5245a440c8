"""Pages of the reference that the site makes from the code: commands, mechanisms, columns, errors of Ray, rooms."""

import ast
import tomllib
from collections.abc import Iterator
from typing import Any

from benchmarks.pages import ROOT, table
from coordinator.protocol.losses import FATES
from coordinator.protocol.second_order import two_tier_mechanism
from scenarios.cli import command_line
from scenarios.config.mechanism_settings import designs
from scenarios.config.resolve import resolve
from scenarios.config.scenario import Scenario
from scenarios.experiment.common_columns import EVERY_RESULT, IN_TABLES
from scenarios.experiments import EXPERIMENTS
from scenarios.show.columns import Column
from scenarios.studies.compare import summary
from scenarios.studies.planner import plan
from scenarios.studies.sweep.sweeps import KINDS, kind_of


def sections() -> dict[str, dict[str, str]]:
    """Return the meanings of keys, by sections: of all results, of experiments by their columns, and of studies."""
    common = {column.name: column.meaning for column in columns() if column.meaning and _families(column.name) > 1}
    every = {"Several experiments": common}
    for name, experiment in EXPERIMENTS.items():
        alone = (column for column in experiment.columns if column.meaning and column.name not in common)
        every[f"blindrec {name}"] = {column.name: column.meaning for column in alone}
    lists = {"Every result": EVERY_RESULT, "Tables of a run": IN_TABLES, "Plans": plan.MEANINGS}
    lists |= {"Comparisons": summary.MEANINGS} | {f"Sweeps: {name}": kind_of(name).meanings for name in KINDS}
    return every | lists


def columns() -> Iterator[Column[Any]]:
    """Yield the columns of all experiments."""
    for experiment in EXPERIMENTS.values():
        yield from experiment.columns


def _families(name: str) -> int:
    return sum(any(column.name == name for column in experiment.columns) for experiment in EXPERIMENTS.values())


def mechanisms() -> dict[str, list[str]]:
    """Return of each mechanism what a device is asked, what it releases, and when it is best."""
    return tomllib.loads((ROOT / "docs/mechanisms.toml").read_text(encoding="utf-8"))


def _commands() -> Iterator[tuple[str, Any]]:
    for name, command in command_line().commands.items():
        yield f"blindrec {name}", getattr(command, "loaded", command)
        for below, subcommand in getattr(command, "commands", {}).items():
            yield f"blindrec {name} {below}", getattr(subcommand, "loaded", subcommand)


def commands_page() -> str:
    """Return the page of all commands with their flags, in the words of their help."""
    text = "# Every command\n\nThis page is made from `--help`. Square brackets hold what is taken without the flag.\n"
    for name, command in _commands():
        help_text = (command.help or "").replace("\b", "")
        text += f"\n## {name}\n\n```text\n{help_text.strip()}\n```\n"
        rows = [
            (f"`{', '.join([*parameter.opts, *parameter.secondary_opts])}`", getattr(parameter, "help", None) or "")
            for parameter in command.params
        ]
        text += f"\n{table(('flag', 'meaning'), rows)}\n" if rows else ""
    return text


def mechanisms_page() -> str:
    """Return the page of mechanisms: what is asked, released and guaranteed, and when each is best."""
    rows = []
    for name, (question, release, best) in mechanisms().items():
        ours = name in designs()
        guarantee = (
            resolve(Scenario(design=name)).account.guarantee.text if ours else two_tier_mechanism(name).guarantee
        )
        rows.append((f"`{name}`", question, release, guarantee, best))
    heads = ("`--design`, or `--mechanism` of two tiers", "a device is asked", "it releases", "guarantee", "best for")
    return f"# Mechanisms\n\nGuarantees are the words of the code.\n\n{table(heads, rows)}\n"


def columns_page() -> str:
    """Return the page of the keys of all results, with what tables call them and what they mean."""
    printed = {column.name: column.label.strip() for column in columns() if column.label}
    text = (
        "# Columns of results\n\nThe keys of `--json`, of the tables in a folder, and of `frame()`. `X_low` and "
        "`X_high` are the ends of the interval of 95 % of `X`, `X_error` is its standard error; `X_least`, `X_mean`, "
        "`X_median` and `X_most` are taken over clients. A result repeats settings under the names of their flags.\n"
    )
    for title, names in sections().items():
        rows = [(f"`{name}`", printed.get(name, ""), label) for name, label in names.items()]
        text += f"\n## {title}\n\n{table(('key', 'in printed tables', 'meaning'), rows)}\n"
    return text


def errors_page() -> str:
    """Return the page of Ray's errors and what becomes of a run at each."""
    rows = [
        (fate, ", ".join(f"`{name}`" for name in FATES if FATES[name] == fate))
        for fate in dict.fromkeys(FATES.values())
    ]
    return (
        "# Errors of Ray\n\n*Lost*: a process, a node or an object is gone, and is asked or started again, eight times "
        "at most. *Ends*: no other attempt would help, and the command ends with a line. *Waits*: a time was up. "
        "*Inside*: code raised an error in another process, which is raised here. *Fault*: a fault of blindrec, or of "
        f"a part of Ray that it does not use: a trace and exit code 1.\n\n{table(('what happens', 'errors'), rows)}\n"
    )


def rooms() -> dict[str, str]:
    """Return what each folder of code is for, the first line of its ``__init__.py``."""
    packages = ("actors", "blindrec", "coordinator", "scenarios")
    paths = sorted(path for package in packages for path in (ROOT / package).rglob("__init__.py"))
    texts = {path.parent: ast.get_docstring(ast.parse(path.read_bytes())) or "" for path in paths}
    return {room.relative_to(ROOT).as_posix(): text.split("\n")[0] for room, text in texts.items()}


def rooms_page() -> str:
    """Return the page of all rooms."""
    rows = [(f"`{room}`", subject) for room, subject in rooms().items()]
    return f"# Rooms\n\n{table(('room', 'subject'), rows)}\n"


def pages() -> dict[str, str]:
    """Return all of these pages by their places on the site."""
    return {
        "reference/commands.md": commands_page(),
        "reference/mechanisms.md": mechanisms_page(),
        "reference/columns.md": columns_page(),
        "reference/errors-of-ray.md": errors_page(),
        "reference/rooms.md": rooms_page(),
    }
