"""`blindrec resume`: an interrupted run's folder is all that it takes, and what it cannot use is told in a line."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from runs import Command, claim, refused, small, tree

from actors.keeper import owner_of, read_book
from scenarios.backends.selection import InProcess
from scenarios.families.main.run import run
from scenarios.store.journal import Journal
from scenarios.store.manifest import FOLDER

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
    before = list(read_book(journal.ledger))
    again = run(SCENARIO, InProcess(1), ledger=journal.ledger, rounds=journal)
    assert list(read_book(journal.ledger)) == before
    assert {spent for _, _, spent in again.spent} == {SCENARIO.epsilon}


def test_a_run_that_is_gone_on_with_keeps_its_ledgers(tmp_path: Path) -> None:
    out = interrupted(tmp_path / "out")
    before = Journal(out, 3).ledger
    claim(out, SCENARIO)
    assert Journal(out, 3).ledger == before
    assert before.is_dir()


def test_a_run_without_rounds_keeps_its_name(tmp_path: Path) -> None:
    out = tmp_path / "out"
    claim(out, SCENARIO)
    before = Journal(out, 3).ledger
    claim(out, SCENARIO, repeat=2)
    assert Journal(out, 3).ledger == before
    claim(out, SCENARIO.model_copy(update={"rounds": 3}))
    assert Journal(out, 3).ledger != before


def test_a_run_whose_ledger_lacks_what_devices_answered_is_refused(blindrec: Command, tmp_path: Path) -> None:
    """A log that ends early looks as a crash leaves it, but for the rounds that were kept after it."""
    out = interrupted(tmp_path / "out")
    (log,) = Journal(out, 3).ledger.iterdir()
    whole = log.read_bytes()
    head, *told = whole.splitlines(keepends=True)
    for left in (0, 1):
        log.write_bytes(head + b"".join(told[:left]))
        line = refused(blindrec, "resume", out, *FLAGS)
        assert f"round {left} was answered by 125 devices, their ledger tells of 0; a part of it is missing" in line
        assert "what devices spent is not known: put its files back as they were, or start in a new folder" in line
    log.unlink()
    assert "round 0 was answered by 125 devices, their ledger tells of 0" in refused(blindrec, "resume", out, *FLAGS)
    log.write_bytes(head + b"".join(told[:2]))  # the third round was answered, but not kept: nobody can tell
    assert blindrec("resume", out, *FLAGS).result["releases_sha256"] == blindrec(*WHOLE).result["releases_sha256"]


def test_a_ledger_of_an_earlier_format_is_refused(blindrec: Command, tmp_path: Path) -> None:
    out = interrupted(tmp_path / "out")
    journal = Journal(out, 3)
    (log,) = journal.ledger.iterdir()
    head = json.dumps({"format": 3, "owner": owner_of(journal.ledger)}).encode()
    log.write_bytes(hashlib.blake2b(head, digest_size=8).hexdigest().encode() + b" " + head + b"\n")
    assert '"format": 3' in (line := refused(blindrec, "resume", out, *FLAGS))
    assert "format 4; move it to where it belongs, or start in a new folder" in line


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
    for backend in ("scenarios.backends.selection.InProcess", "scenarios.backends.ray_instance.on_ray"):
        monkeypatch.setattr(backend, None)
    again = blindrec("resume", out, "--json", "-")
    assert (again.code, again.out, again.err) == (0, told.out, "")
    assert "blindrec resume, sign, inprocess" in blindrec("resume", out).out
    assert tree(out) == before


@pytest.mark.parametrize(
    ("content", "words"), [("{", "it is no JSON"), ("[]", "holds no object"), ("{}", "something else than run, online")]
)
def test_what_is_no_result_is_not_told(content: str, words: str, blindrec: Command, tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text(content)
    assert words in refused(blindrec, "resume", tmp_path, *FLAGS)
