"""The coordinator's share alone, and the keeper's: what it takes to carry a round if all others are instant.

``python -m benchmarks.ceiling`` asks up to 10^12 devices through the true coordinator's transport. Hosts and
aggregators are Ray actors that return zeros without computing anything; a few of them stand for as many workers as the
row names. The processor time is that of all threads of the coordinator's process. From it follow the devices a second
that one coordinator can carry, and the workers that it can keep busy at ``--rate`` devices a second each.
"""

import json
import resource
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any
from unittest.mock import patch

import ray
import typer

from actors.keeper import Keeper
from benchmarks.reference import JsonFile, write_figures
from coordinator.protocol.messages import Query, Release
from coordinator.server.fleet.cohorts import Cohorts, plan_layout
from coordinator.server.fleet.coordinator_actor import RayFleet
from coordinator.server.mechanisms import aggregate, no_release
from coordinator.server.rounds.state import Ask
from coordinator.server.rounds.transcript import DIGEST, LEAF, Sealed, digest, leaf_of
from coordinator.server.statistics.statistic import Statistic
from scenarios.backends.ray_instance import on_ray
from scenarios.config.run_spec import RunSpec
from scenarios.config.scenario import Scenario

ACTORS = 2  # Hosts, and aggregators, that stand for all workers
ROUNDS = ((10**7, 2), (10**9, 2), (10**10, 20), (10**11, 200), (10**12, 2000))  # Devices and workers of every row


class Instant:
    """Devices that answer nothing, at once."""

    def ask(self, query: Query, first: int, stop: int) -> None:
        """Answer."""


class InstantAggregator:
    """An aggregator that adds nothing up, and has digests of zeros."""

    def warm_up(self, query: Query) -> None:
        """Make the empty statistic."""
        self._statistic = aggregate(query, no_release(query))

    def aggregate(self, query: Query, _: Any, first: int, stop: int) -> tuple[Statistic, Release | Sealed]:
        """Return a statistic and digests of the size that true ones have."""
        count, width = stop - first, query.bits
        leaves, rest = divmod(count, leaf_of(width))
        if rest:
            zeros = bytes(-(-count * width // 8))
            return self._statistic, Release(query_id=query.id, first=first, count=count, width=width, bits=zeros)
        digests = bytes(DIGEST * leaves)
        sealed = Sealed(
            query_id=query.id, first=first, count=count, width=width, leaves=digests, size=count * width // 8
        )
        return self._statistic, sealed

    def merge(self, *statistics: Statistic) -> Statistic:
        """Return one of them."""
        return statistics[0]


def own_seconds() -> float:
    """Return the processor time of this process so far [seconds]."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def carry(users: int, workers: int, scenario: Scenario) -> dict[str, Any]:
    """Return what it takes to ask ``users`` instant devices behind so many workers."""
    layout = plan_layout(devices=users, workers=workers, devices_per_actor=None)
    hosts: list[Any] = [ray.remote(num_cpus=0)(Instant).remote() for _ in range(ACTORS)]
    pool: list[Any] = [ray.remote(num_cpus=0)(InstantAggregator).remote() for _ in range(min(ACTORS, workers))]
    fleet = RayFleet({"devices": Cohorts(bounds=layout.cohorts, hosts=hosts)}, layout)
    with patch("coordinator.server.fleet.querying.start_aggregators", lambda count, _: (pool * count)[:count]):
        transport = fleet.queries(None)
    query = RunSpec(scenario).design.query(round_number=0, public_seed=bytes(16), epsilon=scenario.epsilon)
    ray.get(transport.warm_up(query))
    transport.ask(Ask(query=query, first=0, stop=min(users, 10**6)))
    cpu, clock = own_seconds(), time.perf_counter()
    _, leaves = transport.ask(Ask(query=query, first=0, stop=users))
    digest(leaves)
    cpu, clock = own_seconds() - cpu, time.perf_counter() - clock
    for actor in (*hosts, *pool):
        ray.kill(actor)
    return {
        "users": users,
        "workers": workers,
        "blocks": len(leaves),
        "kilobytes": sum(len(one.leaves if isinstance(one, Sealed) else one.bits) for one in leaves) / 1000,
        "seconds": clock,
        "processor_seconds": cpu,
        "microseconds_a_block": cpu / len(leaves) * 1e6,
        "devices_a_second": users / cpu,
    }


def booked(folder: Path | None, calls: int = 20_000) -> float:
    """Return the seconds that the devices' keeper needs for a booking, kept in memory or in a folder."""
    keeper, line = Keeper(folder), json.dumps(["0" * 32, "1"])
    begin = time.perf_counter()
    for call in range(calls):
        keeper.book(LEAF * call, LEAF * call + LEAF, max(call - 100, 0), [line])
    return (time.perf_counter() - begin) / calls


def main(
    items: Annotated[int, typer.Option(help="Items N, the length of a statistic.")] = 1000,
    rated: Annotated[int, typer.Option(help="Rated items w.")] = 30,
    rate: Annotated[float, typer.Option(help="Devices that a worker computes a second.")] = 4e6,
    most: Annotated[float, typer.Option(help="Devices of the largest row.")] = 1e12,
    json_file: JsonFile = None,
) -> None:
    """Measure the coordinator's share."""
    scenario, rows = Scenario(items=items, rated=rated, users=1000), []
    heads = (
        "devices",
        "workers",
        "calls",
        "kB of digests",
        "processor s",
        "us a call",
        "devices/s",
        "workers it feeds",
    )
    print(" | ".join(heads))
    with on_ray(address=None, workers=2):
        for users, workers in ROUNDS:
            if users > most:
                break
            row = carry(users, workers, scenario)
            row["workers_it_feeds"] = row["devices_a_second"] / rate
            rows.append(row)
            print(
                f"{users:.0e} | {workers:,} | {row['blocks']:,} | {row['kilobytes']:,.0f} | "
                f"{row['processor_seconds']:.2f} | {row['microseconds_a_block']:,.0f} | "
                f"{row['devices_a_second']:.2e} | {row['workers_it_feeds']:,.0f}",
                flush=True,
            )
    with tempfile.TemporaryDirectory() as folder:
        keeper = {"in_memory": booked(None), "in_a_folder": booked(Path(folder) / "run" / "0", 2_000)}
    print(", ".join(f"a booking {name.replace('_', ' ')}: {1e6 * took:,.0f} us" for name, took in keeper.items()))
    write_figures(json_file, {"rounds": rows, "seconds_a_booking": keeper})


if __name__ == "__main__":
    typer.run(main)
