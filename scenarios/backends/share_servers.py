"""The two servers of a run: each gets its secret and permit alone, from the experimenter; both in this process."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from actors.shares import share_permit, side_of
from coordinator.aggregators.gathering import LocalShares, ShareServer
from coordinator.aggregators.seed_server import SeedServer
from coordinator.aggregators.word_server import WordServer
from coordinator.protocol.agreement import Agreement
from coordinator.protocol.messages import Query
from coordinator.protocol.trust import OpeningBook
from coordinator.server.fleet.intermediaries import SumQuerying

KINDS: tuple[type[ShareServer[Any]], ...] = (WordServer, SeedServer)
"""Both servers, in the order in which the server that reads their sums calls them."""


def servers_here(
    cohorts: Sequence[Any],
    secret: bytes,
    server_secrets: dict[str, bytes],
    agreement: Agreement,
    report_progress: Callable[[int], None],
    threads: ThreadPoolExecutor | None,
    book: OpeningBook | None = None,
) -> SumQuerying:
    """Return two servers in this process, and what asks both; ``secret`` is the devices'."""

    def fetch(permit: bytes, query: Query, first: int, stop: int) -> Any:
        side = side_of(permit, secret)
        (cohort,) = (block for block in cohorts if block.first <= first and stop <= block.stop)
        return cohort.share(side, query, first, stop)

    bounds = [(cohort.first, cohort.stop) for cohort in cohorts]
    route = LocalShares(fetch, bounds, None if threads is None else Ahead(threads))
    servers = [
        kind(server_secrets[kind.side], share_permit(secret, kind.side), route, agreement, book) for kind in KINDS
    ]

    def both(method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        return [getattr(server, method)(*each) for server, each in zip(servers, arguments, strict=True)]

    return SumQuerying(both, report_progress=report_progress)


class Ahead:
    """Calls a function in threads a few arguments ahead, and yields results in order: not all are in memory at once."""

    def __init__(self, threads: ThreadPoolExecutor) -> None:
        # of a pool that has no such number some three are enough to keep one busy with adding up
        self._threads, self._window = threads, getattr(threads, "_max_workers", 2) + 1

    def __call__(self, function: Callable[[Any], Any], arguments: Iterable[Any]) -> Iterator[Any]:
        """Yield results in the order of the arguments."""
        flying = deque[Future[Any]]()
        for argument in arguments:
            flying.append(self._threads.submit(function, argument))
            if len(flying) > self._window:
                yield flying.popleft().result()
        while flying:
            yield flying.popleft().result()
