"""Records: a run's folder, its JSON and its pictures, written last; and as one level of numbers and texts."""

import importlib.metadata
import io
import platform
import shlex
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import Any

from coordinator.protocol.errors import InputError
from scenarios.show.picture import Picture, Tables
from scenarios.store.whole_files import to_json, try_file, write_bytes, write_json

STDOUT = "-"
PROVENANCE = "provenance"
"""The key under which a file of `--json` says what made it; on standard output and in folders it stands elsewhere."""
_COMMAND: ContextVar[str | None] = ContextVar("command", default=None)
_PACKAGES = ("blindrec", "ray", "numpy", "numba", "scipy", "scikit-learn", "kmeans1d", "pandas", "pyarrow")


def check_target(json_target: str | None) -> None:
    """Before anything runs, make sure that the JSON result can be written."""
    if json_target not in (None, STDOUT):
        check_file("json file", Path(str(json_target)))


def check_file(name: str, target: Path) -> None:
    """Make sure that a file can be written."""
    if target.is_dir():
        raise InputError(f"{name} {target} is a folder; name a file")
    try_file(target, f"{name} {target} cannot be written", "name a file in an existing folder")


def write_target(name: str, target: Path, content: bytes) -> None:
    """Write a file whole or not at all."""
    try:
        write_bytes(target, content)
    except OSError as error:
        raise InputError(f"{name} {target} cannot be written ({error.strerror}); name another") from None


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that results depend on."""
    return {"python": platform.python_version(), **{name: _version_of(name) for name in _PACKAGES}}


@cache  # reading all of them takes as long as a small run
def _version_of(package: str) -> str:
    return importlib.metadata.version(package)


@contextmanager
def typed(arguments: Sequence[str]) -> Iterator[None]:
    """Remember a command while it runs, for what it writes."""
    token = _COMMAND.set(shlex.join(["blindrec", *arguments]))
    try:
        yield
    finally:
        _COMMAND.reset(token)


def provenance() -> dict[str, Any]:
    """Return where a result comes from: its ``command`` (None from Python), and the time at which it ``ended``."""
    return {"command": _COMMAND.get(), "ended": datetime.now(UTC).isoformat(timespec="seconds")}


def write_result(out: Path, result: dict[str, Any], scenario: dict[str, Any] | None = None, **read: str | None) -> None:
    """Write what every finished folder holds beside its tables: the scenario, what made it, and last the result."""
    if scenario is not None:
        write_json(out / "scenario.json", scenario)
    present = {name: value for name, value in read.items() if value is not None}
    write_json(out / "versions.json", {**versions(), **provenance(), **present})
    write_json(out / "result.json", result)


def deliver(json_target: str | None, result: dict[str, Any]) -> None:
    """Print the result on standard output (``"-"``), write it to a file, or do nothing (None)."""
    if json_target == STDOUT:
        sys.stdout.write(to_json(result))
    elif json_target is not None:
        made = {**result, PROVENANCE: {**provenance(), "versions": versions()}}
        write_target("json file", Path(json_target), to_json(made).encode())


def flat(record: Mapping[str, Any]) -> dict[str, float | str]:
    """Return a record as one level: numbers as floats or whole numbers, texts, truths as 1 and 0; no None.

    >>> flat({"epsilon": "inf", "exact": True, "error": None, "intervals": {"ari": [0.5, 1.0]}})
    {'epsilon': inf, 'exact': 1, 'intervals.ari.low': 0.5, 'intervals.ari.high': 1.0}
    """
    return dict(_parts("", record))


def _parts(name: str, value: Any) -> Iterator[tuple[str, float | str]]:
    before = f"{name}." if name else ""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _parts(f"{before}{key}", item)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        ends = ("low", "high") if name.startswith("intervals.") and len(value) == 2 else range(len(value))
        for key, item in zip(ends, value, strict=True):
            yield from _parts(f"{before}{key}", item)
    elif isinstance(value, bool):
        yield name, int(value)
    elif isinstance(value, (int, float, str)):
        yield name, float("inf") if value == "inf" else value


FAMILIES = (
    "run",
    "two-tier",
    "online",
    "sweep",
    "plan",
    "compare",
    "risk",
    "years",
    "data",
    "audit",
    "bounds",
    "adversary",
)


def pictures_of(family: str, record: Mapping[str, Any], tables: Tables | None = None) -> tuple[Picture, ...]:
    """Return the pictures of a result; the first is what `--figure` writes and `.plot()` draws."""
    if family not in FAMILIES:
        raise InputError(f"family is {family!r}; choose among {', '.join(FAMILIES)}")
    # The module whose function of that name declares their pictures
    module = importlib.import_module(f"scenarios.show.{'sweep' if family == 'sweep' else 'result'}_figures")
    return tuple(getattr(module, family.replace("-", "_"))(record, tables or {}))


ENDINGS: dict[str, dict[str, Any]] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}, ".png": {}}
"""Of files, with what is left out of them so that they do not depend on the day."""


def check_ending(name: str, target: Path | None, endings: Iterable[str]) -> None:
    """Make sure that a file can be written, and that its name ends as it must, before anything runs."""
    if target is None:
        return
    if target.suffix.lower() not in endings:
        raise InputError(f"{name} is {target}; name a file that ends in {', '.join(endings)}")
    check_file(name, target)


check_figure = partial(check_ending, "figure", endings=ENDINGS)


def rendered(picture: Picture, ending: str) -> bytes:
    """Return a picture as the content of a file, the same for the same result."""
    from matplotlib.figure import Figure  # noqa: PLC0415 (plotting, where something is drawn)

    from scenarios.show.drawing import draw_picture, styled  # noqa: PLC0415 (as above)

    content, figure = io.BytesIO(), Figure()
    with styled(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing", UserWarning)  # a name in a script that the font lacks
        draw_picture(picture, figure)
        figure.savefig(content, format=ending.removeprefix("."), metadata=ENDINGS[ending])
    return content.getvalue()


def draw(target: Path, picture: Picture) -> None:
    """Draw a picture, and write it whole or not at all."""
    write_target("figure", target, rendered(picture, target.suffix.lower()))


def deliver_figure(
    target: Path | None, family: str, record: Mapping[str, Any], tables: Callable[[], Mapping[str, Any]] = dict
) -> None:
    """Write the first picture of a result where `--figure` wants it, or do nothing (None)."""
    if target is None:
        return
    pictures = pictures_of(family, record, tables())
    if not pictures:
        raise InputError(f"figure {target}: this result holds nothing that can be drawn; leave --figure out")
    draw(target, pictures[0])
