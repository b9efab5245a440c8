"""Packages of other projects that stand where blindrec's own should: reported in one line, without importing them."""

import importlib.util
from importlib.machinery import ModuleSpec
from pathlib import Path

NEIGHBOURS = ("actors", "coordinator", "scenarios")
"""Blindrec's own packages; distributions with each of these names exist on PyPI."""
MARK = 'PART_OF = "blindrec"'  # The line that the ``__init__.py`` of each of them holds


def foreign(home: Path) -> str | None:
    """Return in one line which package is missing or another project's, and what to do; None where all are ours.

    A package is ours if its first file says so, wherever it lies: Ray puts each package that it is sent into a folder
    of its own, an editable install leads to a checkout, and what was zipped stays in the zip. A foreign wheel that was
    installed over ours left its own first file, in the same place. Where no source can be read, the place decides:
    ``home`` is the folder that holds the package ``blindrec`` itself.
    """
    for name in NEIGHBOURS:
        spec = _spec(name)
        if spec is None or not _is_ours(spec, home / name):
            where = "is not there" if spec is None else f"in {_place(spec)} is another project's package"
            return (
                f"{name} {where}, blindrec needs its own; pip uninstall {name}, then pip install --force-reinstall "
                "blindrec, or give blindrec an environment of its own"
            )
    return None


def _spec(name: str) -> ModuleSpec | None:
    try:
        return importlib.util.find_spec(name)
    except ValueError:  # a module of this name was made by hand
        return ModuleSpec(name, None, origin="this process")


def _is_ours(spec: ModuleSpec, expected: Path) -> bool:
    source = getattr(spec.loader, "get_source", lambda _: None)(spec.name)
    return MARK in source.splitlines() if source is not None else Path(_place(spec)) == expected


def _place(spec: ModuleSpec) -> str:
    """Return the folder of a package, the file of a module."""
    return next(iter(spec.submodule_search_locations or ()), None) or str(spec.origin)
