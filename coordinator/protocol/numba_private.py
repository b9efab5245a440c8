"""What is private in numba, tried with its version 0.68: kernels without parts that nobody uses."""

from contextlib import suppress


def private_options(**options: bool) -> dict[str, bool]:
    """Return those of some options that numba has."""
    with suppress(ImportError):
        from numba.core.options import DefaultOptions  # noqa: PLC0415 (private, and may go)

        return {name: value for name, value in options.items() if hasattr(DefaultOptions, name)}
    return {}
