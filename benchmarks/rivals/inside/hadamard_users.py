"""Users of pure-ldp's Hadamard response: privatise and aggregate, in one process and in several; with its own Python.

Every process has a client and a server object of its own. What users hold is drawn before the clock starts; the
estimate of all frequencies is timed by itself.
"""

from __future__ import annotations

import json
import random
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from importlib.metadata import version
from multiprocessing import get_context
from typing import Any

from pure_ldp.frequency_oracles.hadamard_response import HadamardResponseClient, HadamardResponseServer


def collect(job: dict[str, Any], seed: int, users: int) -> dict[str, float]:
    """Let ``users`` users answer; return when they began and ended [seconds] and what the estimate took."""
    random.seed(seed)
    items, epsilon = job["items"], job["epsilon"]
    values = random.choices(range(1, items + 1), k=users)
    server = HadamardResponseServer(epsilon, items)
    client = HadamardResponseClient(epsilon, items, server.get_hash_funcs())
    privatise, aggregate = client.privatise, server.aggregate
    begin = time.monotonic()
    for value in values:
        aggregate(privatise(value))
    end = time.monotonic()
    server.estimate_all(range(1, items + 1), suppress_warnings=True)
    return {"begin": begin, "end": end, "estimate": time.monotonic() - end}


def together(job: dict[str, Any], processes: int) -> dict[str, float]:
    """Let the users answer in several processes; return the seconds from the first answer to the last."""
    users = job["users"]
    if processes == 1:
        parts = [collect(job, job["seed"], users)]
    else:
        with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
            for warm in [pool.submit(collect, job, 0, 20_000) for _ in range(processes)]:
                warm.result()
            shares = [users * (k + 1) // processes - users * k // processes for k in range(processes)]
            jobs = [pool.submit(collect, job, job["seed"] + k, share) for k, share in enumerate(shares)]
            parts = [one.result() for one in jobs]
    seconds = max(part["end"] for part in parts) - min(part["begin"] for part in parts)
    return {"seconds": seconds, "estimate_seconds": max(part["estimate"] for part in parts)}


def main(job: dict[str, Any]) -> dict[str, Any]:
    """Return figures of all passes, in one process and in as many as there are workers."""
    collect(job, 0, 20_000)
    layouts = {}
    for processes in sorted({1, job["workers"]}):
        passes = [together(job, processes) for _ in range(job["passes"])]
        layouts[str(processes)] = {name: [one[name] for one in passes] for name in passes[0]}
    return {"users": job["users"], "version": version("pure-ldp"), "processes": layouts}


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
