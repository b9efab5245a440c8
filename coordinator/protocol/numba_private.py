"""What is private in numba, tried with its version 0.68: kernels that count no references to arrays."""

from contextlib import suppress


def borrowing_options() -> dict[str, bool]:
    """Return the options of kernels that count no references; none, so that they count, where numba has none such."""
    with suppress(ImportError):
        from numba.core.options import DefaultOptions  # noqa: PLC0415 (private, and may go)

        if hasattr(DefaultOptions, "_nrt"):
            return {"_nrt": False}
    return {}
