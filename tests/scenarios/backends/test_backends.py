"""Commands choose their backend by the work that they predict, and say why; runs take the workers they gain from."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from runs import Command, present, small

from coordinator.protocol.errors import InputError
from coordinator.protocol.mechanisms import mechanisms as registered_mechanisms
from coordinator.server.rounds.rounds import QueryPlan
from scenarios.backends.on_ray import BITS_A_WORKER, OnRay
from scenarios.backends.selection import AUTO, FEW_CPUS, LONG, InProcess, Ray, choose, opened
from scenarios.config.resolve import resolve
from scenarios.config.scenario import Scenario
from scenarios.experiments import EXPERIMENTS, MAIN_JOB
from scenarios.families.online.online_scenario import OnlineScenario
from scenarios.families.two_tier.two_tier_scenario import TwoTier

SMALL = ("--users", 600, "--items", 20, "--rated", 5, "--workers", 1)


@pytest.fixture(autouse=True)
def no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing but the command decide."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """How often Ray was to be started or joined, and how; this process does its work."""
    asked: list[dict[str, Any]] = []

    @contextmanager
    def on_ray(**how: Any) -> Iterator[InProcess]:
        asked.append(how)
        session = InProcess(1)
        session.name = "ray"
        yield session

    monkeypatch.setattr("scenarios.backends.ray_instance.on_ray", on_ray)
    return asked


@pytest.mark.parametrize(
    ("backend", "more", "place", "reason"),
    [
        (AUTO, {"work": lambda: 0.2}, "inprocess", "less than 1 s of work predicted"),
        (AUTO, {"work": lambda: LONG}, "inprocess", "about 10 s of work predicted"),
        (AUTO, {"work": lambda: 12_345.6}, "ray", "about 12,346 s of work predicted, more than 10"),
        (AUTO, {"address": "h:1"}, "ray", "an address is given"),
        (AUTO, {"metrics": True}, "ray", "only Ray has what is asked for"),
        (AUTO, {"work": lambda: 1e9, "sharing": True, "address": "h:1"}, "ray", "an address is given"),
        ("ray", {"work": lambda: 0.2}, "ray", "as called"),
        ("inprocess", {"work": lambda: 1e9}, "inprocess", "as called"),
    ],
)
def test_a_place_is_chosen_with_a_reason(backend: str, more: dict[str, Any], place: str, reason: str) -> None:
    assert choose(backend, **more) == (place, reason)


@pytest.mark.parametrize(("cpus", "place"), [(2, "inprocess"), (FEW_CPUS + 1, "ray")])
def test_units_that_share_run_in_threads_on_few_cpus(cpus: int, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: cpus)
    assert choose(AUTO, work=lambda: 1e9, sharing=True)[0] == place


def test_inside_a_ray_job_it_is_the_jobs_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    assert choose(AUTO) == ("ray", "RAY_ADDRESS names a cluster")
    assert choose("inprocess")[0] == "inprocess"


def test_small_runs_start_no_ray_and_tell_why(blindrec: Command, started: list[dict[str, Any]], tmp_path: Path) -> None:
    told = blindrec("run", *SMALL, "--json", "-", "--out", tmp_path / "out").result
    assert (told["backend"], told["backend_reason"]) == ("inprocess", "less than 1 s of work predicted")
    shown = blindrec("run", *SMALL).out.splitlines()[0]
    assert shown.rstrip() == "blindrec run, maxsense, inprocess (less than 1 s of work predicted)"
    assert "inprocess (less than 1 s of work predicted)" in blindrec("resume", tmp_path / "out").out.splitlines()[0]
    assert not started


def test_long_runs_start_ray(blindrec: Command, started: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    here = blindrec("run", *SMALL, "--json", "-").result
    monkeypatch.setattr(type(MAIN_JOB), "work", lambda *_: 6.0)
    there = blindrec("run", *SMALL, "--json", "-").result
    twice = blindrec("run", *SMALL, "--repeat", 2, "--json", "-").result
    assert there["backend"] == "inprocess"
    assert (twice["backend"], twice["backend_reason"]) == ("ray", "about 12 s of work predicted, more than 10")
    assert len(started) == 1
    monkeypatch.setattr(type(MAIN_JOB), "work", lambda *_: 60.0)
    assert blindrec("run", *SMALL, "--json", "-").result["releases_sha256"] == here["releases_sha256"]
    assert len(started) == 2


def test_a_sweep_counts_its_units(blindrec: Command, started: list[dict[str, Any]], tmp_path: Path) -> None:
    flags = ("--rounds", 8, "--voters", 16, "--axes", "ratio=4", "--recommenders", "random", "--workers", 1)
    few = blindrec("sweep", "online", *flags, "--seeds", 2, "--out", tmp_path / "few")
    assert "sweep online, inprocess (about" in few.out, few.err
    assert not started
    many = blindrec("sweep", "online", *flags, "--seeds", 40, "--out", tmp_path / "many")
    assert "sweep online, ray (about" in many.out, many.err
    assert len(started) == 1


def test_predictions_grow_with_what_there_is_to_do(tmp_path: Path) -> None:
    demo = MAIN_JOB.work(Scenario(items=200, rated=20, users=2_000_000))
    assert 1 < demo < LONG < MAIN_JOB.work(Scenario(users=20_000_000))
    assert MAIN_JOB.work(Scenario(users=100, rated=30)) > MAIN_JOB.work(Scenario(users=100))
    curator = MAIN_JOB.work(Scenario(design="curator-items", users=100))
    assert curator == pytest.approx(6 * MAIN_JOB.work(Scenario(users=100)))
    file = tmp_path / "ratings.csv"
    file.write_bytes(b"x" * 256_000)
    assert MAIN_JOB.work(Scenario(ratings=file)) == pytest.approx(2 * MAIN_JOB.work(Scenario(users=1000)))
    online, two_tier = EXPERIMENTS["online"], EXPERIMENTS["two-tier"]
    assert online.work(OnlineScenario(ratings=file)) < 1 < online.work(OnlineScenario(clients=20, rounds=1000))
    assert two_tier.work(TwoTier(planted=(1000, 300, 50_000), mechanism="pmc")) == pytest.approx(1.0)
    assert all(MAIN_JOB.work(Scenario(design=name, users=1000)) < 1 for name in registered_mechanisms())


@pytest.mark.parametrize(("address", "hook"), [(None, "0"), ("h:1", None)])
def test_a_local_ray_has_no_hook_for_uv(
    started: list[dict[str, Any]], address: str | None, hook: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a cluster that is joined its users decide."""
    monkeypatch.setattr("os.environ", {name: one for name, one in os.environ.items() if "UV_RUN" not in name})
    with opened(Ray(address)):
        assert os.environ.get("RAY_ENABLE_UV_RUN_RUNTIME_ENV") == hook


