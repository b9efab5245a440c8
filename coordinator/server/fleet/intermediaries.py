"""What two servers publish, or a shuffler hands on without addresses, becomes a statistic and a digest."""

import itertools
import pickle
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from coordinator.protocol.agreement import Agreement
from coordinator.protocol.errors import LostError, WithheldError
from coordinator.protocol.mechanisms import mechanism_of
from coordinator.protocol.messages import QUESTION_BYTES, Query, Release
from coordinator.protocol.shares import PublishedSum, RollError, ShareRoll, digest_of_published, opened
from coordinator.protocol.statistics.counts import CountStatistic
from coordinator.protocol.statistics.statistic import Statistic, merge, no_answer
from coordinator.protocol.trust import OpeningError, ShuffledRound
from coordinator.server.aggregation import aggregate, no_release
from coordinator.server.fleet.cohorts import Layout, calls
from coordinator.server.rounds.state import Ask
from coordinator.server.rounds.transcript import Sealed, seal

Both = Callable[[str, Sequence[tuple[Any, ...]]], Sequence[Any]]
"""Calls a method of both servers, the server of words first, with arguments for each; returns both results."""
ATTEMPTS = 4  # Times that shares are collected while the two servers hold those of different devices


class SumQuerying:
    """Asks two servers for the sum of devices' shares; see `coordinator.server.rounds.conductor.Transport`."""

    def __init__(self, both: Both, *, report_progress: Callable[[int], None]) -> None:
        self._both, self._report_progress = both, report_progress

    def ask(self, ask: Ask) -> tuple[Statistic, Sequence[Release | Sealed]]:
        """Let both servers collect shares, compare who gave them, and open the sum of what both publish."""
        query, among = ask.query, None
        for attempt in itertools.count(1):
            rolls = None
            try:
                vectors, seeds = self._both("collect", [(query, ask.first, ask.stop, among)] * 2)
                rolls = ShareRoll.arrived(vectors), ShareRoll.arrived(seeds)
                # each server looks itself whether the other one has the same devices
                sums = self._both("publish", [(query, rolls[1]), (query, rolls[0])])
            except WithheldError:
                if not query.period or rolls is None:
                    raise
                self._report_progress(ask.stop - ask.first)
                refused = max(roll.refused for roll in rolls)
                nothing = np.zeros(0, np.int64)
                counts = CountStatistic(sums=nothing, ones=0, devices=rolls[0].count, answered=0, refused=refused)
                return mechanism_of(query.design).of_published(query, counts), ()
            except (RollError, OpeningError):
                if attempt == ATTEMPTS:
                    raise
                among = rolls and rolls[0].common(rolls[1])  # devices that both could reach
            else:
                self._report_progress(ask.stop - ask.first)
                return read_published(ask, PublishedSum.arrived(sums[0]), PublishedSum.arrived(sums[1]))
        raise LostError  # counting does not end


def read_published(
    ask: Ask, vectors: PublishedSum, seeds: PublishedSum
) -> tuple[Statistic, Sequence[Release | Sealed]]:
    """Return the statistic of a round, and what digests it and each server's transcript."""
    query, roll = ask.query, vectors.roll
    totals = opened(vectors, seeds)
    if (roll.query_id, roll.first, roll.count) != (query.id, ask.first, ask.stop - ask.first):
        empty = Release(query_id=query.id, first=roll.first, count=0, width=query.bits, bits=b"")
        raise no_answer(query, empty, "two servers published the sum of another round")
    counts = CountStatistic(
        sums=totals,
        ones=0,  # of answers that nobody sees
        devices=roll.count,
        answered=roll.devices,
        refused=max(roll.refused, seeds.roll.refused),
    )
    sealed = Sealed(
        query_id=query.id,
        first=ask.first,
        count=roll.count,
        width=query.bits,
        leaves=digest_of_published((vectors, seeds)),
        size=sum(len(pickle.dumps(published, protocol=5)) for published in (vectors, seeds)),
        transcripts=(vectors.transcript.hex(), seeds.transcript.hex()),
    )
    return mechanism_of(query.design).of_published(query, counts), [sealed]


def read_shuffled(
    ask: Ask, shuffled: ShuffledRound, agreement: Agreement, layout: Layout
) -> tuple[Statistic, Sequence[Release | Sealed]]:
    """Return the statistic of a round and what digests it; raise a `WithheldError` if the shuffler withheld it.

    A round of a period of time that was withheld is one without answers: its share is spent, and the horizon goes on.
    """
    query, devices = ask.query, ask.stop - ask.first
    shuffled = ShuffledRound.arrived(shuffled)
    shuffled.require(query, devices)
    if shuffled.release is None and query.period:
        return replace(aggregate(query, no_release(query)), devices=devices, refused=shuffled.refused), ()
    if shuffled.release is None:
        raise WithheldError(
            f"round {query.round} was withheld: {shuffled.answered:,} of {devices:,} devices answered, and the epsilon "
            f"that they were promised needs {agreement.reports(devices, query):,}; expect fewer answers "
            "(expected_answers), or let short rounds be handed on with a larger epsilon (short_rounds tell)"
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
