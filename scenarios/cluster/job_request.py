"""The request for a cluster: a command of blindrec, checked here before anything is sent."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coordinator.protocol.errors import InputError
from scenarios.config.files import read_toml

_HERE_ONLY = ("submit", "status", "watch", "fetch", "stop")
_DATA = ("ratings", "file")  # Parameters that name data files, which are never sent
_SETTINGS = ("scenario", "world", "grid")  # Parameters that name a TOML file of the working directory, which is sent


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A command for the cluster."""

    # The words after ``blindrec``; files that are sent are named relative to the working directory
    arguments: tuple[str, ...]
    data: tuple[str, ...] = ()  # Absolute paths of data that must be on the cluster
    out: Path | None = None  # Folder that the command fills there


def check_request(tree: Any, arguments: Sequence[str], folder: Path) -> Request:
    """Check a command against blindrec's own command line, and the files that it names."""
    values = parsed(tree, arguments)
    sent = list(arguments)
    data: list[str] = []
    for name, path in _files(values):
        if name in _DATA:
            data.append(_on_cluster(name, path))
        else:
            inside = _travelling(name, path, folder)
            sent = [_renamed(argument, str(path), str(inside)) for argument in sent]
            data += [_on_cluster(key, Path(value)) for key, value in _named_in(folder / inside)]
    for name, kind, more in (("out", "folder", ", and --json for the result here"), ("figure", "file", "")):
        if (target := values.get(name)) is not None and not Path(target).is_absolute():
            raise InputError(
                f"{name} is {target}, a {kind} beside the job's copy of the working directory, which Ray deletes; give "
                f"an absolute path on a disk of the cluster{more}"
            )
    return Request(arguments=tuple(sent), data=tuple(data), out=values.get("out"))


def parsed(tree: Any, arguments: Sequence[str]) -> dict[str, Any]:
    """Return the values that a command line gives to the parameters of its command."""
    command, rest = tree, list(arguments)
    while hasattr(command, "commands"):
        choices = [name for name in command.commands if name not in _HERE_ONLY]
        rest = command.completed(rest) if hasattr(command, "completed") else rest
        name = rest.pop(0) if rest else ""
        if name not in choices:
            raise InputError(f"command {name!r} cannot be submitted; after submit name one of {', '.join(choices)}")
        command = command.commands[name]
    values: dict[str, Any] = command.make_context(command.name, rest).params
    return values


def _files(values: dict[str, Any]) -> list[tuple[str, Path]]:
    named = [(name, Path(values[name])) for name in (*_DATA, *_SETTINGS) if values.get(name) is not None]
    return [(name, path) for name, path in named if name != "grid" or path.suffix == ".toml" or path.is_file()]


def _on_cluster(name: str, path: Path) -> str:
    if path.is_absolute():
        return str(path)
    here = "is on this machine only" if path.exists() else "is no absolute path"
    raise InputError(
        f"{name} {path} {here}, and data is not sent; place the file on the cluster's head node and give its absolute "
        f"path there, e.g. /data/{path.name}"
    )


def _travelling(name: str, path: Path, folder: Path) -> Path:
    """Return a file's path relative to the working directory, with which it is sent."""
    if not (folder / path).is_file():
        raise InputError(f"{name} file {path} does not exist; name a TOML file in {folder}")
    target = (folder / path).resolve()
    if not target.is_relative_to(folder.resolve()):
        raise InputError(f"{name} file {path} lies outside {folder}, which is what is sent; copy it there")
    return target.relative_to(folder.resolve())


def _renamed(argument: str, old: str, new: str) -> str:
    flag, equals, value = argument.partition("=")
    if equals and value == old and flag.startswith("--"):
        return f"{flag}={new}"
    return new if argument == old else argument


def _named_in(file: Path) -> list[tuple[str, str]]:
    """Return the data that a TOML file names; one that cannot be read is the command's to complain about."""
    try:
        values = read_toml(file, "TOML file")
    except InputError:
        return []
    tables = [values, *(value for value in values.values() if isinstance(value, dict))]
    return [("ratings", table["ratings"]) for table in tables if isinstance(table.get("ratings"), str)]
