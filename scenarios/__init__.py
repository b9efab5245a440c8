"""Experiments: the one package that knows both sides."""

import hashlib
import os
from pathlib import Path

PART_OF = "blindrec"
PACKAGES = ("actors", "blindrec", "coordinator", "scenarios")
"""All packages of blindrec: what travels to a cluster, and what a run's code digest is made of."""


def name_kernels_folder(home: Path) -> None:
    """Let numba, where it is not loaded yet, keep kernels by the digest of all code if it cannot beside their modules.

    The digest is of all packages in ``home``, because a kernel holds the kernels of other modules that it calls.
    """
    if "NUMBA_CACHE_DIR" not in os.environ and not os.access(home / "coordinator", os.W_OK):
        files = sorted(file for name in PACKAGES for file in (home / name).rglob("*.py"))
        digest = hashlib.sha256(b"".join(hashlib.sha256(file.read_bytes()).digest() for file in files)).hexdigest()
        caches = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111 (Path's fails without a home)
        os.environ["NUMBA_CACHE_DIR"] = str(Path(caches) / "blindrec" / digest)


name_kernels_folder(Path(__file__).parents[1])
