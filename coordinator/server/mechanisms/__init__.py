"""The server's half of each mechanism, a module each, found by what they declare; and releases become statistics."""

from functools import cache
from typing import Any

from coordinator.protocol.custom import admitted
from coordinator.protocol.errors import InputError
from coordinator.protocol.finding import RoomError, by_name, declared
from coordinator.protocol.mechanisms import check_question
from coordinator.protocol.messages import Query, Release
from coordinator.protocol.statistics.counts import CountStatistic
from coordinator.protocol.statistics.statistic import Statistic
from coordinator.server.custom import server_half
from coordinator.server.server_half import ServerHalf


@cache
def server_halves() -> dict[str, ServerHalf]:
    """Return every mechanism by its name."""
    halves = declared(__name__, __path__, "SERVER", ServerHalf)
    fields: dict[str, tuple[ServerHalf, str]] = {}
    for half in halves:
        for name, field in half.settings.model_fields.items():
            other, meant = fields.setdefault(name, (half, repr(field)))
            if meant != repr(field):
                raise RoomError(f"{other.name} and {half.name} share the setting {name}; give it one type and one text")
    return by_name(halves, lambda half: [half.name])


@cache
def _by_query() -> dict[str, ServerHalf]:
    return by_name(server_halves().values(), lambda half: half.asks)


def half_of(design: str) -> ServerHalf:
    """Return the half that reads queries of a design, `Query.design`."""
    if own := admitted(design):
        return server_half(own)
    if (half := _by_query().get(design)) is None:
        raise InputError(f"design {design!r} is unknown to the server; it knows {', '.join(_by_query())}")
    return half


def aggregate(query: Query, release: Release) -> Statistic:
    """Return the statistic of one block's release; public coins repeat what each device was asked."""
    check_question(query)
    Release.arrived(release).require(query)
    return half_of(query.design).aggregate(query, release)


def of_published(query: Query, totals: CountStatistic) -> Statistic:
    """Return the statistic of a round whose totals two servers published."""
    return half_of(query.design).of_published(query, totals)


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
    if half_of(query.design).paired:
        from coordinator.server.decoding.threads import load_k_means

        load_k_means()
