"""The server's edge in a history: what a panel decides is carried out by the scheduler instead of by Ray."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from benchmarks.faults.devices import GONE, Site
from benchmarks.faults.scheduler import CoordinatorDiedError, Fault, Scheduler, Violation
from benchmarks.faults.witness import Witness
from benchmarks.faults.worlds import LEARNER, USERS, World
from coordinator.protocol.errors import BlindrecError
from coordinator.protocol.messages import Release
from coordinator.server.aggregation import aggregate
from coordinator.server.fleet.panel import Panel, Question
from coordinator.server.fleet.querying import answers_to
from coordinator.server.rounds.conductor import Block, Conductor
from coordinator.server.rounds.query_rounds import Outcome, QueryRounds, Round
from coordinator.server.rounds.state import Ask
from coordinator.server.statistics.statistic import Statistic, merge
from scenarios.store.journal import Journal


class DriverFailed(Fault):
    """The driver ends the run with an error that it tells."""

    def __init__(self, error: BlindrecError) -> None:
        super().__init__(str(error))
        self.error = error


class Driver:
    """Keeps the rounds that the coordinator tells it, in their order, as `scenarios.places.supervising` does."""

    def __init__(self, journal: Journal, scheduler: Scheduler) -> None:
        self._journal, self._scheduler = journal, scheduler
        self._told: deque[Round] = deque()
        self._failed: BlindrecError | None = None
        self.kept: list[bytes] = []

    def hear(self, over: Round) -> None:
        """Be told of a round; it is fetched and kept a little later."""
        self._told.append(over)
        self._scheduler.at(self._scheduler.delay(), self._keep)

    def coordinator_died(self) -> None:
        """Forget the rounds that the coordinator had not handed out."""
        self._told.clear()

    def _keep(self) -> None:
        if not self._told or self._failed:
            return
        over = self._told.popleft()
        try:
            self._journal.keep(over)
        except BlindrecError as error:
            self._failed = error
            return
        self._scheduler.say(f"round {over.ask.query.round} is kept")
        self.kept.append(over.digest)

    def require_well(self) -> None:
        """End the run where a round could not be kept."""
        if self._failed:
            raise DriverFailed(self._failed)

    def wait(self) -> None:
        """Wait until all rounds are kept."""
        while self._told:
            self._keep()
            self.require_well()


class Server:
    """A coordinator's process: the real conductor and panel, whose calls go through the scheduler."""

    def __init__(
        self, world: World, sites: Sequence[Site], driver: Driver, scheduler: Scheduler, witness: Witness
    ) -> None:
        self._world, self._sites, self._driver = world, sites, driver
        self._scheduler, self._witness = scheduler, witness
        self._inbox: deque[tuple[Panel, Question, Release | Exception]] = deque()

    def run(self, earlier: Journal) -> Outcome:
        """Go over the rounds that were kept, and conduct all others."""
        conductor = Conductor(QueryRounds(self._world, LEARNER, self, devices=USERS, budget=self._world.budget))
        for over in earlier:
            conductor.repeat(over)
        return conductor.run(self._driver.hear)

    def ask(self, ask: Ask) -> tuple[Statistic, Sequence[Release]]:
        """Ask every device of a round; see `coordinator.server.rounds.query_rounds.Transport`."""
        blocks = [Block(self._sites[place], first, stop) for place, first, stop in self._world.blocks(ask)]
        panel = Panel(blocks, answers_to(ask.query), window=self._world.window)
        statistics: list[Statistic] = []
        while not panel.done:
            self._may_die()
            while question := panel.question(self._scheduler.now):
                self._send(ask, panel, question)
            if self._inbox:
                statistics += self._take(ask, *self._inbox.popleft())
            elif not self._scheduler.step(panel.until):
                raise Violation(f"round {ask.query.round} waits for answers, and nobody is left to give them")
        releases = sorted(panel.answers(), key=lambda release: release.first)
        self._witness.round_over(ask.query, releases)
        return merge(*statistics), releases

    def _may_die(self) -> None:
        self._driver.require_well()
        if self._scheduler.happens("coordinator dies"):
            raise CoordinatorDiedError

    def _send(self, ask: Ask, panel: Panel, question: Question) -> None:
        block = question.block
        block.host.ask(ask.query, block.first, block.stop, lambda told: self._inbox.append((panel, question, told)))

    def _take(self, ask: Ask, panel: Panel, question: Question, told: Release | Exception) -> list[Statistic]:
        """Tell the panel what came in; return its statistic where it counts."""
        if told is GONE:
            panel.lost(question.number, question.epoch, self._scheduler.now, GONE)
            return []
        if isinstance(told, Exception):
            raise told
        if type(told) is not Release:
            raise Violation(f"a {type(told).__name__} came to the server")
        if not panel.answered(question.number, question.epoch, told):
            return []
        return [aggregate(ask.query, told)]
