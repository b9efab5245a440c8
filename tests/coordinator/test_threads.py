"""One thread where sums decide: also for libraries that were loaded after the first look at their thread pools."""

from __future__ import annotations

import json
import subprocess
import sys

PROGRAM = """
import json, sys
import numpy as np
from threadpoolctl import threadpool_info
from coordinator.server.decoding.threads import k_means, one_thread

with one_thread():
    late = "sklearn" not in sys.modules
from sklearn.cluster import KMeans

fit, seen = KMeans.fit, []

def watched(self, *points, **others):
    seen.extend(pool["num_threads"] for pool in threadpool_info())
    return fit(self, *points, **others)

KMeans.fit = watched
labels = k_means(np.array([[0.0], [0.1], [5.0]]), 2, starts=1).labels_
print(json.dumps([late, len(seen), max(seen), labels.tolist()]))
"""


def test_k_means_runs_on_one_thread_whenever_its_library_was_loaded() -> None:
    said = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    late, pools, threads, labels = json.loads(said.stdout)
    assert late
    assert pools >= 2, "BLAS and OpenMP"
    assert threads == 1
    assert labels[0] == labels[1] != labels[2]
