"""Which host answers for which device addresses, and how many a call asks: speed changes by it, and never an answer."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from coordinator.protocol.custom import OUTPUTS
from coordinator.protocol.errors import InputError
from coordinator.protocol.limits import require_memory, round_bytes
from coordinator.protocol.messages import Query
from coordinator.server.rounds.conductor import Block, Check
from coordinator.server.rounds.transcript import leaf_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Cohorts:
    """Which host to ask for which stretch of addresses."""

    bounds: list[tuple[int, int]]  # The cohorts, ``[first, stop)`` each, ascending
    # Cohort k belongs to host k modulo their number, so that neighbouring cohorts are asked at the same time
    hosts: list[Any]

    def blocks(self, first: int, stop: int) -> list[Block]:
        """Return a block for each cohort that has some of the devices ``first`` to ``stop - 1``."""
        return [
            Block(self.hosts[index % len(self.hosts)], max(start, first), min(end, stop))
            for index, (start, end) in enumerate(self.bounds)
            if max(start, first) < min(end, stop)
        ]


def dealt(bounds: Sequence[tuple[int, int]], hosts: int) -> list[list[tuple[int, int]]]:
    """Assign cohorts to at most so many hosts, in turn; see `Cohorts`."""
    count = min(hosts, len(bounds))
    return [list(bounds[worker::count]) for worker in range(count)]


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


SMALLEST_BLOCK = 1 << 13
BLOCKS_A_WORKER = 8
MOST_BLOCKS, MOST_BITS = 1 << 10, 1 << 26
"""Calls of a round above which blocks grow beyond a leaf of the digest, so that the coordinator keeps up; and the most
bits of such a block."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How devices are divided among processes."""

    devices: int  # Number of devices
    workers: int  # Device blocks that are computed at the same time
    devices_per_actor: int  # Size of a cohort

    def __post_init__(self) -> None:
        for name in ("devices", "workers", "devices_per_actor"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}; it must be at least 1")

    @property
    def cohorts(self) -> list[tuple[int, int]]:
        """The cohorts, ``[first, stop)`` each."""
        return cut(0, self.devices, self.devices_per_actor)

    def block_of(self, bits: int) -> int:
        """Return the most devices of one call if each releases ``bits``; a multiple of 8."""
        leaf = leaf_of(bits)
        if leaves := self.devices // (leaf * max(MOST_BLOCKS, self.workers * BLOCKS_A_WORKER)):
            return leaf * min(leaves, max(MOST_BITS // (leaf * bits), 1))
        block = self.devices // (self.workers * BLOCKS_A_WORKER) // 8 * 8
        return min(max(block, SMALLEST_BLOCK), leaf)


def require_round(query: Query, devices: int, workers: int = 1) -> None:
    """Refuse a round that takes more memory than this machine has left, before anybody is asked."""
    width = max(query.bits, int(query.parameters.get(OUTPUTS, 0)))
    what = f"{query}, {width:,} {'bits' if width == query.bits else 'outputs'} a device,"
    require_memory(workers * round_bytes(devices, width), what, "ask for less at once")


def plan_layout(*, devices: int, workers: int, devices_per_actor: int | None) -> Layout:
    """Return a layout; by default each worker has one cohort."""
    if devices_per_actor is None:
        fair = -(-max(devices, 1) // max(workers, 1))
        devices_per_actor = -(-fair // 8) * 8
    return Layout(devices=devices, workers=workers, devices_per_actor=devices_per_actor)


def blocks_of(cohorts: Cohorts, layout: Layout, first: int, stop: int, bits: int) -> Iterator[Block]:
    """Yield blocks of devices that release ``bits`` each, taking cohorts in turn so that all hosts work at once."""
    size = layout.block_of(bits)
    waiting = [
        deque(Block(cohort.host, *ends) for ends in calls(cohort.first, cohort.stop, size, bits))
        for cohort in cohorts.blocks(first, stop)
    ]
    while waiting := [queue for queue in waiting if queue]:
        for queue in waiting:
            yield queue.popleft()


def cut(first: int, stop: int, size: int) -> list[tuple[int, int]]:
    """Cut ``[first, stop)`` into pieces of ``size``, the last one smaller where it does not fit."""
    return [(start, min(start + size, stop)) for start in range(first, stop, size)]


def calls(first: int, stop: int, size: int, bits: int) -> list[tuple[int, int]]:
    """Cut ``[first, stop)`` into blocks of at most ``size``, each within a leaf of the digest or some whole leaves."""
    leaf, blocks = leaf_of(bits), list[tuple[int, int]]()
    while first < stop:
        whole = min(size, stop - first) // leaf * leaf if first % leaf == 0 else 0
        end = first + whole if whole else min(first + size, first // leaf * leaf + leaf, stop)
        blocks.append((first, end))
        first = end
    return blocks
