"""The command ``blindrec``, and ``python -m blindrec`` where it is not installed."""

from typing import NoReturn


def main() -> NoReturn:
    """Run the command line."""
    from scenarios.cli import main as command  # noqa: PLC0415 (`blindrec` looks first whether scenarios is its own)

    command()


if __name__ == "__main__":
    main()
