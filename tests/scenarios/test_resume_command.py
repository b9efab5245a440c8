"""`blindrec resume`: an interrupted run's folder is all that it takes, and what it cannot use is told in a line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from runs import Command, refused, small, tree

from actors.ledger_file import read_entries
from scenarios.claiming import claim
from scenarios.experiment import run
from scenarios.journal import Journal
from scenarios.mark import FOLDER
from scenarios.session import InProcess

SCENARIO = small(users=500, design="sign", policy="fixed", rounds=4, seed=3)
FLAGS = ["--backend", "inprocess", "--json", "-"]
WHOLE = ["run", "--items", "40", "--rated", "5", "--users", "500", "--design", "sign", "--policy", "fixed"]
WHOLE += ["--rounds", "4", "--seed", "3", *FLAGS]
LASTING = ("releases_sha256", "accuracy", "spent_max", "spent_mean", "answered", "rounds")


def interrupted(out: Path, kept: int = 2) -> Path:
    """A folder of a run that was killed while devices answered its third round: they have booked it, nobody kept it."""
    claim(out, SCENARIO)
    journal = Journal(out, 3)
    whole = run(SCENARIO, InProcess(1), ledger=journal.ledger, rounds=journal)
    assert len(whole.outcome.state.asked) == 4
    for number in range(kept, 4):
        (journal.folder / f"{number:06d}.npz").unlink()
    return out


def test_a_resumed_run_ends_as_if_nothing_had_happened(blindrec: Command, tmp_path: Path) -> None:
    resumed = blindrec("resume", interrupted(tmp_path / "out"), *FLAGS)
    assert (resumed.code, resumed.err) == (0, "")
    whole = blindrec(*WHOLE).result
    assert {name: resumed.result[name] for name in LASTING} == {name: whole[name] for name in LASTING}
    assert not (tmp_path / "out" / FOLDER).exists()


def test_a_resumed_run_books_nothing_twice(tmp_path: Path) -> None:
    out = interrupted(tmp_path / "out")
    journal = Journal(out, 3)
    before = list(read_entries(journal.ledger, 0, 500))
    again = run(SCENARIO, InProcess(1), ledger=journal.ledger, rounds=journal)
    assert list(read_entries(journal.ledger, 0, 500)) == before
    assert {spent for _, _, spent in again.ran.spent} == {SCENARIO.epsilon}


def test_what_an_earlier_run_left_on_a_nodes_disk_is_not_charged_again(tmp_path: Path) -> None:
    """The driver's folder is gone, the node's is not; only the policy's rounds differ."""
    out, node, ledgers = tmp_path / "out", tmp_path / "node", set()
    for scenario in (SCENARIO.model_copy(update={"rounds": 3}), SCENARIO):
        claim(out, scenario)
        place = node / Journal(out, 3).ledger.relative_to(out.absolute())
        last = run(scenario, InProcess(1), ledger=place)
        assert list(read_entries(place, 0, 500))
        ledgers.add(place)
        shutil.rmtree(out)
    assert len(ledgers) == 2
    assert {spent for _, _, spent in last.ran.spent} == {SCENARIO.epsilon}
    assert last.statistic.refused == 0


def test_a_run_that_is_gone_on_with_keeps_its_ledgers(tmp_path: Path) -> None:
    out = interrupted(tmp_path / "out")
    before = Journal(out, 3).ledger
    claim(out, SCENARIO)
    assert Journal(out, 3).ledger == before
    assert before.is_dir()


def test_a_run_whose_ledgers_all_lie_on_other_nodes_keeps_its_name(tmp_path: Path) -> None:
    """It was killed in its first round; with a new name, what devices have booked there would not count."""
    out, node = tmp_path / "out", tmp_path / "node"
    claim(out, SCENARIO)
    before = Journal(out, 3).ledger
    place = node / before.relative_to(out.absolute())
    run(SCENARIO, InProcess(1), ledger=place)
    claim(out, SCENARIO, repeat=2)
    assert Journal(out, 3).ledger == before
    again = run(SCENARIO, InProcess(1), ledger=place)
    assert {spent for _, _, spent in again.ran.spent} == {SCENARIO.epsilon}
    assert len(list(read_entries(place, 0, 500))) == len(set(read_entries(place, 0, 500)))
    claim(out, SCENARIO.model_copy(update={"rounds": 3}))
    assert Journal(out, 3).ledger != before


@pytest.mark.parametrize("kept", [0, 1])
def test_a_damaged_round_is_asked_again(kept: int, blindrec: Command, tmp_path: Path) -> None:
    out = interrupted(tmp_path / "out", kept=2)
    (Journal(out, 3).folder / f"{kept:06d}.npz").write_bytes(b"half a rou")
    resumed = blindrec("resume", out, *FLAGS)
    assert resumed.code == 0
    assert f"{kept:06d}.npz is damaged; going on from the round before it" in " ".join(resumed.err.split())
    assert resumed.result["releases_sha256"] == blindrec(*WHOLE).result["releases_sha256"]


def test_what_cannot_be_resumed_is_refused(blindrec: Command, tmp_path: Path) -> None:
    assert "holds no interrupted run" in refused(blindrec, "resume", tmp_path / "nowhere", *FLAGS)
    out = interrupted(tmp_path / "out")
    mark = out / FOLDER / "scenario.json"
    held = json.loads(mark.read_text())
    mark.write_text(json.dumps({**held, "format": 2}))
    assert "was kept in format 2, this version of blindrec reads 4" in refused(blindrec, "resume", out, *FLAGS)
    mark.write_text(json.dumps(held)[:-9])
    assert "scenario.json is damaged" in refused(blindrec, "resume", out, *FLAGS)
    assert "scenario.json is damaged" in refused(blindrec, "run", *FLAGS, "--out", out)
    mark.write_text(json.dumps(held))
    assert blindrec("resume", out, *FLAGS).code == 0


def test_a_finished_run_tells_its_result_again(
    blindrec: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As JSON and as a table, without a device, and without a backend."""
    out = interrupted(tmp_path / "out", kept=4)
    told = blindrec("resume", out, *FLAGS)
    assert told.result["rounds"] == 4
    before = tree(out)
    for backend in ("scenarios.session.InProcess", "scenarios.cluster.on_ray"):
        monkeypatch.setattr(backend, None)
    again = blindrec("resume", out, "--json", "-")
    assert (again.code, again.out, again.err) == (0, told.out, "")
    assert "blindrec resume, sign, inprocess" in blindrec("resume", out).out
    assert tree(out) == before


@pytest.mark.parametrize(
    ("content", "words"), [("{", "it is no JSON"), ("[]", "holds no result"), ("{}", "something else than run, online")]
)
def test_what_is_no_result_is_not_told(content: str, words: str, blindrec: Command, tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text(content)
    assert words in refused(blindrec, "resume", tmp_path, *FLAGS)
