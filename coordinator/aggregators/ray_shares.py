"""Shares from devices' hosts on Ray: a server asks the hosts itself, some blocks ahead, and again after one died."""

import time
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import ray

from coordinator.aggregators.gathering import blocks_of
from coordinator.protocol import losses
from coordinator.protocol.agreement import Agreement
from coordinator.protocol.custom import CustomMechanism
from coordinator.protocol.errors import BlindrecError, LostError
from coordinator.protocol.messages import Query
from coordinator.protocol.trust import BookActor

AHEAD = 3  # Blocks that are on their way while one is added up: some 32 MB
ATTEMPTS = 8  # Times that a block is asked before its devices are given up
PAUSE = 0.25  # Seconds before a block is asked again, twice as long each time
_LOST = losses.errors(ray.exceptions, losses.LOST)


class RayShares:
    """The way to devices behind actors; cohort k belongs to host k modulo their number."""

    def __init__(self, bounds: Sequence[tuple[int, int]], hosts: Sequence[Any]) -> None:
        self._bounds, self._hosts = list(bounds), list(hosts)

    def shares(self, permit: bytes, query: Query, first: int, stop: int) -> Iterator[Any]:
        """Yield shares; see `coordinator.aggregators.gathering.ShareRoute.shares`."""
        blocks, flying = deque(blocks_of(self._bounds, query, first, stop)), deque[tuple[Any, Any]]()
        reference = ray.put(query)

        def ask(block: tuple[int, int, int]) -> Any:
            number, start, end = block
            return self._hosts[number % len(self._hosts)].share.remote(permit, reference, start, end)

        while blocks or flying:
            while blocks and len(flying) < AHEAD:
                block = blocks.popleft()
                flying.append((block, ask(block)))
            block, answer = flying.popleft()
            for attempt in range(ATTEMPTS):
                try:
                    share = _result(answer)
                    break
                except _LOST as error:
                    if attempt == ATTEMPTS - 1:
                        raise LostError(
                            f"devices {block[1]} to {block[2] - 1} gave no share ({losses.reason(error)}); "
                            f"{losses.remedy(error)}, then resume"
                        ) from None
                    time.sleep(PAUSE * 2**attempt)
                    answer = ask(block)
            yield share


def _result(answer: Any) -> Any:
    """Return what is behind a reference; raise the devices' own error without Ray's wrapper."""
    try:
        return ray.get(answer)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, BlindrecError):
            raise error.cause from None
        raise


def _entries(answer: Any) -> Any:
    """Return what the book of openings answers; where it is gone for good nothing can be opened any more."""
    try:
        return _result(answer)
    except _LOST as error:
        raise LostError(
            f"the book of what was opened was lost ({losses.reason(error)}); {losses.remedy(error)}, then resume"
        ) from None


def start_server(
    kind: Any,
    secret: bytes,
    permit: bytes,
    route: RayShares,
    agreement: Agreement,
    book: Any = None,
    custom: CustomMechanism | None = None,
) -> Any:
    """Start one of the two servers as a Ray actor in a process of its own; Ray restarts it if that dies."""
    # Its calls may be repeated: devices repeat their shares, its noise is the same, and ``book``, an actor, says which
    # sums the process before it opened.
    actor: Any = ray.remote(kind)
    options = actor.options(num_cpus=0, max_restarts=-1, max_task_retries=-1)
    return options.remote(secret, permit, route, agreement, book and BookActor(book, _entries), custom)
