"""Lets ``python -m scenarios`` stand for ``blindrec`` where the command is not installed."""

from scenarios.cli import main

if __name__ == "__main__":
    main()
