"""The shuffler as a Ray actor: it alone holds handles of the devices, and the coordinator one of the shuffler."""

from collections.abc import Sequence
from typing import Any

import ray

from coordinator.protocol.agreement import Agreement
from coordinator.protocol.checked import MOST_DEVICES, require_whole
from coordinator.protocol.custom import CustomMechanism, admit
from coordinator.protocol.mechanisms import check_question
from coordinator.protocol.messages import Query, Release
from coordinator.protocol.statistics.statistic import Statistic
from coordinator.protocol.trust import OPENER, BookActor, ShuffledRound
from coordinator.server.aggregation import require_answer
from coordinator.server.fleet.calls import RayHosts, in_a_line, result_of, with_retries
from coordinator.server.fleet.cohorts import Cohorts, Layout, blocks_of
from coordinator.server.fleet.intermediaries import read_shuffled, rehearse_reading
from coordinator.server.fleet.querying import WINDOW, Count
from coordinator.server.rounds.conductor import Block
from coordinator.server.rounds.state import Ask
from coordinator.server.rounds.transcript import Sealed
from coordinator.shuffler import Shuffler

LOOK = 0.2  # Seconds between two looks at how many devices have answered the shuffler


class ShufflerHost:
    """The plain class behind the actor; of a round that is closed it keeps who reported, and nothing that was said."""

    def __init__(
        self,
        cohorts: Cohorts,
        layout: Layout,
        agreement: Agreement,
        custom: CustomMechanism | None = None,
        book: Any = None,
    ) -> None:
        # ``book`` is the actor with the book of what was handed on, which outlives this process.
        admit(custom)
        agreement = Agreement.arrived(agreement)
        self._cohorts, self._layout, self._agreement = cohorts, layout, agreement
        self._openings = agreement.openings(OPENER, book and BookActor(book, _entries))
        self._answers = self._retries = 0

    def progress(self) -> tuple[int, int]:
        """Return how many answers of the current round have arrived, and how many calls were lost so far."""
        return self._answers, self._retries

    def shuffle(self, query: Query, first: int, stop: int) -> ShuffledRound:
        """Ask devices ``first`` to ``stop - 1``, and return their reports without addresses, in ascending order."""
        query = Query.arrived(query)
        check_question(query)
        require_whole("first device", first, 0, MOST_DEVICES)
        require_whole("end of the devices", stop, first, MOST_DEVICES)
        self._agreement.require_amplified(query, stop - first)
        self._answers = 0

        def check(block: Block, release: Release) -> None:
            require_answer(query, release, block.first, block.stop)
            self._answers += block.stop - block.first

        hosts = RayHosts(self._cohorts, WINDOW * self._layout.workers, self._retried)
        shuffler = Shuffler(query, self._agreement, self._openings)
        blocks = list(blocks_of(self._cohorts, self._layout, first, stop, query.bits))
        for release in hosts.ask(ray.put(query), blocks, check):
            shuffler.take(release)
        return shuffler.close()

    def _retried(self, count: int) -> None:
        self._retries += count


def _entries(answer: Any) -> Any:
    """Return the book's answer; if the book is gone for good, nothing can be opened any more."""
    with in_a_line():
        return result_of(answer)


def start_shuffler(
    cohorts: Cohorts, layout: Layout, agreement: Agreement, custom: CustomMechanism | None, book: Any = None
) -> Any:
    """Start a shuffler as a Ray actor, which Ray restarts if its process dies; its second thread reports progress."""
    actor: Any = ray.remote(ShufflerHost)
    options = actor.options(num_cpus=0, max_concurrency=2, max_restarts=-1)
    return options.remote(cohorts, layout, agreement, custom, book)


class ShuffledQuerying:
    """Carries queries to devices behind a shuffler; see `coordinator.server.rounds.conductor.Transport`."""

    def __init__(
        self, shuffler: Any, layout: Layout, agreement: Agreement, *, report_progress: Count, retried: Count
    ) -> None:
        self._shuffler, self._layout, self._agreement = shuffler, layout, agreement
        self._report_progress, self._retried = report_progress, retried
        self._answers = self._retries = 0

    def warm_up(self, query: Query) -> list[Any]:
        """Compile what reading a round of ``query`` needs; return what to wait for, which is nothing."""
        rehearse_reading(query)
        return []

    def ask(self, ask: Ask) -> tuple[Statistic, Sequence[Release | Sealed]]:
        """Ask every device of ``ask`` through the shuffler; a round that is lost is asked again, at no cost."""
        what = f"the shuffler of round {ask.query.round} was lost"
        shuffled = with_retries(lambda: self._shuffled(ask), what, self._lost)
        self._report_progress(ask.stop - ask.first - self._answers)
        return read_shuffled(ask, shuffled, self._agreement, self._layout)

    def _shuffled(self, ask: Ask) -> Any:
        """Return what the shuffler hands on, and report what has come in at every look."""
        self._answers = 0
        running = self._shuffler.shuffle.remote(ask.query, ask.first, ask.stop)
        while not ray.wait([running], timeout=LOOK)[0]:
            answers, retries = result_of(self._shuffler.progress.remote())
            self._report_progress(answers - self._answers)
            self._retried(max(retries - self._retries, 0))
            self._answers, self._retries = int(answers), retries
        return result_of(running)

    def _lost(self) -> None:
        self._retried(1)
        self._report_progress(-self._answers)
