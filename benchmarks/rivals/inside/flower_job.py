"""The one-bit job on Flower's simulation engine; run with Flower's own Python.

Message API, ``run_simulation``, Ray backend. Nodes are few and asked again and again as new clients: the engine looks
for every node through all waiting messages, so that thousands of nodes at once make it slower.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

from flwr.app import ConfigRecord, Message, RecordDict
from flwr.serverapp import ServerApp
from flwr.simulation import run_simulation

from benchmarks.rivals.inside.flower_client import app as client_app

START = time.perf_counter()  # Before Ray is started; Python's and Flower's own imports are not counted


def ask(grid: Any, nodes: list[int], query: dict[str, Any]) -> list[int]:
    """Return the bits of one client a node."""
    messages = [Message(RecordDict({"query": ConfigRecord(query)}), dst_node_id=k, message_type="query") for k in nodes]
    replies = list(grid.send_and_receive(messages))
    if wrong := [reply.error for reply in replies if reply.has_error()]:
        raise RuntimeError(f"{len(wrong)} clients failed, the first with: {wrong[0]}")
    return [int(reply.content["answer"]["bit"]) for reply in replies]


def server_of(job: dict[str, Any], figures: dict[str, Any]) -> Callable[[Any, Any], None]:
    """Return the server: it waits for its nodes and a first round, then times the passes and sums the bits."""

    def serve(grid: Any, context: Any) -> None:  # noqa: ARG001 (Flower's signature)
        while len(nodes := list(grid.get_node_ids())) < job["nodes"]:
            time.sleep(0.05)
        query = {name: job[name] for name in ("items", "rated", "epsilon", "seed")}
        ask(grid, nodes, query | {"first": 0})
        figures["start_seconds"] = time.perf_counter() - START
        answered, passes, bits = len(nodes), [], list[int]()
        for _ in range(job["passes"]):
            start, stop = time.perf_counter(), answered + job["clients"]
            while answered < stop:
                some = nodes[: stop - answered]
                bits += ask(grid, some, query | {"first": answered})
                answered += len(some)
            passes.append(time.perf_counter() - start)
        figures.update(seconds=passes, answered=len(bits), ones=sum(bits))

    return serve


def main(job: dict[str, Any]) -> dict[str, Any]:
    """Run the simulation and return its figures."""
    figures: dict[str, Any] = {"clients": job["clients"], "version": version("flwr"), "ray": version("ray")}
    server_app = ServerApp()
    server_app.main()(server_of(job, figures))
    run_simulation(
        server_app=server_app,
        client_app=client_app,
        num_supernodes=job["nodes"],
        backend_config={
            "init_args": {"num_cpus": job["workers"], "log_to_driver": False},
            "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
        },
    )
    return figures


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
