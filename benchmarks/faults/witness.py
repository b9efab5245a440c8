"""What must hold in every history, looked at with every answer that leaves a device, and at the end."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable
from contextlib import suppress
from fractions import Fraction
from pathlib import Path

import numpy as np

from actors.charges import Entry, read_entry
from benchmarks.faults.disk import Disk
from benchmarks.faults.scheduler import Violation
from benchmarks.faults.worlds import USERS, World, truth, undisturbed
from coordinator.protocol.arrays import Bools
from coordinator.protocol.messages import Query, Release
from coordinator.server.rounds.query_rounds import Outcome
from coordinator.server.rounds.transcript import digest


class Witness:
    """Sees every release, and the disk; knows what devices must say.

    Parameters
    ----------
    world : World
        Where.
    disk : Disk
        Of the run.
    """

    def __init__(self, world: World, disk: Disk) -> None:
        self._world, self._disk = world, disk
        self._cut_off: dict[bytes, set[int]] = {}
        self._masks: dict[tuple[bytes, bytes], Bools] = {}
        self._said: set[tuple[bytes, int]] = set()
        self.books: list[Path] = []

    @property
    def cut_off(self) -> int:
        """Answers that are missing since devices could not reach their keeper."""
        return sum(map(len, self._cut_off.values()))

    def cannot_book(self, query_id: bytes, first: int, stop: int) -> None:
        """Note devices that could not reach their keeper when they were asked."""
        self._cut_off.setdefault(query_id, set()).update(range(first, stop))

    def leaves(self, query: Query, release: Release) -> None:
        """Look at a release that leaves its devices.

        Raises
        ------
        Violation
            If a device says what it never says, or what is not booked on the disk; or the book is wrong.
        """
        devices = release.first + np.flatnonzero(release.answered_mask())
        bits = release.unpacked()[devices - release.first]
        if not np.array_equal(bits, truth(query)[devices]):
            raise Violation(f"devices {release.first} to {release.first + release.count - 1} said two things")
        self._said |= {(query.id, int(device)) for device in devices}
        booked = self.booked()
        missing = [int(device) for device in devices if (query.id, int(device)) not in booked]
        if missing:
            raise Violation(f"devices {missing} answered {query}, and that is not booked on the disk")

    def booked(self) -> set[tuple[bytes, int]]:
        """Return what is booked on the disk, by query and device.

        Raises
        ------
        Violation
            If a device is charged twice for a question, or spends more than its budget.
        """
        found: set[tuple[bytes, int]] = set()
        spent = [Fraction(0)] * USERS
        for folder in self.books:
            for entry in _entries(self._disk.lasting(folder).values()):
                for device in range(entry.first, entry.stop):
                    if (entry.id, device) in found:
                        raise Violation(f"device {device} was charged twice for {entry.id.hex()[:8]}")
                    found.add((entry.id, device))
                    spent[device] += entry.epsilon or 0
        if self._world.budget is not None and max(spent) > self._world.budget:
            raise Violation(f"device {spent.index(max(spent))} spent {max(spent)} of {self._world.budget}")
        return found

    def nothing_forgotten(self) -> None:
        """Look at the disk after a crash.

        Raises
        ------
        Violation
            If somebody answered what is booked no more.
        """
        if forgotten := self._said - self.booked():
            raise Violation(f"{len(forgotten)} answers are booked no more, such as that of device {min(forgotten)[1]}")

    def round_over(self, query: Query, releases: Iterable[Release]) -> None:
        """Note who answered in a round that the server takes for over."""
        told = list(releases)
        mask = np.concatenate([release.answered_mask() for release in told])
        self._masks[query.id, digest(told)] = mask

    def ends(self, outcome: Outcome, digests: list[bytes]) -> None:
        """Look at how the run ended.

        Raises
        ------
        Violation
            If it is not as if nothing had happened, but for devices that could not reach their keeper.
        """
        whole = undisturbed(self._world)
        self.nothing_forgotten()
        if outcome.failure:
            raise Violation(f"the policy is said to have gone astray: {outcome.failure}")
        for ask, counts in zip(outcome.state.asked, outcome.state.counts, strict=True):
            if (counts.asked, counts.answered + counts.refused) != (ask.stop - ask.first, counts.asked):
                raise Violation(f"of {ask.stop - ask.first} devices in round {ask.query.round}, {counts} is counted")
        if not self._cut_off:
            same = outcome.releases_sha256 == whole.outcome.releases_sha256
            same = same and outcome.state.counts == whole.outcome.state.counts
            if not same or not np.array_equal(outcome.model.score, whole.outcome.model.score):
                raise Violation("it ended with other releases, counts or another model than if nothing had happened")
            return
        self._only_cut_off_ones_differ(outcome, digests)

    def _only_cut_off_ones_differ(self, outcome: Outcome, digests: list[bytes]) -> None:
        """Hold every round's answers against the undisturbed ones, device by device."""
        whole, excused = undisturbed(self._world), set[int]()
        for ask, one in zip(outcome.state.asked, digests, strict=True):
            query_id = ask.query.id
            excused |= self._cut_off.get(query_id, set())
            differ = set((ask.first + np.flatnonzero(self._masks[query_id, one] != whole.answered[query_id])).tolist())
            if differ - excused:
                raise Violation(f"devices {sorted(differ - excused)} differ in round {ask.query.round} without a cause")


def _entries(files: Iterable[bytes]) -> Iterable[Entry]:
    for content in files:
        yield from _read(content)


@functools.lru_cache(maxsize=256)
def _read(content: bytes) -> tuple[Entry, ...]:
    """Return what a file of a ledger tells; its head, and a last line that was torn, are left out."""
    told = [line.partition(b" ")[2] for line in content.split(b"\n")][1:] or [b""]
    with suppress(ValueError):
        json.loads(told[-1])  # whole, and only its end is missing: that counts
        told.append(b"")
    return tuple(read_entry(json.dumps(json.loads(line)[2])) for line in told[:-1])
