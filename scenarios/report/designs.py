"""What a design is called in tables and pictures, and whom one has to trust for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from coordinator.protocol.admitted import UNCHECKED
from coordinator.server.server_half import TRUST_CURATOR
from scenarios.given.mechanisms import server_half

SAFE, OPEN = "protects all a device holds", "not private"
"""Headings of what may be recommended, unless epsilon is infinite, and of designs without a guarantee."""


def trust_of(row: Mapping[str, Any]) -> str:
    """Return the heading that a row of a plan stands under; `SAFE` ones may be recommended."""
    if not row["private"]:
        return OPEN
    if row["trust_model"] == TRUST_CURATOR:
        return "trusted curator"
    if row.get("channel") == UNCHECKED:
        return UNCHECKED
    return "rated items public" if row.get("rated_items") == "public" else SAFE


def name_of(row: Mapping[str, Any]) -> str:
    """Return design, what tells it apart, and decoder, where a design has more than one."""
    half = server_half(str(row["design"]))
    return ", ".join([half.label(row), *([str(row["decoder"])] if len(half.decoders) > 1 else [])])
