"""The server's reading of a shuffled round: reports without addresses become a statistic and a digest."""

from collections.abc import Sequence
from dataclasses import replace

from coordinator.protocol.errors import WithheldError
from coordinator.protocol.messages import QUESTION_BYTES, Query, Release
from coordinator.protocol.trust import ShuffledRound, Shuffling
from coordinator.server.fleet.cohorts import Layout, calls
from coordinator.server.mechanisms import aggregate, no_release
from coordinator.server.rounds.state import Ask
from coordinator.server.rounds.transcript import Sealed, seal
from coordinator.server.statistics.statistic import Statistic, merge


def read_shuffled(
    ask: Ask, shuffled: ShuffledRound, terms: Shuffling, layout: Layout
) -> tuple[Statistic, Sequence[Release | Sealed]]:
    """Return the statistic of a round and what digests it; raise a `WithheldError` if the shuffler withheld it."""
    query, devices = ask.query, ask.stop - ask.first
    shuffled = ShuffledRound.arrived(shuffled)
    shuffled.require(query, devices)
    if shuffled.release is None:
        raise WithheldError(
            f"round {query.round} was withheld: {shuffled.answered:,} of {devices:,} devices answered, and the epsilon "
            f"that they were promised needs {terms.least(devices):,}; expect fewer answers (expected_answers), or let "
            "short rounds be handed on with a larger epsilon (short_rounds tell)"
        )
    blocks = [
        _part(shuffled.release, first, stop)
        for first, stop in calls(0, shuffled.answered, layout.block_of(query.bits), query.bits)
    ] or [no_release(query)]
    statistic = merge(*(aggregate(query, block) for block in blocks))
    return replace(statistic, devices=devices, refused=shuffled.refused), [seal(block) for block in blocks]


def _part(release: Release, first: int, stop: int) -> Release:
    """Return reports ``first`` to ``stop - 1`` of a release; blocks begin at multiples of 8."""
    bits = release.bits[first * release.width // 8 : -(-stop * release.width // 8)]
    questions = release.questions and release.questions[QUESTION_BYTES * first : QUESTION_BYTES * stop]
    return replace(release, first=first, count=stop - first, bits=bits, questions=questions)


def rehearse_reading(query: Query) -> None:
    """Compile what reading a round needs."""
    aggregate(query, no_release(query))
