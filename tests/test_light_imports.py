"""What must be quick to import loads no compiler, no tables and no cluster: settings, messages, the command line."""

import subprocess
import sys

import pytest

ASK = """
import importlib, sys
module = importlib.import_module(sys.argv[1])
for name in ("registered", "public_halves", "server_halves", "registered_rows"):
    getattr(module, name, dict)()
print(*sys.modules)
"""
HELP = """
from blindrec.__main__ import main
try:
    main()
except SystemExit:
    print(*sys.modules, file=sys.stderr)
"""
NUMERICAL = ("numba", "scipy", "pandas", "sklearn", "ray")
LIGHT = {
    "actors.absence": NUMERICAL,
    "coordinator.protocol.arrays": NUMERICAL,
    "coordinator.protocol.channels": NUMERICAL,
    "coordinator.protocol.mechanisms": NUMERICAL,
    "coordinator.protocol.budget": NUMERICAL,
    "coordinator.protocol.checked": NUMERICAL,
    "coordinator.protocol.finding": NUMERICAL,
    "coordinator.protocol.messages": NUMERICAL,
    "coordinator.server.mechanisms": NUMERICAL,
    "coordinator.server.server_half": NUMERICAL,
    "scenarios.config.scenario": NUMERICAL,
    "scenarios.cli": (*NUMERICAL, "numpy", "pyarrow", "matplotlib"),
    "scenarios.backends.selection": (*NUMERICAL, "numpy"),
    "scenarios.experiments": (*NUMERICAL, "pyarrow", "matplotlib"),
    "scenarios.commands.entrance": NUMERICAL,
    "scenarios.store.whole_files": NUMERICAL,
    "scenarios.config.settings": NUMERICAL,
    "scenarios.store.manifest": NUMERICAL,
    "scenarios.cluster.job_request": NUMERICAL,
    "scenarios.backends.sending": NUMERICAL,
}
"""A module, and what a fresh interpreter must not hold once it has imported it."""


@pytest.mark.parametrize(("module", "forbidden"), LIGHT.items())
def test_a_fresh_interpreter_loads_nothing_slow(module: str, forbidden: tuple[str, ...]) -> None:
    said = subprocess.run([sys.executable, "-c", ASK, module], capture_output=True, text=True, check=True)
    loaded = set(said.stdout.split())
    assert module in loaded
    assert not loaded & set(forbidden)


@pytest.mark.parametrize(
    "words",
    [
        "",
        "run",
        "online",
        "two-tier",
        "resume",
        "demo",
        "data",
        "bounds",
        "plan",
        "check",
        "report",
        "submit",
        "sweep",
        "watch",
        "fetch",
    ],
)
def test_help_loads_nothing_slow(words: str) -> None:
    told = f"import sys; sys.argv = ['blindrec', *{words.split()}, '--help']\n" + HELP
    said = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    assert "Usage: " in said.stdout
    assert not {*said.stderr.split()} & {*NUMERICAL, "pyarrow", "matplotlib"}
