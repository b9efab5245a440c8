"""Makes what tests share importable by name: tests are imported from their files and see no directory of their own.

What a shared module holds stands in its first line: ``head -qn 1 tests/support/*.py``.
"""

from __future__ import annotations

import fcntl
import gc
import importlib.machinery
import importlib.util
import math
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest

from actors import database
from scenarios import log

if TYPE_CHECKING:
    from messages import Wire
    from runs import Command, Ended

    from scenarios.backends.on_ray import OnRay


THOROUGH = os.environ.get("BLINDREC_THOROUGH") == "1"  # Whether `make test-thorough` runs; see `evidence`
# Whether no case is left out, though examples and sizes may be those of `make test`: mutants are killed so
EVERY_CASE = THOROUGH or os.environ.get("BLINDREC_EVERY_CASE") == "1"
LEFT_OUT = pytest.StashKey[int]()  # How many tests and cases only `make test-thorough` runs
# No test is about time, and a busy machine draws the same examples as an idle one
log.QUIET = math.inf  # lines that a command writes in a slow moment are `test_log`'s alone
os.environ["BLINDREC_QUIET_SECONDS"] = "inf"  # of commands in processes of their own, too
# Where a stand-in for an actor is missing, the first call of Ray fails, rather than wait for a Ray that there is not
os.environ["RAY_ENABLE_AUTO_CONNECT"] = "0"
hypothesis.settings.register_profile(
    "untimed",
    max_examples=100 if THOROUGH else 12,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("untimed")


SELDOM = (50_000, 20, 50)  # At how many new objects, and after how many rounds, cycles are looked for in older ones

# No test cuts the power, and a kill loses nothing that the system holds. That files are synchronized, and when, tests
# see by calls
os.fsync = os.fstat  # type: ignore[assignment]
database._PRAGMAS = (*database._PRAGMAS, "synchronous = OFF")


NO_RAY = "127.0.0.1:1"  # An address at which nothing listens
# Ray need not look what its processes use, nor for log files, of which those of two hundred processes took 10 s
UNWATCHED = {"RAY_LOG_MONITOR_MANY_FILES_THRESHOLD": "0", "LOG_NAME_UPDATE_INTERVAL_S": "100000"}
UNWATCHED |= {"REPORTER_UPDATE_INTERVAL_MS": "100000"}


class Shared:
    """Finds what tests share, when one of them imports it: together they take seconds, and few tests need all."""

    FOLDER = Path(__file__).parent
    SUPPORT = FOLDER / "support"
    NAMES = frozenset({"golden", *(file.stem for file in SUPPORT.glob("*.py"))})

    def find_spec(self, fullname: str, *_: object) -> importlib.machinery.ModuleSpec | None:
        """Return where a module of that name is, if tests share one."""
        if fullname not in self.NAMES:
            return None
        folder = self.FOLDER / fullname
        file = folder / "__init__.py" if folder.is_dir() else self.SUPPORT / f"{fullname}.py"
        return importlib.util.spec_from_file_location(fullname, file)


sys.meta_path.insert(0, Shared())


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    """Leave out what only `make test-thorough` runs of what is selected, and let tests that start Ray come first.

    Run these without `-n`, so that one Ray instance runs at a time.
    """
    from evidence import surplus  # noqa: PLC0415 (importable only since `Shared` is there)

    for path in sorted({item.path for item in items if item.get_closest_marker("cluster")}):
        if "mark.cluster" not in path.read_text(encoding="utf-8"):
            raise pytest.UsageError(f"{path} has tests that start Ray, but does not say mark.cluster: make misses them")
    yield
    more = set() if EVERY_CASE else set(surplus(items))
    config.stash[LEFT_OUT] = len(more)
    config.hook.pytest_deselected(items=list(more))
    items[:] = sorted(
        (item for item in items if item not in more), key=lambda item: not item.get_closest_marker("cluster")
    )


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Look for cycles only in what comes later: ten thousand tests live to the end, and took a sixth of the time."""
    gc.disable()
    gc.set_threshold(*SELDOM)
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Let one of several processes tell the first how many cases it left out."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left out"] = session.config.stash.get(LEFT_OUT, 0)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Hear how many: each of them collects all."""
    node.config.stash[LEFT_OUT] = getattr(node, "workeroutput", {}).get("left out", 0)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say how many."""
    if more := config.stash.get(LEFT_OUT, 0):
        terminalreporter.write_line(f"{more:,} tests and cases more in make test-thorough")


@pytest.fixture(autouse=True)
def no_ray_unasked(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a test that does not say ``mark.cluster`` find no Ray, rather than start one beside that of the others."""
    if not request.node.get_closest_marker("cluster"):
        monkeypatch.setenv("RAY_ADDRESS", NO_RAY)


@pytest.fixture(autouse=True, scope="session")
def what_tests_write_is_read(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep no bytecode of modules that tests write: of two of one size within a second Python takes the first."""
    ours = f"{tmp_path_factory.getbasetemp()}{os.sep}"
    keep = importlib.machinery.SourceFileLoader.set_data

    def kept(self: importlib.machinery.SourceFileLoader, path: str, *data: Any, **mode: Any) -> None:
        if not str(path).startswith(ours):
            keep(self, path, *data, **mode)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(importlib.machinery.SourceFileLoader, "set_data", kept)
        yield


@pytest.fixture
def blindrec(capsys: pytest.CaptureFixture[str]) -> Command:
    """Run the command line in this process."""
    from runs import Ended  # noqa: PLC0415 (importable only since `Shared` is there)

    from scenarios import cli  # noqa: PLC0415 (not needed by most tests)

    def run(*arguments: object) -> Ended:
        with pytest.raises(SystemExit) as ended:
            cli.main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        code = ended.value.code or 0
        assert isinstance(code, int)
        return Ended(code, out, err)

    return run


@pytest.fixture
def importable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working directory whose modules can be imported, and are forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name, module in list(sys.modules.items()):
        # not as paths, of which thousands take a tenth of a second
        if (getattr(module, "__file__", None) or "").startswith(f"{tmp_path}{os.sep}"):
            del sys.modules[name]


@pytest.fixture
def headless(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Figures are drawn without a display, never shown, and closed."""
    from matplotlib import pyplot as plt  # noqa: PLC0415 (plotting, where something is drawn)

    plt.switch_backend("agg")
    monkeypatch.setattr(plt, "show", lambda *_: pytest.fail("a figure is shown"))
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def undrawn() -> Iterator[None]:
    """Let folders of sweeps and comparisons hold no figures, for tests that look at none: each takes half a second."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("scenarios.studies.study.draw", lambda *_: None)
        yield


@pytest.fixture(scope="module")
def unfitted() -> Iterator[None]:
    """Draw figures coarsely, and find no room for their labels, for tests that look at neither: half of the time."""
    from scenarios.show import drawing  # noqa: PLC0415 (plotting, where something is drawn)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("scenarios.show.drawing.SETTINGS", {**drawing.SETTINGS, "savefig.dpi": 20})
        patch.setattr("matplotlib.figure.Figure.set_layout_engine", lambda *_, **__: None)
        patch.setattr("scenarios.show.drawing._fold", lambda *_: None)
        yield


@pytest.fixture
def swept(request: pytest.FixtureRequest, blindrec: Command, monkeypatch: pytest.MonkeyPatch) -> Command:
    """`blindrec sweep` with a module's `SWEEP` in this process, without figures and progress."""
    monkeypatch.setattr("scenarios.show.tables.EVERY", math.inf)
    monkeypatch.setattr("scenarios.studies.study.draw", lambda *_: None)

    def command(*more: object) -> Ended:
        sweep: tuple[object, ...] = getattr(request.module, "SWEEP", ())
        name, *options = (*sweep, *more)
        return blindrec("sweep", name, "--backend", "inprocess", "--workers", 1, *options)

    return command


@pytest.fixture
def no_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let plans consider two designs only: pairs take seconds."""
    from scenarios.studies.planner import plan  # noqa: PLC0415 (not needed by most tests)
    from scenarios.studies.planner.least_users import Candidate, candidates  # noqa: PLC0415 (same)

    few = ("maxsense", "full-reveal")

    def few_of(*request: Any) -> list[Candidate]:
        return [one for one in candidates(*request) if one.design in few or ":" in one.design]

    monkeypatch.setattr(plan, "candidates", few_of)


@pytest.fixture
def few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let predictions take the fewest draws, by default: for tests of what a plan or a run says, not how sure it is."""
    if not THOROUGH:
        monkeypatch.setattr("scenarios.theory.predictors.DRAWN_ITEMS", 400)
        monkeypatch.setattr("scenarios.theory.emulated_runs.MOST", 16)
        monkeypatch.setattr("scenarios.theory.emulated_runs.PATIENCE", 1)


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Let Ctrl-C and SIGHUP reach this process and what it starts.

    A shell that starts the suite in the background lets it ignore SIGINT, nohup SIGHUP, and children inherit that; a
    handler they do not inherit, so that they begin as from a terminal.
    """
    before = {
        signal.SIGINT: signal.signal(signal.SIGINT, signal.default_int_handler),
        signal.SIGHUP: signal.signal(signal.SIGHUP, signal.SIG_DFL),
    }
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def nobody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail where a device is asked."""

    def asked(*_: object) -> None:
        raise AssertionError("a device was asked")

    monkeypatch.setattr("actors.device.Cohort.answer", asked)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Wire:
    """All that crosses in runs in this process."""
    from messages import tap  # noqa: PLC0415 (importable only since `Shared` is there)

    return tap(monkeypatch)


@pytest.fixture(scope="session")
def ray_session() -> Iterator[OnRay]:
    """One Ray instance of two workers for all tests that need one: signals mean what they did, its folder goes."""
    import ray  # noqa: PLC0415 (importing Ray takes a second that others need not wait)

    from scenarios.backends.ray_instance import on_ray  # noqa: PLC0415 (as above)

    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("RAY_ADDRESS", raising=False)
        for name, value in UNWATCHED.items():
            patch.setenv(name, value)
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)
        with on_ray(address=None, workers=2) as session:
            context = ray.get_runtime_context()
            folder = Path(context.get_temp_dir()) / context.get_session_name()
            assert folder.is_dir()
            assert signal.signal(signal.SIGTERM, before) is signal.default_int_handler
            yield session
        assert not folder.exists()


@pytest.fixture
def lent(ray_session: OnRay, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `on_ray` and commands step into the instance that runs already, and leave it running."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr("scenarios.backends.ray_instance._require_none_here", lambda: None)
    monkeypatch.setattr("scenarios.backends.ray_instance._start", lambda *_, **__: None)
    monkeypatch.setattr("ray.shutdown", lambda: None)


@pytest.fixture(scope="session")
def subjects(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Results of every family, for reports; of several processes the first that needs them makes them."""
    from runs import made  # noqa: PLC0415 (importable only since `Shared` is there)

    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "results"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (paths := folder / "paths.txt").exists():
            (folder / "made").mkdir(exist_ok=True)
            paths.write_text("\n".join(map(str, made(folder / "made"))))
    return [Path(path) for path in paths.read_text().splitlines()]
