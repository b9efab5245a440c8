"""The untrusted server as a Ray actor: it conducts a plan's rounds, asks two servers, and shows how far it has come."""

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import ray
from ray.util.metrics import Gauge

from coordinator.protocol.agreement import Agreement, intermediary_of
from coordinator.protocol.custom import CustomMechanism, admit
from coordinator.protocol.messages import Query, Release
from coordinator.protocol.statistics.statistic import Statistic
from coordinator.protocol.trust_models import TWO_SERVERS
from coordinator.server.aggregation import load_decoder
from coordinator.server.fleet.calls import RayHosts, result_of, with_retries
from coordinator.server.fleet.cohorts import Cohorts, Layout, side_by_side
from coordinator.server.fleet.intermediaries import SumQuerying
from coordinator.server.fleet.querying import WINDOW, Count, Querying
from coordinator.server.fleet.shuffler_actor import ShuffledQuerying
from coordinator.server.rounds.conductor import ServerSpec, run_rounds
from coordinator.server.rounds.state import Ask, RunProgress
from coordinator.server.rounds.transcript import Sealed


class ServersQuerying:
    """Asks two servers for the sum of devices' shares; see `coordinator.server.rounds.conductor.Transport`."""

    def __init__(self, servers: Sequence[Any], *, report_progress: Count, retried: Count) -> None:
        self._servers, self._retried = servers, retried
        self._querying = SumQuerying(self._both, report_progress=report_progress)

    def warm_up(self, query: Query) -> list[Any]:
        """Let both servers compile what a query needs; return what to wait for."""
        return [server.warm_up.remote(query) for server in self._servers]

    def ask(self, ask: Ask) -> tuple[Statistic, Sequence[Release | Sealed]]:
        """Ask both servers; where one was lost both collect again, and publish what they would have published."""
        what = f"a server of round {ask.query.round} was lost"
        return with_retries(lambda: self._querying.ask(ask), what, lambda: self._retried(1))

    def _both(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        calls = [getattr(server, method).remote(*each) for server, each in zip(self._servers, arguments, strict=True)]
        results: list[Any] = result_of(calls)
        return results


GAUGES = {
    "count": ("blindrec_asked", "Devices (or online rounds) that were asked, with those of the round that goes on."),
    "rounds": ("blindrec_rounds", "Rounds, batches or clients that are over."),
    "answers": ("blindrec_answers", "Answers of devices in these."),
    "refused": ("blindrec_refused", "Devices in these that refused for lack of budget."),
    "epsilon": ("blindrec_epsilon_spent", "What a device has spent at most [nats]."),
    "undecided": ("blindrec_undecided_items", "Items that are not decided, where the policy asks about these only."),
}
"""Names, as a scraper finds them behind ``ray_``, and help, by the fields of a `RunProgress`."""
_RUN = "run"


MOST_HELD, HELD_PAUSE = 16, 0.005
"""Most rounds that may wait to be stored, and the seconds after which the coordinator checks again."""


class RayFleet:
    """The devices and processes that a server can call on Ray; see `coordinator.server.rounds.conductor.Fleet`."""

    def __init__(
        self,
        devices: Mapping[str, Cohorts],
        layout: Layout,
        agreement: Agreement | None = None,
        middle: Any = None,
    ) -> None:
        self._devices, self._layout, self._agreement, self._middle = devices, layout, agreement, middle
        self._querying: Querying | ShuffledQuerying | ServersQuerying | None = None
        self._held: list[Any] = []
        self.count = self.retries = 0

    def hosts(self, kind: str) -> RayHosts:
        """Return the devices of a kind."""
        return RayHosts(self._devices[kind], WINDOW * self._layout.workers, self._retried)

    def queries(self, custom: CustomMechanism | None) -> Querying | ShuffledQuerying | ServersQuerying:
        """Return the transport that carries queries to devices: to a shuffler, or with aggregators that it starts."""
        agreement = intermediary_of(self._agreement)
        if agreement and agreement.trust == TWO_SERVERS:
            self._querying = ServersQuerying(self._middle, report_progress=self.report_progress, retried=self._retried)
            return self._querying
        if agreement:
            self._querying = ShuffledQuerying(
                self._middle, self._layout, agreement, report_progress=self.report_progress, retried=self._retried
            )
            return self._querying
        (cohorts,) = self._devices.values()
        self._querying = Querying(
            cohorts, self._layout, custom, report_progress=self.report_progress, retried=self._retried
        )
        return self._querying

    def spread(self, host: Callable[..., Any], shared: Sequence[Any], bounds: Sequence[tuple[int, int]]) -> RayHosts:
        """Start actors that hold the server's own cohorts; they end with the coordinator."""
        references = [ray.put(value) for value in shared]
        self._held += references  # a restarted host reads them again
        actor: Any = ray.remote(num_cpus=0, max_restarts=-1)(host)
        parts = side_by_side(bounds, self._layout.workers)
        hosts = [actor.remote(*references, part) for part in parts]
        cohorts = Cohorts(bounds=[(part[0][0], part[-1][1]) for part in parts], hosts=hosts)
        return RayHosts(cohorts, len(hosts), self._retried)

    def report_progress(self, count: int) -> None:
        """Count answers; see `Coordinator.progress`."""
        self.count += count

    def warm_up(self, query: Query) -> None:
        """Start and compile what a query will need."""
        if self._querying is not None:
            warming = self._querying.warm_up(query)
            load_decoder(query)
            ray.get(warming)

    def _retried(self, count: int) -> None:
        self.retries += count


class Coordinator:
    """The plain class behind the actor."""

    def __init__(
        self,
        plan: ServerSpec[Any, Any],
        devices: Mapping[str, Cohorts],
        layout: Layout,
        measured: str | None = None,
        middle: Any = None,
    ) -> None:
        admit(plan.custom)
        # gauges and no counters, so that a coordinator that takes the place of a dead one goes on with its numbers
        names = {} if measured is None else GAUGES
        self._run = {_RUN: measured or ""}
        self._gauges = {field: Gauge(name, text, (_RUN,)) for field, (name, text) in names.items()}
        self._fleet = RayFleet(devices, layout, plan.agreement, middle)
        self._process = plan.begin(self._fleet)
        self._rounds: deque[Any] = deque()
        self._most_held = 0 if plan.in_step else MOST_HELD
        self._fetched = self._restored = 0

    def warm_up(self, query: Query) -> None:
        """Start the server's processes and compile what ``query`` will need, before the clock runs."""
        self._fleet.warm_up(query)

    def progress(self) -> RunProgress:
        """Return how far the rounds have come, and set Ray's metrics where these are on."""
        progress = replace(self._process.progress(), count=self._fleet.count, restored=self._restored)
        for field, gauge in self._gauges.items():  # nothing but numbers of `RunProgress` gets there
            if (value := getattr(progress, field)) is not None:  # what is not known leaves its gauge as it is
                gauge.set(value, self._run)
        return progress

    def retries(self) -> int:
        """Return how many blocks or rounds were asked again because a process or a node died."""
        return self._fleet.retries

    def run(self) -> tuple[Any, float]:
        """Conduct the rounds; return the outcome and the seconds that it took from the first question on."""
        start = time.perf_counter()
        outcome = run_rounds(self._process, self._keep)
        return outcome, time.perf_counter() - start

    def replay(self, record: Any) -> None:
        """Take in a round that an earlier coordinator conducted; call this in order, before `run`."""
        self._process.replay(record)
        self._restored = self._fleet.count

    def _keep(self, record: Any) -> None:
        """Hold a round until it is stored; wait if the storing process lags behind or the plan goes on in step."""
        self._rounds.append(record)
        while len(self._rounds) > self._most_held:
            time.sleep(HELD_PAUSE)

    def new_rounds(self, since: int) -> list[Any]:
        """Return the finished rounds that are to be stored; the first ``since`` rounds are stored already."""
        while self._fetched < since:
            self._rounds.popleft()
            self._fetched += 1
        return list(self._rounds)


def start_coordinator(
    plan: ServerSpec[Any, Any],
    devices: Mapping[str, Cohorts],
    layout: Layout,
    measured: str | None = None,
    middle: Any = None,
) -> Any:
    """Start a `Coordinator` as a Ray actor; its second thread answers `Coordinator.progress` while rounds run."""
    # Where somebody stands in the ``middle``, the coordinator holds that handle, and none of any device.
    actor: Any = ray.remote(Coordinator)
    return actor.options(num_cpus=0, max_concurrency=2).remote(plan, devices, layout, measured, middle)
