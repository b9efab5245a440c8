"""The untrusted side: what a server that sees releases only can do."""

import hashlib
import importlib.util
import os
from pathlib import Path

PART_OF = "blindrec"
_SENT = "_ray_pkg_"  # Folders into which Ray unpacks what it was sent begin like this, one for each package


def name_kernels_folder(here: Path) -> None:
    """Let numba, which is not loaded yet, keep kernels by the digest of all code where they cannot lie beside modules.

    They cannot where this package's folder, ``here``, is not writable; and where Ray unpacked what it was sent, because
    a kernel holds kernels of other packages, which change without it.
    """
    writable = os.access(here, os.W_OK)
    if "NUMBA_CACHE_DIR" in os.environ or (writable and not any(part.startswith(_SENT) for part in here.parts)):
        return
    whole = hashlib.sha256()
    for spec in map(importlib.util.find_spec, ("actors", "coordinator", "scenarios")):
        for folder in (spec and spec.submodule_search_locations) or ():
            for file in sorted(Path(folder).rglob("*.py")):
                whole.update(hashlib.sha256(file.read_bytes()).digest())
    caches = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111 (Path's fails without a home)
    caches_folder = here / "__pycache__" if writable else Path(caches) / "blindrec"
    os.environ["NUMBA_CACHE_DIR"] = str(caches_folder / whole.hexdigest())


name_kernels_folder(Path(__file__).parent)
