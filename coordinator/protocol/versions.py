"""The versions of libraries whose private parts are used: any other one is refused before they are touched."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, version

from coordinator.protocol.errors import InputError

TESTED = {"numba": ("0.68.1", "0.68.1"), "ray": ("2.57.0", "2.60.0")}
"""The oldest and the newest version that the tests run with, as in constraints.txt, pyproject.toml and the Makefile."""


@cache
def require_tested(name: str) -> None:
    """Refuse a library whose version nobody has tried: a promise such as that of loopback could be broken silently."""
    oldest, newest = TESTED[name]
    try:
        installed = version(name)
    except PackageNotFoundError:
        installed = "not installed"
    if _parts(oldest) <= _parts(installed) <= _parts(newest):
        return
    extras = "[default]" if name == "ray" else ""
    tested = newest if oldest == newest else f"{oldest} to {newest}"
    raise InputError(
        f"{name} is {installed}, blindrec was tested with {tested} and uses what is private to it; "
        f'pip install "{name}{extras}=={newest}"'
    )


def _parts(release: str) -> tuple[int, ...]:
    """Return the numbers of a release in their order; none for what is no release, such as a nightly build."""
    parts = release.split(".")
    return tuple(map(int, parts)) if all(one.isdecimal() for one in parts) else ()
