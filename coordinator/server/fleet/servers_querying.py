"""Two servers behind Ray actors: the coordinator holds their handles, and none of the devices."""

import itertools
from collections.abc import Sequence
from typing import Any

from coordinator.protocol.messages import Query, Release
from coordinator.server.fleet.calls import LOST, pause, result_of
from coordinator.server.fleet.published_sums import SumQuerying
from coordinator.server.fleet.querying import Count
from coordinator.server.rounds.state import Ask
from coordinator.server.rounds.transcript import Sealed
from coordinator.server.statistics.statistic import Statistic


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
        for attempt in itertools.count():
            try:
                return self._querying.ask(ask)
            except LOST as error:
                pause(attempt, f"a server of round {ask.query.round} was lost", error)
                self._retried(1)
        raise AssertionError  # counting does not end

    def _both(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        calls = [getattr(server, method).remote(*each) for server, each in zip(self._servers, arguments, strict=True)]
        results: list[Any] = result_of(calls)
        return results
