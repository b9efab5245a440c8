"""Two-tier runs that end early go on after the last batch that they kept, and end as if nothing had happened."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from going_on import LAYOUT, TIMED, killed_on_ray, left, on_a_full_disk, stopped
from runs import Command, refused, tree

from actors.keeper import LEDGER, Keeper
from actors.second_order.cohort import Answer, Answers, PrivateCohort
from coordinator.protocol.second_order import SecondOrderRelease
from scenarios.families.two_tier.two_tier_run import KeptBatches
from scenarios.store.manifest import FOLDER
from scenarios.store.record_log import count_records

BATCHES = 3
TAUGHT = [
    "two-tier",
    "--planted",
    "90,40,2500",
    "--public",
    "20",
    "--private",
    "12",
    "--batch",
    "5",
    "--iterations",
    "4",
]
TAUGHT += ["--rank", "3", "--regularisation", "2", "--mechanism", "pmd", "--holdout", "5"]
HERE = ["--backend", "inprocess", "--workers", "1"]
RUN = [*TAUGHT, *HERE]
Whole = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """What a run leaves that nothing disturbs."""
    out = tmp_path_factory.mktemp("whole") / "out"

    def ended(blindrec: Command, without: set[str] = TIMED) -> dict[str, Any]:
        if not out.exists():
            assert blindrec(*RUN, "--out", out).code == 0
        return left(out, without)

    return ended


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The private devices that are asked, in order."""
    devices: list[int] = []
    answer = PrivateCohort.answer

    def answering(self: PrivateCohort, query: Any, features: Any, first: int, stop: int) -> list[SecondOrderRelease]:
        devices.extend(range(first, stop))
        return answer(self, query, features, first, stop)

    monkeypatch.setattr(PrivateCohort, "answer", answering)
    return devices


@pytest.mark.parametrize("kept", range(1, BATCHES + 1))
def test_a_run_goes_on_after_any_batch(
    kept: int, blindrec: Command, whole: Whole, asked: list[int], tmp_path: Path
) -> None:
    """By `resume` with more workers, and devices that have answered are not asked again."""
    out = tmp_path / "out"
    ended = stopped(blindrec, kept, *RUN, "--out", out)
    told = f"{kept} batch{'es are' if kept > 1 else ' is'} kept in {out}, the same command or blindrec resume {out}"
    assert ended.err.splitlines()[-1] == f"blindrec: interrupted; {told} goes on"
    asked.clear()
    assert blindrec("resume", out, "--backend", "inprocess", "--workers", "2").code == 0
    assert sorted(asked) == list(range(5 * kept, 12))
    assert left(out, LAYOUT) == whole(blindrec, LAYOUT)


