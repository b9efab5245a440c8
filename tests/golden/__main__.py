"""Makes the golden file anew, or tells how far this machine is from it: `python -m tests.golden [--write]`."""

import sys
from pathlib import Path

import typer


def main(*, write: bool = False) -> None:
    """Compare all cases with golden.json, or write them there."""
    tests = Path(__file__).parents[1]
    sys.path[:0] = [str(tests), str(tests / "support")]  # as conftest.py makes what tests share importable
    from golden.making import compare, make  # noqa: PLC0415

    if write:
        make()
    elif wrong := compare():
        sys.stdout.write("\n".join(wrong) + "\n")
        raise typer.Exit(1)


if __name__ == "__main__":
    typer.run(main)
