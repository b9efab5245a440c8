"""Makes what tests share importable by name: tests are imported from their files and see no directory of their own.

`reference` is the oracle in plain Python, `statistical` holds error radii, `worlds` builds the project's objects.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path


def _share(name: str) -> None:
    spec = importlib.util.spec_from_file_location(name, Path(__file__).parent / f"{name}.py")
    if spec is None or spec.loader is None:
        raise ImportError(f"tests/{name}.py cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)


for shared in ("reference", "statistical", "worlds"):
    _share(shared)
