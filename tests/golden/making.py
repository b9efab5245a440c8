"""The golden file: where it lies, what stands in it, and how it is made."""

import json
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Any

from rich.console import Console

from golden.cases import CASES
from golden.comparing import as_text, differences, kept
from golden.devices import DEVICES
from golden.inside import lay_out, told

PATH = Path(__file__).parent / "golden.json"
NAMES = (*DEVICES, *CASES)  # Every case: what devices release to fixed queries, then command lines


@cache
def golden() -> dict[str, Any]:
    """Return the golden file."""
    found: dict[str, Any] = json.loads(PATH.read_text(encoding="utf-8"))
    return found


def found(name: str, folder: Path, backend: str = "inprocess") -> dict[str, Any]:
    """Return what a case tells here and now, in a new folder."""
    if name in DEVICES:
        return DEVICES[name]()
    lay_out(folder)
    return told(CASES[name].command, folder, backend)


def wrong(name: str, folder: Path, backend: str = "inprocess") -> list[str]:
    """Return how a case differs from the golden file, a line a place."""
    if name not in golden():
        return [f"{name}: not in {PATH.name}; python -m tests.golden --write makes it anew"]
    return [f"{name}: {line}" for line in differences(golden()[name], found(name, folder, backend))]


def make() -> None:
    """Write the golden file."""
    with tempfile.TemporaryDirectory() as folder:
        PATH.write_text(as_text({name: kept(_timed(name, Path(folder))) for name in NAMES}) + "\n", encoding="utf-8")


def compare() -> list[str]:
    """Return how all cases differ from the golden file."""
    with tempfile.TemporaryDirectory() as folder:
        return [line for place, name in enumerate(NAMES) for line in wrong(name, Path(folder) / str(place))]


def _timed(name: str, folder: Path) -> dict[str, Any]:
    start = time.monotonic()
    value = found(name, folder / str(NAMES.index(name)))
    Console(stderr=True).print(f"{time.monotonic() - start:6.2f} s  {name}", highlight=False)
    return value
