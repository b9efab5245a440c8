"""pure-ldp's frequency oracles: users a second, and how many reports speak for each value; with its own Python.

All users hold one value. A pass lasts a number of seconds, in which users answer one after the other; ``privatise`` and
``aggregate`` are timed, counts are read off the clock.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import numpy as np
from pure_ldp.frequency_oracles.direct_encoding import DEClient, DEServer
from pure_ldp.frequency_oracles.hadamard_mechanism import HadamardMechClient, HadamardMechServer
from pure_ldp.frequency_oracles.hadamard_response import HadamardResponseClient, HadamardResponseServer
from pure_ldp.frequency_oracles.local_hashing import LHClient, LHServer
from pure_ldp.frequency_oracles.unary_encoding import UEClient, UEServer

Counts = np.ndarray[Any, np.dtype[np.int64]]
BATCH = 0.2  # Seconds that the users of one batch take; between batches the clock stands still


def transformed(places: Counts) -> Counts:
    """Return the Walsh-Hadamard transform of numbers whose count is a power of two."""
    values, stride = places.astype(np.int64), 1
    while stride < values.size:
        pairs = values.reshape(-1, 2, stride)
        values = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1).ravel()
        stride *= 2
    return values


class Oracle:
    """A client and a server whose ``aggregated_data`` are the counts."""

    def __init__(self, client: Any, server: Any) -> None:
        self.client, self.server = client, server

    def ask(self, value: int, users: int) -> float:
        """Let users answer who hold a value, from 1; return the seconds."""
        privatise, aggregate = self.client.privatise, self.server.aggregate
        begin = time.perf_counter()
        for _ in range(users):
            aggregate(privatise(value))
        return time.perf_counter() - begin

    def counts(self, values: int) -> Counts:
        """Return the reports that speak for each value."""
        return np.asarray(self.server.aggregated_data[:values], np.int64)


class Response(Oracle):
    """Hadamard response in the high-privacy regime: reports are places, half of which speak for a value."""

    def counts(self, values: int) -> Counts:
        """Return the reports that speak for each value: those without a minus in its column, the first left out."""
        reports = np.bincount(self.server.aggregated_data, minlength=self.server.hr.outsz)
        totals: Counts = (reports.sum() + transformed(reports)[1 : values + 1]) // 2
        return totals


class Mechanism(Oracle):
    """The Hadamard mechanism: reports are some random rows, and the signs that the value has there or others."""

    def __init__(self, client: Any, server: Any) -> None:
        super().__init__(client, server)
        self.totals = np.zeros(server.d, np.int64)

    def ask(self, value: int, users: int) -> float:
        """Let users answer, and keep what the server adds up no more: which rows and signs belong together."""
        privatise, aggregate = self.client.privatise, self.server.aggregate
        reports = []
        begin = time.perf_counter()
        for _ in range(users):
            report = list(privatise(value))
            aggregate(report)
            reports.append(report)
        seconds = time.perf_counter() - begin
        pairs = np.array(reports, np.int64)
        rows, signs = pairs[:, :, 0], pairs[:, :, 1]
        for subset in range(1 << rows.shape[1]):
            members = [row for row in range(rows.shape[1]) if subset >> row & 1]
            np.add.at(self.totals, np.bitwise_xor.reduce(rows[:, members], axis=1), signs[:, members].prod(axis=1))
        return seconds

    def counts(self, values: int) -> Counts:
        """Return the reports all of whose signs are those of a value."""
        totals: Counts = transformed(self.totals)[:values] >> self.client.t
        return totals


def makers(job: dict[str, Any]) -> dict[str, Callable[[], Oracle]]:
    """Return what makes each oracle anew: `Oracle` by the name that the job calls it."""
    epsilon, values, rows = job["epsilon"], job["values"], job["rows"]
    size = 1 << (values - 1).bit_length()
    return {
        "grr": lambda: Oracle(DEClient(epsilon, values), DEServer(epsilon, values)),
        "oue": lambda: Oracle(UEClient(epsilon, values, use_oue=True), UEServer(epsilon, values, use_oue=True)),
        "olh": lambda: Oracle(LHClient(epsilon, values, use_olh=True), LHServer(epsilon, values, use_olh=True)),
        "hadamard": lambda: Mechanism(HadamardMechClient(epsilon, size, rows), HadamardMechServer(epsilon, size, rows)),
        "hadamard-bit": lambda: Response(
            HadamardResponseClient(epsilon, values, None), HadamardResponseServer(epsilon, values)
        ),
    }


def timed(oracle: Oracle, value: int, seconds: float) -> tuple[int, float]:
    """Let users answer for some seconds; return how many did, and what that took by the clock."""
    users, spent, batch = 0, 0.0, 1
    while spent < seconds:
        took = oracle.ask(value, batch)
        users, spent = users + batch, spent + took
        if took < BATCH / 2:
            batch *= 2
    return users, spent


def main(job: dict[str, Any]) -> dict[str, Any]:
    """Return every oracle's passes, and what its reports of all passes speak for."""
    random.seed(job["seed"])
    np.random.seed(job["seed"])  # noqa: NPY002, TID251 (the rival draws from it)
    oracles = {}
    for name in job["oracles"]:
        make = makers(job)[name]
        make().ask(job["own"] + 1, 50)
        oracle = make()
        passes = [timed(oracle, job["own"] + 1, job["seconds"]) for _ in range(job["passes"])]
        rates = [users / spent for users, spent in passes]
        users = sum(users for users, _ in passes)
        oracles[name] = {"users": users, "rates": rates, "counts": oracle.counts(job["values"]).tolist()}
    return {"version": version("pure-ldp"), "oracles": oracles}


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
