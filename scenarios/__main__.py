"""Lets ``python -m scenarios`` stand for ``blindrec`` where the command is not installed."""

from __future__ import annotations

from scenarios.cli import main

if __name__ == "__main__":
    main()
