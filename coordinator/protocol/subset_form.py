"""How a subset of values is written: its values by their numbers, ascending, or a bit for every value."""

from __future__ import annotations

PADDED, CHOSEN = "padded", "chosen"
"""Parameters of queries: values that are a device's own, exactly, and values in a release."""


def value_bits(values: int) -> int:
    """Return the bits that name one of ``values`` values."""
    return max(1, (values - 1).bit_length())


def is_listed(values: int, subset_size: int) -> bool:
    """Return whether a release lists its values, because that takes fewer bits than one bit a value."""
    return subset_size * value_bits(values) < values


def subset_form(values: int, subset_size: int) -> tuple[int, int]:
    """Return the parts of a release and the bits of each: ``subset_size`` numbers, or a bit for every value."""
    return (subset_size, value_bits(values)) if is_listed(values, subset_size) else (values, 1)
