"""Rounds of queries on Ray: aggregators add up every block's release on the node where it is stored."""

import itertools
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import ray

from coordinator.protocol.checked import MOST_DEVICES, require_whole
from coordinator.protocol.custom import CustomMechanism, admit
from coordinator.protocol.errors import InputError
from coordinator.protocol.mechanisms import check_question
from coordinator.protocol.messages import Query, Release
from coordinator.protocol.statistics.statistic import Statistic, merge
from coordinator.server.aggregation import aggregate, no_release, require_answer
from coordinator.server.fleet.calls import Flight, carry, result_of, with_retries
from coordinator.server.fleet.cohorts import Cohorts, Layout, blocks_of, require_round
from coordinator.server.fleet.panel import BlockRequest, Panel
from coordinator.server.rounds.state import Ask
from coordinator.server.rounds.transcript import Sealed, seal

CPUS = 0.5  # CPUs that Ray reserves for an aggregator; each block takes a worker's time on the devices' side and here


def alone(workers: int, custom: CustomMechanism | None) -> bool:
    """Return whether the coordinator adds releases up itself, because a process more would cost more than it saves."""
    # A custom mechanism adds up in a process that holds no handle of a device.
    return workers == 1 and custom is None


class Aggregator:
    """Adds releases up and keeps nothing, so that Ray may repeat a call after a crash."""

    def __init__(self, custom: CustomMechanism | None = None) -> None:
        admit(custom)

    def warm_up(self, query: Query) -> None:
        """Compile what releases to a query will need."""
        aggregate(query, no_release(query))

    def aggregate(self, query: Query, release: Release, first: int, stop: int) -> tuple[Statistic, Release | Sealed]:
        """Return the statistic of the release of devices ``first`` to ``stop - 1``, and what digests it."""
        check_question(query)
        require_whole("first device", first, 0, MOST_DEVICES)
        require_whole("end of the devices", stop, first, MOST_DEVICES)
        try:
            require_answer(query, release, first, stop)
        except InputError as error:
            raise InputError(f"devices {first} to {stop - 1} sent what is no answer: {error}") from None
        return aggregate(query, release), seal(release)

    def merge(self, *statistics: Statistic) -> Statistic:
        """Return the sum of statistics: one node of the reduction tree."""
        return merge(*statistics)


def start_aggregators(count: int, custom: CustomMechanism | None = None) -> list[Any]:
    """Start ``count`` aggregators as Ray actors, spread over the nodes; they end with the actor that started them."""
    actor: Any = ray.remote(Aggregator)
    options = actor.options(num_cpus=CPUS, max_restarts=-1, max_task_retries=-1, scheduling_strategy="SPREAD")
    return [options.remote(custom) for _ in range(count)]


WINDOW = 3  # Blocks in flight for each worker: enough to keep both sides busy, few enough to keep memory flat
FAN_IN = 8  # Statistics that one merge adds up
Count = Callable[[int], None]


class Querying:
    """Carries queries to devices behind actors; see `coordinator.server.rounds.conductor.Transport`."""

    def __init__(
        self,
        cohorts: Cohorts,
        layout: Layout,
        custom: CustomMechanism | None,
        *,
        report_progress: Count,
        retried: Count,
    ) -> None:
        self._cohorts, self._layout, self._report_progress, self._retried = cohorts, layout, report_progress, retried
        self._here = Aggregator() if alone(layout.workers, custom) else None
        self._pool = [] if self._here else start_aggregators(layout.workers, custom)
        self._free: deque[Any] = deque()
        self._answers = 0

    def warm_up(self, query: Query) -> list[Any]:
        """Start the aggregators, and let them compile what ``query`` will need; return what to wait for."""
        if self._here:
            self._here.warm_up(query)
        return [aggregator.warm_up.remote(query) for aggregator in self._pool]

    def ask(self, ask: Ask) -> tuple[Statistic, Sequence[Release | Sealed]]:
        """Ask every device of ``ask``; see `coordinator.server.rounds.conductor.Transport`."""
        require_round(ask.query, 0)  # devices' hosts look after themselves
        # where a statistic was lost the whole round is asked again
        return with_retries(lambda: self._fan_out(ask), f"round {ask.query.round} was lost", self._lost)

    def _lost(self) -> None:
        self._retried(1)
        self._report_progress(-self._answers)

    def _fan_out(self, ask: Ask) -> tuple[Statistic, Sequence[Release | Sealed]]:
        """Ask all blocks of one round as its panel decides."""
        # A block's release travels in one of two ways, which `send`, `made` and `landed` know and `carry` does not.
        # With aggregators, the host's answer stays where it is: an aggregator gets the reference to it and returns two
        # references, to the statistic, which stays there, too, and to what digests the release, which `carry` waits
        # for. Alone, `carry` waits for the answer itself, and `made` adds it up here. In both, ``sent`` finds the
        # aggregator that becomes free, None here, and the statistic, by the reference that `carry` waited for. A third
        # way is that the call is lost: `carry` then calls `landed` with False. The aggregator is free again, the
        # statistic is dropped, and the panel asks the block anew. It is dropped also where an answer came twice. So a
        # statistic goes into ``partial`` once for each block, which is what `Panel.answered` returned True for.
        self._answers, query = 0, ray.put(ask.query)
        blocks = blocks_of(self._cohorts, self._layout, ask.first, ask.stop, ask.query.bits)
        panel = Panel(blocks, lambda *_: None, window=WINDOW * self._layout.workers)
        self._free = deque(itertools.islice(itertools.cycle(self._pool), WINDOW * self._layout.workers))
        sent: dict[Any, tuple[Any, Any]] = {}
        partial: deque[Any] = deque()

        def send(question: BlockRequest) -> Flight:
            block = question.block
            if self._here:
                answer = block.host.ask.remote(query, block.first, block.stop)
                return Flight(question, answer, answer)
            aggregator = self._free.popleft()
            answer = block.host.ask.remote(query, block.first, block.stop)
            adding_up = aggregator.aggregate.options(num_returns=2)
            statistic, sealed = adding_up.remote(query, answer, block.first, block.stop)
            sent[sealed] = aggregator, statistic
            return Flight(question, answer, sealed)

        def made(flight: Flight, answer: Any) -> Any:
            if self._here is None:
                return answer
            _, first, stop, _ = flight.question.block
            statistic, sealed = self._here.aggregate(ask.query, answer, first, stop)
            sent[flight.aggregate] = None, statistic
            return sealed

        def landed(flight: Flight, counts: bool) -> None:
            aggregator, statistic = sent.pop(flight.aggregate, (None, None))  # a lost answer was not added up here
            if aggregator is not None:
                self._free.append(aggregator)
            if counts:
                block = flight.question.block
                self._answers += block.stop - block.first
                self._report_progress(block.stop - block.first)
                partial.append(statistic)
                self._reduce(partial, to=FAN_IN)

        carry(panel, send, landed, self._retried, made)
        return self._reduce(partial, to=1), sorted(panel.answers(), key=lambda release: release.first)

    def _reduce(self, partial: deque[Any], *, to: int) -> Any:
        """Merge statistics, `FAN_IN` at a time, until at most ``to`` are left; return the last one where that is 1."""
        while len(partial) > to:
            group = [partial.popleft() for _ in range(min(FAN_IN, len(partial)))]
            partial.append(self._here.merge(*group) if self._here else self._free[0].merge.remote(*group))
        if to > 1:
            return None
        return partial[0] if self._here else result_of(partial[0])
