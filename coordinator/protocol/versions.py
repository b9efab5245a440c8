"""The versions of libraries whose private parts are used: any other one is refused before they are touched."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version

from coordinator.protocol.errors import InputError

TESTED = {"numba": "0.68.1", "ray": "2.60.0"}
"""The versions that the tests run with, as in constraints.txt and pyproject.toml."""


@cache
def require_tested(name: str) -> None:
    """Refuse a library whose version nobody has tried: a promise such as that of loopback could be broken silently.

    Raises
    ------
    InputError
        If another version than the one in `TESTED` is installed, or none.
    """
    try:
        installed = version(name)
    except PackageNotFoundError:
        installed = "not installed"
    if installed != TESTED[name]:
        extras = "[default]" if name == "ray" else ""
        raise InputError(
            f"{name} is {installed}, blindrec was tested with {TESTED[name]} and uses what is private to it; "
            f'pip install "{name}{extras}=={TESTED[name]}"'
        )