@pytest.mark.parametrize(
    ("raised", "words"),
    [
        (RuntimeError("It timed out.\nSee the logs."), "Ray does not start on this machine (It timed out.); take"),
        (Exception("The node timed out"), "Ray does not start on this machine (The node timed out); take"),
        (ConnectionError(), "Ray does not start on this machine (ConnectionError); take"),
        (InputError("Ray listens on 0.0.0.0 port 7"), "blindrec: Ray listens on 0.0.0.0 port 7"),
    ],
)
def test_a_ray_that_does_not_start_is_told_in_a_line(
    raised: Exception, words: str, blindrec: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(**_: object) -> None:
        raise raised

    monkeypatch.setattr("ray.init", late)
    monkeypatch.setattr("ray.is_initialized", lambda: False)
    ended = blindrec("run", *SMALL, "--backend", "ray")
    assert ended.code == 2
    assert words in ended.err
    assert ended.err.count("\n") == 1


@pytest.mark.parametrize(("length", "short"), [(10, False), (51, True)])
def test_sockets_lie_in_a_short_folder(
    length: int, short: bool, blindrec: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders: list[str | None] = []

    def start(**settings: Any) -> None:
        folders.append(settings["_temp_dir"])
        assert folders[0] is None or Path(folders[0]).is_dir()
        raise InputError("no Ray")

    monkeypatch.setattr("ray.init", start)
    monkeypatch.setattr("ray.is_initialized", lambda: False)
    monkeypatch.delenv("RAY_TMPDIR", raising=False)
    monkeypatch.setenv("TMPDIR", f"/{'x' * (length - 1)}")
    assert blindrec("run", *SMALL, "--backend", "ray", "--workers", os.cpu_count() or 1).err == "blindrec: no Ray\n"
    assert (folders[0] is not None) is short
    assert folders[0] is None or not Path(folders[0]).exists()
    monkeypatch.setattr("scenarios.backends.ray_instance._SHORT", Path("/no-such-folder"))
    line = blindrec("run", *SMALL, "--backend", "ray").err
    assert ("TMPDIR is /xxx" in line and "set RAY_TMPDIR to a folder of at most" in line) is short


def test_more_workers_than_cpus_are_warned_of(blindrec: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def start(**_: object) -> None:
        raise InputError("no Ray")

    monkeypatch.setattr("ray.init", start)
    monkeypatch.setattr("ray.is_initialized", lambda: False)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    told = blindrec("run", *SMALL, "--backend", "ray", "--workers", 64).err
    assert told.startswith("blindrec: workers is 64, but this machine has 2 CPUs")
    assert "workers" not in blindrec("run", *SMALL, "--backend", "ray", "--workers", 2).err


def plan(design: str) -> QueryPlan:
    """Return what is asked of a few devices of 40 items."""
    resolved = resolve(small(design=design, users=100))
    return QueryPlan(policy=resolved.policy, learner=resolved.learner, devices=100)


@pytest.mark.parametrize(("design", "least"), [("maxsense", 1), ("oue", 40)])
def test_workers_grow_with_released_bits(design: str, least: int) -> None:
    place, asked = OnRay(8, most=True), plan(design)
    query = present(asked.rehearsal())
    assert query.bits >= least
    each = BITS_A_WORKER // query.bits
    workers = {1: 1, each: 1, each + 1: 2, 3 * each: 3, 9 * each: 8}
    assert {answers: place.choose_workers(asked, answers) for answers in workers} == workers


def test_who_names_a_number_gets_it_and_whose_mechanism_is_unknown_gets_all() -> None:
    asked: Any = plan("maxsense")
    assert OnRay(8).choose_workers(asked, 1) == InProcess(8).choose_workers(asked, 1) == 8
    assert OnRay(8, most=True).choose_workers(asked, 1) == 1
    assert OnRay(8, most=True).choose_workers(SimpleNamespace(custom="somebody's", rehearsal=asked.rehearsal), 1) == 8