@pytest.mark.parametrize("answered", [0, 3, 6, 9])
def test_a_run_that_stops_while_a_batch_answers_goes_on_with_that_batch(
    answered: int, blindrec: Command, whole: Whole, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """By the same command; some of its devices have answered. One that had kept nothing leaves no folder."""
    out, keep, numbers = tmp_path / "out", PrivateCohort._release, iter(range(100))

    def stopping(self: PrivateCohort, one: Answer) -> SecondOrderRelease:
        if next(numbers) == answered:
            raise KeyboardInterrupt
        return keep(self, one)

    with monkeypatch.context() as patch:
        patch.setattr(PrivateCohort, "_release", stopping)
        assert blindrec(*RUN, "--out", out).code == (3 if answered >= 5 else 130)
    assert out.exists() == (answered >= 5)
    assert count_records(out) == answered // 5
    assert blindrec(*RUN, "--out", out).code == 0
    assert left(out, TIMED) == whole(blindrec)


def test_a_resumed_run_draws_no_fresh_noise(blindrec: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What every device has answered, and to what, is what it answered before, and what an undisturbed run asks."""
    monkeypatch.setattr("scenarios.experiment.experiment.drop", lambda _: None)
    answers: dict[str, list[Answer | None]] = {}
    for name in ("whole", "resumed"):
        out = tmp_path / name
        if name == "resumed":
            stopped(blindrec, 2, *RUN, "--out", out)
            (KeptBatches(out, 0).folder / "000001.npz").unlink()  # its devices have answered all the same
        assert blindrec(*RUN, "--out", out).code == 0
        keeper = Keeper(KeptBatches(out, 0).ledger)
        told = Answers(0, 12, keeper)
        told.look()
        answers[name] = [told.get(device) for device in range(12)]
        assert sum(line.startswith("[") for line in keeper.read(0, 12)[1]) == 12
    assert answers["whole"] == answers["resumed"]
    assert None not in answers["whole"]


def test_a_weight_that_was_chosen_is_read_and_not_chosen_again(
    blindrec: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run = [*RUN, "--planted", "50,20,600", "--private", "4", "--batch", "2", "--mechanism", "laplace"]
    assert blindrec(*run, "--out", tmp_path / "whole").code == 0
    stopped(blindrec, 2, *run, "--out", tmp_path / "out")
    monkeypatch.setattr("coordinator.server.completion.weighing.Weighing.choose", None)
    assert blindrec("resume", tmp_path / "out", *HERE).code == 0
    assert left(tmp_path / "out", TIMED) == left(tmp_path / "whole", TIMED)


def test_what_has_no_devices_keeps_nothing_and_tells_its_result(blindrec: Command, tmp_path: Path) -> None:
    told = blindrec(*RUN, "--mechanism", "full", "--out", tmp_path / "out", "--json", "-")
    assert told.code == 0
    assert blindrec("resume", tmp_path / "out", "--json", "-").out == told.out


def test_a_finished_folder_tells_its_result_again(blindrec: Command, asked: list[int], tmp_path: Path) -> None:
    told = blindrec(*RUN, "--out", tmp_path / "out", "--json", "-")
    asked.clear()
    before = tree(tmp_path / "out")
    assert sorted(before) == [
        "iterations.parquet",
        "result.json",
        "scenario.json",
        "validated.parquet",
        "versions.json",
    ]
    again = blindrec("resume", tmp_path / "out", "--json", "-")
    assert (again.code, again.out, again.err) == (0, told.out, "")
    assert "blindrec resume, pmd, inprocess" in blindrec("resume", tmp_path / "out").out
    assert asked == []
    assert tree(tmp_path / "out") == before
    again = blindrec(*RUN, "--out", tmp_path / "out", "--json", "-")
    assert (again.code, again.out) == (0, told.out)
    assert "is over: this is its result, and nobody was asked again" in " ".join(again.err.split())
    assert (asked, tree(tmp_path / "out")) == ([], before)
    other = refused(blindrec, *RUN, "--seed", 9, "--out", tmp_path / "out")
    assert "holds another run; name a new one" in other


@pytest.mark.parametrize("flags", ["--seed 1", "--rank 2", "--mechanism pmc", "--batch 4"])
def test_the_folder_of_another_scenario_is_refused(flags: str, blindrec: Command, tmp_path: Path) -> None:
    stopped(blindrec, 1, *RUN, "--out", tmp_path)
    before = tree(tmp_path)
    line = refused(blindrec, *RUN, *flags.split(), "--out", tmp_path)
    assert f"output folder {tmp_path} holds part of another run; name a new one" in line
    assert "devices_per_actor is 3" in refused(blindrec, "resume", tmp_path, *HERE, "--devices-per-actor", "3")
    assert tree(tmp_path) == before


@pytest.mark.parametrize("number", [0, 1])
def test_a_damaged_batch_is_asked_again_and_repeats_its_answers(
    number: int, blindrec: Command, whole: Whole, tmp_path: Path
) -> None:
    stopped(blindrec, 2, *RUN, "--out", tmp_path)
    file = KeptBatches(tmp_path, 0).folder / f"{number:06d}.npz"
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    resumed = blindrec("resume", tmp_path, *HERE)
    assert resumed.code == 0
    assert f"{number:06d}.npz is damaged; going on from the batch before it" in " ".join(resumed.err.split())
    assert left(tmp_path, TIMED) == whole(blindrec)


def test_damaged_answers_and_other_models_are_refused(
    blindrec: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Devices must not answer again, nor can releases be folded into a model that they were not about."""
    stopped(blindrec, 2, *RUN, "--out", tmp_path)
    file = next(KeptBatches(tmp_path, 0).ledger.rglob(f"*{LEDGER.suffix}"))
    good = file.read_bytes()
    file.write_bytes(good.replace(b'"pmd"', b'"pmc"', 1))
    line = good[: good.index(b'"pmd"')].count(b"\n") + 1
    assert f"is damaged on line {line}" in refused(blindrec, "resume", tmp_path, *HERE)
    file.write_bytes(good)
    with monkeypatch.context() as patch:
        patch.setattr("scenarios.store.run_folder.code_digest", lambda _: "ab" * 32)
        assert "the code of blindrec has changed since" in refused(blindrec, "resume", tmp_path, *HERE)
    with monkeypatch.context() as patch:
        patch.setattr("coordinator.server.completion.fitting.SHRINK", 4.0)
        patch.setattr("coordinator.server.completion.fitting.centre.__defaults__", (4.0,))
        assert "batch 0 answered about model" in refused(blindrec, "resume", tmp_path, *HERE)
    assert blindrec("resume", tmp_path, *HERE).code == 0
    assert not (tmp_path / FOLDER).exists()


def test_batches_that_the_ledger_does_not_tell_of_are_refused(blindrec: Command, tmp_path: Path) -> None:
    stopped(blindrec, 2, *RUN, "--out", tmp_path)
    shutil.rmtree(KeptBatches(tmp_path, 0).ledger)
    told = "batch 0 was answered by private device 0, whose ledger does not tell so; a part of it is missing"
    assert told in refused(blindrec, "resume", tmp_path, *HERE)


def test_a_full_disk_leaves_what_was_kept(blindrec: Command, whole: Whole, tmp_path: Path) -> None:
    ended = on_a_full_disk(blindrec, 2, *RUN, "--out", tmp_path)
    assert (ended.code, ended.out) == (3, "")
    assert ended.err.splitlines()[-1] == (
        f"blindrec: batch 2 cannot be kept in {KeptBatches(tmp_path, 0).folder} (No space left on device); "
        f"2 batches are kept in {tmp_path}, the same command or blindrec resume {tmp_path} goes on"
    )
    assert blindrec("resume", tmp_path, *HERE).code == 0
    assert left(tmp_path, TIMED) == whole(blindrec)


@pytest.mark.thorough
@pytest.mark.cluster
def test_a_run_that_was_killed_on_ray_goes_on_in_process(blindrec: Command, whole: Whole, tmp_path: Path) -> None:
    killed_on_ray(tmp_path, 2, *TAUGHT, "--workers", "1")
    resumed = blindrec("resume", tmp_path, *HERE)
    assert resumed.code == 0, resumed.err
    assert left(tmp_path, LAYOUT) == whole(blindrec, LAYOUT)
