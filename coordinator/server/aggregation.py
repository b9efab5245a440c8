"""Releases become statistics, where they lie; public coins repeat what each device was asked."""

from typing import Any

from coordinator.protocol.decoding.threads import load_k_means
from coordinator.protocol.errors import InputError
from coordinator.protocol.mechanisms import check_question, mechanism_of
from coordinator.protocol.messages import Query, Release
from coordinator.protocol.statistics.statistic import Statistic


def aggregate(query: Query, release: Release) -> Statistic:
    """Return the statistic of one block's release; public coins repeat what each device was asked."""
    mechanism = check_question(query)
    Release.arrived(release).require(query)
    return mechanism.count(query, release)


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
    questions = b"" if query.own_questions else None
    return Release(query_id=query.id, first=0, count=0, width=query.bits, bits=b"", questions=questions)


def load_decoder(query: Query) -> None:
    """Load what clusters the items of a mechanism that learns from pairs, so that this is over before a clock runs."""
    if mechanism_of(query.design).paired:
        load_k_means()
