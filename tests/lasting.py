"""What lasts of a result: what two runs of the same scenario have in common."""

from collections.abc import Set
from typing import Any

PROVENANCE = {"command", "ended"}  # What a folder says of where it comes from


def lasting(value: Any, without: Set[str]) -> Any:
    """A result without some of its values, wherever they stand in it."""
    if isinstance(value, dict):
        return {name: lasting(one, without) for name, one in value.items() if name not in without}
    return [lasting(one, without) for one in value] if isinstance(value, list) else value
