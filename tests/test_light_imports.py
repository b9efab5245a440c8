"""What must be quick to import loads no compiler, no tables and no cluster: settings, messages, the command line.

All of them share an interpreter, in the order of their limits, each of which holds the next: what all of them together
do not load, none of them loads.
"""

import json
import subprocess
import sys

from scenarios.cli import command_line

ASK = """
import importlib, json, sys
told = {}
for name, forbidden in json.loads(sys.argv[1]).items():
    module = importlib.import_module(name)
    for found in ("mechanisms", "by_query", "registered_rows", "named_recommenders"):
        getattr(module, found, dict)()
    told[name] = sorted(sys.modules.keys() & forbidden)
import numpy
from coordinator.protocol.hashing import device_streams
device_streams(numpy.zeros(2, numpy.uint64), 0, 3)
from numba.np import arraymath, linalg
told["kernel"] = [arraymath._HAVE_BLAS, linalg.ensure_blas.__name__, "scipy.linalg" in sys.modules]
print(json.dumps(told))
"""
HELP = """
import json, sys
from blindrec.__main__ import main
forbidden, *commands = json.loads(sys.argv[1])
told = {}
for words in commands:
    sys.argv = ["blindrec", *words.split(), "--help"]
    try:
        main()
    except SystemExit:
        told[words] = sorted(sys.modules.keys() & forbidden)
print(json.dumps(told), file=sys.stderr)
"""
NUMERICAL = ("numba", "scipy", "pandas", "sklearn", "ray")
LIGHT = {
    "scenarios.cli": (*NUMERICAL, "numpy", "pyarrow", "matplotlib"),
    "scenarios.experiments": (*NUMERICAL, "pyarrow", "matplotlib"),
    "actors.block_model": NUMERICAL,  # its kernels are compiled when they are called
    "coordinator.protocol.mechanisms": NUMERICAL,
    "coordinator.server.online.recommenders": NUMERICAL,
    "scenarios.cluster.job_request": NUMERICAL,
    "scenarios.backends.sending": NUMERICAL,
    "coordinator.server.fleet.panel": ("ray",),
    "coordinator.server.rounds.policies": ("ray", "numba", "scipy.special"),
}
"""A module, and what a fresh interpreter must not hold once it has imported it, and settings, messages and places."""
COMMANDS = ("", *command_line().commands)


def test_a_fresh_interpreter_loads_nothing_slow_nor_its_first_kernel_linear_algebra() -> None:
    """Numba has it where a kernel multiplies matrices."""
    said = subprocess.run([sys.executable, "-c", ASK, json.dumps(LIGHT)], capture_output=True, text=True, check=True)
    light: dict[str, list[object]] = {module: [] for module in LIGHT}
    assert json.loads(said.stdout) == {**light, "kernel": [True, "ensure_blas", False]}


def test_help_loads_nothing_slow() -> None:
    asked = json.dumps([[*NUMERICAL, "pyarrow", "matplotlib"], *COMMANDS])
    said = subprocess.run([sys.executable, "-c", HELP, asked], capture_output=True, text=True, check=True)
    assert said.stdout.count("Usage: ") == len(COMMANDS)
    assert json.loads(said.stderr) == {words: [] for words in COMMANDS}
