"""OpenDP's randomized response over many categories: users a second, and counts of releases; with its own Python."""

from __future__ import annotations

import json
import math
import sys
import time
from importlib.metadata import version
from typing import Any

import opendp.prelude as dp


def main(job: dict[str, Any]) -> dict[str, Any]:
    """Return the passes of one measurement that is called again and again, and counts of what it released."""
    dp.enable_features("contrib")
    values, own_value = job["values"], job["own"]
    odds = math.exp(job["epsilon"])
    release = dp.m.make_randomized_response(categories=list(range(values)), prob=odds / (odds + values - 1))
    counts, rates = [0] * values, []
    for _ in range(job["passes"]):
        users, begin = 0, time.perf_counter()
        while (spent := time.perf_counter() - begin) < job["seconds"]:
            for _ in range(100):
                counts[release(own_value)] += 1
            users += 100
        rates.append(users / spent)
    return {"version": version("opendp"), "oracles": {"grr": {"users": sum(counts), "rates": rates, "counts": counts}}}


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
