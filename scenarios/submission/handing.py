"""The cluster's side of `blindrec fetch`: ``python -m scenarios.submission.handing FOLDER`` puts it into the log."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path
from typing import NoReturn

from scenarios.submission.pieces import send

BAD_INPUT = 2


def main(name: str) -> NoReturn:
    """Send a folder, and end."""
    folder = Path(name)
    if not folder.is_dir():
        sys.stderr.write(f"there is no folder {folder} on node {platform.node()}\n")
        sys.exit(BAD_INPUT)
    send(folder, lambda line: os.write(1, f"{line}\n".encode()))
    sys.exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
