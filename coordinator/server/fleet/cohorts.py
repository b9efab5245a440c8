"""Which host answers for which device addresses, on Ray or in this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from coordinator.server.rounds.conductor import Block, Check


@dataclass(frozen=True, slots=True, kw_only=True)
class Cohorts:
    """Which host to ask for which stretch of addresses."""

    bounds: list[tuple[int, int]]  # The cohorts, ``[first, stop)`` each, ascending
    # Cohort k belongs to host k modulo their number, so that neighbouring cohorts are asked at the same time
    hosts: list[Any]

    def blocks(self, first: int, stop: int) -> list[Block]:
        """Return a block for each cohort that has some of the devices ``first`` to ``stop - 1``."""
        return [
            Block(self.hosts[place % len(self.hosts)], max(start, first), min(end, stop))
            for place, (start, end) in enumerate(self.bounds)
            if max(start, first) < min(end, stop)
        ]


def dealt(bounds: Sequence[tuple[int, int]], hosts: int) -> list[list[tuple[int, int]]]:
    """Assign cohorts to at most so many hosts, in turn; see `Cohorts`."""
    count = min(hosts, len(bounds))
    return [list(bounds[place::count]) for place in range(count)]


def side_by_side(bounds: Sequence[tuple[int, int]], hosts: int) -> list[list[tuple[int, int]]]:
    """Assign cohorts to at most so many hosts, neighbours to the same host."""
    each = -(-len(bounds) // hosts)
    return [list(bounds[first : first + each]) for first in range(0, len(bounds), each)]


class LocalHosts:
    """Hosts in this process; see `coordinator.server.rounds.conductor.Hosts`."""

    def __init__(self, cohorts: Cohorts, threads: ThreadPoolExecutor | None = None) -> None:
        self._threads = threads
        self.blocks = cohorts.blocks

    def ask(self, question: Any, blocks: Sequence[Block], check: Check, *shared: Any) -> list[Any]:
        """Ask blocks; see `coordinator.server.rounds.conductor.Hosts.ask`."""

        def answer(block: Block) -> Any:
            reply = block.host.ask(question, block.first, block.stop, *block.public, *shared)
            check(block, reply)
            return reply

        if self._threads is None or len(blocks) == 1:
            return [answer(block) for block in blocks]
        return list(self._threads.map(answer, blocks))


def spread_here(
    host: Callable[..., Any],
    shared: Sequence[Any],
    bounds: Sequence[tuple[int, int]],
    threads: ThreadPoolExecutor | None = None,
    workers: int = 1,
) -> LocalHosts:
    """Return cohorts of the server's own in this process; see `coordinator.server.rounds.conductor.Fleet.spread`."""
    parts = side_by_side(bounds, workers)
    hosts = [host(*shared, part) for part in parts]
    return LocalHosts(Cohorts(bounds=[(part[0][0], part[-1][1]) for part in parts], hosts=hosts), threads)
