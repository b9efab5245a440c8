"""Aggregation: one block's release becomes a statistic, by the mechanism of its query."""

from __future__ import annotations

from typing import Any

from coordinator.protocol.errors import InputError
from coordinator.protocol.messages import Query, Release
from coordinator.protocol.questions import check_question
from coordinator.server.mechanisms import half_of
from coordinator.server.statistics.statistic import Statistic


def aggregate(query: Query, release: Release) -> Statistic:
    """Return the statistic of one block's release; public coins tell again what each device was asked."""
    check_question(query)
    Release.arrived(release).require(query)
    return half_of(query.design).aggregate(query, release)


def require_answer(query: Query, release: Any, first: int, stop: int) -> None:
    """Raise InputError if what devices ``first`` to ``stop - 1`` sent is not their release to a query."""
    Release.arrived(release).require(query)
    if (release.first, release.count) != (first, stop - first):
        raise InputError(
            f"{release.count} devices from {release.first} on answered, devices {first} to {stop - 1} were asked; let "
            "each block answer for itself"
        )


def no_release(query: Query) -> Release:
    """Return a release without devices; aggregating it compiles what real releases need."""
    return Release(query_id=query.id, first=0, count=0, width=query.bits, bits=b"")


def load_decoder(query: Query) -> None:
    """Load what clusters the items of a mechanism that learns from pairs, so that this is over before a clock runs."""
    if half_of(query.design).paired:
        from coordinator.server.decoding.threads import load_k_means  # noqa: PLC0415 (others need none of it)

        load_k_means()
