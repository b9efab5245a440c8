"""Foreign mechanisms on Ray: they travel by value, with a package that helps, and each side holds what is its own."""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mechanisms
import psutil
import pytest
import ray
from runs import Command, job
from runs import outcome as here

from benchmarks.victims import below
from coordinator.server.fleet.coordinator_actor import start_coordinator
from coordinator.server.rounds.rounds import Outcome, Round
from coordinator.server.rounds.state import RunProgress
from scenarios.backends.on_ray import OnRay
from scenarios.backends.session import InMemoryRounds
from scenarios.families.main.run import Job, run_job


def there(session: OnRay, of: Job, progress: Callable[[RunProgress], None] = lambda _: None) -> Outcome:
    """What a run on Ray ends with."""
    return run_job(of, session, advised=0, top=1, progress=progress).outcome


class Unlucky(InMemoryRounds):
    """Dies with the second round that it is told."""

    def keep(self, over: Round) -> None:
        super().keep(over)
        if len(self.rounds) == 2:
            raise KeyboardInterrupt


def adaptive(kept: InMemoryRounds | None = None) -> Job:
    """Rounds of which each asks for what the ones before left open."""
    return job(mechanisms.GRR(), adaptive=True, workers=1, kept=kept)


@pytest.fixture(scope="module")
def watched(ray_session: OnRay) -> tuple[Outcome, dict[str, set[str]]]:
    """What an adaptive run ends with that was interrupted in this process, and the modules that its processes hold."""
    seen: dict[str, set[str]] = {}
    actors: dict[str, Any] = {}

    def recording(*arguments: Any) -> Any:
        actors["device"], actors["server"] = arguments[1]["devices"].hosts[0], start_coordinator(*arguments)
        return actors["server"]

    def progress(_: RunProgress) -> None:
        if not seen:
            asked = {name: actor.__ray_call__.remote(lambda _: set(sys.modules)) for name, actor in actors.items()}
            asked["aggregator"] = actors["server"].__ray_call__.remote(
                lambda server: ray.get(server._fleet._querying._pool[0].__ray_call__.remote(lambda _: set(sys.modules)))
            )
            seen.update({name: ray.get(answer) for name, answer in asked.items()})

    held = Unlucky()
    with pytest.raises(KeyboardInterrupt):
        here(adaptive(held))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("scenarios.backends.on_ray.start_coordinator", recording)
        return there(ray_session, adaptive(InMemoryRounds(*held.rounds)), progress), seen


@pytest.mark.cluster
def test_an_adaptive_run_that_was_interrupted_asks_the_same_there(watched: tuple[Outcome, dict[str, set[str]]]) -> None:
    far, near = watched[0], here(adaptive())
    assert far.releases_sha256 == near.releases_sha256
    assert [ask.query.id for ask in far.state.asked] == [ask.query.id for ask in near.state.asked]
    assert len(near.state.asked) > 2, "nothing is left to ask there"


@pytest.mark.cluster
def test_each_side_holds_its_own_and_imports_nobody_elses_file(watched: tuple[Outcome, dict[str, set[str]]]) -> None:
    """Ray loads the class behind a handle in the server's process, as in any run; the foreign file in none.

    An aggregator holds no handle of a device: nothing of `actors` is there, with a foreign class as without.
    """
    seen = watched[1]
    assert seen.keys() == {"device", "server", "aggregator"}
    for loaded in seen.values():
        assert not [name for name in loaded if name.partition(".")[0] in {"scenarios", "mechanisms", "runs"}]
    assert not [name for name in seen["aggregator"] if name.partition(".")[0] == "actors"]
    assert "coordinator.server.rounds.rounds" in seen["server"]
    assert "actors.device" in seen["device"]
    theirs = [name for name in seen["device"] if name.startswith("coordinator.")]
    assert all(name.startswith("coordinator.protocol") for name in theirs), theirs


@pytest.mark.cluster
@pytest.mark.thorough  # nine seconds of processor; the run above was interrupted as well, of a mechanism that counts
def test_a_run_that_was_interrupted_goes_on(ray_session: OnRay) -> None:
    """It began in this process."""
    held = Unlucky()
    with pytest.raises(KeyboardInterrupt):
        here(job(mechanisms.LocalHashing(), rounds=4, kept=held))
    whole = there(ray_session, job(mechanisms.LocalHashing(), rounds=4, workers=1, kept=InMemoryRounds(*held.rounds)))
    assert whole.releases_sha256 == here(job(mechanisms.LocalHashing(), rounds=4)).releases_sha256


@pytest.mark.cluster
@pytest.mark.parametrize("kind", [mechanisms.NeverEnds])
def test_what_goes_wrong_there_is_told_as_here(ray_session: OnRay, kind: type[mechanisms.Raises]) -> None:
    far, near = there(ray_session, job(kind(late=2), rounds=4, workers=1)), here(job(kind(late=2), rounds=4))
    until = time.monotonic() + 10
    while (left := [line for line in below(psutil.Process()).values() if line.startswith("ray::DeviceHost")]) and (
        time.monotonic() < until
    ):
        time.sleep(0.1)
    assert not left, "its process is ended, and the thread with it"
    assert far.failure == near.failure
    assert str(far.failure).startswith(f"mechanism {kind.__name__}, method sketch, round 2: ")
    assert far.releases_sha256 == near.releases_sha256


HELPER = """
import numpy as np

def one_hot(item, liked, items):
    bits = np.zeros((item.size, 2 * items), np.uint8)
    rated = np.flatnonzero(item >= 0)
    bits[rated, item[rated] + items * ~liked[rated]] = 1
    return bits
"""
HELPED = """
import sketching.hot
from theirs.good import OUE

class Helped(OUE):
    def sketch(self, question, ratings, coins):
        return sketching.hot.one_hot(*ratings.random_item(coins.words()), question.items)
"""


@pytest.fixture
def folder(importable: Path) -> Path:
    """A folder of one's own: a package, and another one that it imports."""
    source = Path(mechanisms.__file__).read_text(encoding="utf-8")
    for package, files in (("theirs", {"good": source, "helped": HELPED}), ("sketching", {"hot": HELPER})):
        (importable / package).mkdir()
        for name, text in {"__init__": "", **files}.items():
            (importable / package / f"{name}.py").write_text(text, encoding="utf-8")
    return importable


@pytest.mark.cluster
@pytest.mark.slow
def test_the_command_runs_it_on_ray_as_in_process(folder: Path, lent: None, blindrec: Command) -> None:
    """One class from a module of its package, with a package beside it that helps; Ray's workers find neither."""
    asked = ["--design", "theirs.helped:Helped", "--with", "sketching", "--items", "20", "--rated", "5"]
    run = ["run", *asked, "--users", "2000", "--json", "-"]
    near = blindrec(*run, "--backend", "inprocess").result
    far = blindrec(*run, "--backend", "ray", "--workers", "1").result
    assert far["releases_sha256"] == near["releases_sha256"]
    assert (far["mechanism"], far["actors"]) == (near["mechanism"], 1)
