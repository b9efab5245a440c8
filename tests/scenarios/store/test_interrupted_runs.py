"""What a run keeps, and `blindrec resume`: its folder is enough to go on; an edit, or a file of another, is refused."""

import functools
import hashlib
import json
import shutil
from contextlib import nullcontext
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from runs import Command, Ended, claim, complains, here, present, refused, small, tree

from actors.durable_log import files_of
from actors.keeper import LEDGER, owner_of
from coordinator.protocol.agreement import Agreement
from coordinator.protocol.errors import InputError
from scenarios.backends.selection import InProcess
from scenarios.config import shuffled_account
from scenarios.config.resolve import resolve
from scenarios.config.scenario import Scenario
from scenarios.families.main.run import MainResult, run
from scenarios.families.online.online_scenario import OnlineScenario
from scenarios.store.journal import Journal
from scenarios.store.manifest import FOLDER, MANIFEST, digest, openings_of, read_manifest
from scenarios.store.record_log import to_bytes
from scenarios.store.run_folder import in_run_folder, manifest_of

pytestmark = pytest.mark.usefixtures("few_draws")

SCENARIO = small(users=500, design="sign", policy="fixed", rounds=4, seed=3)
FLAGS = ["--backend", "inprocess", "--json", "-"]
WHOLE = ["run", "--items", "40", "--rated", "5", "--users", "500", "--design", "sign", "--policy", "fixed"]
WHOLE += ["--rounds", "4", "--seed", "3", *FLAGS]


def interrupted(out: Path, kept: int = 3, **changes: Any) -> Journal:
    """The journal of a run that has kept some of its four rounds; devices have booked the others, nobody kept them."""
    scenario = SCENARIO.model_copy(update=changes)
    claim(out, scenario)
    journal = Journal(out, scenario.seed)
    run(scenario, InProcess(1), ledger=journal.ledger, rounds=journal)
    for number in range(kept, 4):
        (journal.folder / f"{number:06d}.npz").unlink()
    return journal


def refused_both_ways(blindrec: Command, out: Path, *words: str) -> None:
    """`resume` and the same command refuse a folder in a line, and leave it as it is."""
    before = tree(out)
    for arguments in (["resume", out, *FLAGS], [*WHOLE, "--out", out]):
        line = refused(blindrec, *arguments)
        assert all(word in line for word in words), line
        assert tree(out) == before


@functools.cache
def undisturbed() -> str:
    """The digest of a run that nothing disturbs."""
    return here(SCENARIO).outcome.releases_sha256


def ends_alike(blindrec: Command, out: Path) -> Ended:
    """`resume` comes to the end that a run comes to which nothing disturbs."""
    resumed = blindrec("resume", out, *FLAGS)
    assert (resumed.code, resumed.result["releases_sha256"]) == (0, undisturbed())
    return resumed


EDITS: dict[str, Any] = {
    "rated": {"scenario": {"rated": 6}},
    "seed": {"scenario": {"seed": 4}},
    "policy": {"scenario": {"policy": "os:system"}},
    "run": {"run": "/x"},
    "another run": {"run": "ab" * 16},
    "repeat": {"repeat": 2},
    "code": {"code_sha256": "ab" * 32},
    "something more": {"more": 1},
}


@pytest.mark.few(3)
@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_mark_is_refused(edit: str, blindrec: Command, tmp_path: Path) -> None:
    interrupted(tmp_path / "out")
    mark = tmp_path / "out" / FOLDER / MANIFEST
    held = json.loads(mark.read_text())
    scenario = held["scenario"] | EDITS[edit].get("scenario", {})
    mark.write_text(json.dumps({**held, **EDITS[edit], "scenario": scenario}))
    refused_both_ways(blindrec, tmp_path / "out", f"{mark} was changed since the run began; put it back", "new folder")
    assert not Path("/x").exists()
    mark.write_text(json.dumps(held))
    ends_alike(blindrec, tmp_path / "out")


def test_a_mark_that_was_made_up_is_refused(blindrec: Command, tmp_path: Path) -> None:
    """Even one with a digest of its own."""
    interrupted(tmp_path / "out")
    mark = tmp_path / "out" / FOLDER / MANIFEST
    held = json.loads(mark.read_text())
    del held["sha256"]
    edits: list[tuple[str, Any, str]] = [("run", run, f"names run '{run}'") for run in ("/x", "../../x", "", 5)]
    edits += [("repeat", repeat, f"has repeat {repeat}") for repeat in (0, True, [3])]
    for name, value, words in (*edits, ("more", 1, "is damaged")):
        edited = {**held, name: value}
        mark.write_text(json.dumps({**edited, "sha256": digest(edited)}))
        refused_both_ways(blindrec, tmp_path / "out", str(mark), words, "new folder")


@pytest.mark.parametrize("booked", [False, True])
def test_what_cannot_be_used_leaves_a_new_folder_empty_unless_somebody_has_booked(booked: bool, tmp_path: Path) -> None:
    def refused_work(_: object) -> None:
        if booked:
            run(SCENARIO, InProcess(1), ledger=Journal(tmp_path / "out", SCENARIO.seed).ledger)
        raise InputError("it cannot be used")

    held = in_run_folder(tmp_path / "out", nullcontext(), claim=lambda out: claim(out, SCENARIO), work=refused_work)
    with pytest.raises(InputError, match="cannot be used"), held:
        pass
    assert (tmp_path / "out" / FOLDER).exists() == booked


def test_a_mark_holds_what_was_given_and_no_defaults() -> None:
    scenario = OnlineScenario(rounds=7)
    given = manifest_of("online", scenario).scenario.keys()
    assert given == scenario.model_fields_set < OnlineScenario.model_fields.keys()


def test_rounds_are_those_of_the_scenario_that_stands_in_the_mark(blindrec: Command, tmp_path: Path) -> None:
    """Even where the digest was made anew."""
    journal = interrupted(tmp_path / "out")
    mark = present(read_manifest(tmp_path / "out"))
    replace(mark, scenario={**mark.scenario, "rated": 6}).write(tmp_path / "out")
    line = refused(blindrec, "resume", tmp_path / "out", *FLAGS)
    assert f"{journal.folder / '000000.npz'} is no round 0 of this run" in line


def exchange(what: str, journal: Journal, other: Path) -> str:
    """Put another file in a round's place; return its name."""
    rounds = [journal.folder / f"{number:06d}.npz" for number in range(3)]
    match what:
        case "of another run":
            shutil.copy(interrupted(other).folder / "000001.npz", rounds[1])
        case "of another seed":
            shutil.copy(interrupted(other, seed=4).folder / "000000.npz", rounds[0])
            return rounds[0].name
        case "exchanged":
            contents = [path.read_bytes() for path in rounds]
            rounds[1].write_bytes(contents[2])
            rounds[2].write_bytes(contents[1])
        case "twice":
            shutil.copy(rounds[1], rounds[2])
            return rounds[2].name
        case "written anew":  # the first one, with another count of what came in, and a digest that goes with it
            first, *_ = journal
            rounds[0].write_bytes(to_bytes(Journal.codec, replace(first, size=first.size + 1), journal._first))
    return rounds[1].name


@pytest.mark.few(2)
@pytest.mark.parametrize("what", ["of another run", "of another seed", "exchanged", "twice", "written anew"])
def test_a_round_that_is_not_in_its_place_is_refused(what: str, blindrec: Command, tmp_path: Path) -> None:
    """Where it is removed, as the line says, the rounds from there on are asked again."""
    journal = interrupted(tmp_path / "out")
    name = exchange(what, journal, tmp_path / "other")
    words = f"{name} is no round {int(name[:6])} of this run"
    refused_both_ways(blindrec, tmp_path / "out", str(journal.folder), words, "remove it")
    (journal.folder / name).unlink()
    ends_alike(blindrec, tmp_path / "out")


def spoil_ledger(what: str, journal: Journal, other: Path) -> list[str]:
    """Put something else in a ledger's place; return what is said of it."""
    (file,) = files_of(journal.ledger, LEDGER)
    lines = file.read_bytes().splitlines(keepends=True)
    match what:
        case "of another run" | "of another seed":
            seed = {} if what == "of another run" else {"seed": 4}
            shutil.copy(files_of(interrupted(other, **seed).ledger, LEDGER)[0], journal.ledger)
            return ["its folder is that of"]
        case "edited":
            file.write_bytes(b"".join(lines).replace(b'"1"', b'"2"', 1))
            return ["is damaged on line 2"]
        case "a line less":
            file.write_bytes(b"".join([*lines[:2], *lines[3:]]))
            return ["is damaged on line 3"]
        case "of format 3":
            head = json.dumps({"format": 3, "owner": owner_of(journal.ledger)}).encode()
            file.write_bytes(hashlib.blake2b(head, digest_size=8).hexdigest().encode() + b" " + head + b"\n")
            return ['"format": 3', "format 4; move it to where it belongs"]
    file.write_bytes(b'0a8fd2e3 ["00", "1", 0, 9]\n')  # as format 2 had it: no head, a checksum a line
    return ["or of another version of blindrec"]


SPOILT = ["of another run", "of another seed", "edited", "a line less", "of format 2", "of format 3"]


@pytest.mark.parametrize("what", SPOILT)
def test_a_ledger_that_is_not_the_runs_is_refused(what: str, blindrec: Command, tmp_path: Path) -> None:
    journal = interrupted(tmp_path / "out")
    words = spoil_ledger(what, journal, tmp_path / "other")
    refused_both_ways(blindrec, tmp_path / "out", str(journal.ledger), *words, "or start in a new folder")


BEHIND: dict[str, dict[str, Any]] = {
    "shuffled": {"design": "grr", "trust": "shuffled", "policy": "fixed", "rounds": 4, "users": 8000},
    "two-servers": {"design": "totals", "trust": "two-servers"},
}


def behind(out: Path, trust: str) -> tuple[Scenario, Journal, MainResult]:
    """A run with somebody between devices and server that was killed after all rounds were kept."""
    scenario = small(seed=3, **BEHIND[trust])
    claim(out, scenario)
    journal = Journal(out, 3)
    return scenario, journal, run(scenario, InProcess(1), ledger=journal.ledger, rounds=journal)


@pytest.mark.parametrize("trust", BEHIND)
def test_a_run_whose_book_lacks_what_was_opened_is_refused_as_one_without_its_ledger(
    trust: str, tmp_path: Path
) -> None:
    _, journal, _ = behind(tmp_path, trust)
    assert journal.check() is None
    (log,) = openings_of(journal.ledger).iterdir()
    whole = log.read_bytes()
    head, *lines = whole.splitlines(keepends=True)
    for left in range(len(lines)):
        log.write_bytes(head + b"".join(lines[:left]))
        with complains("was opened of", "the book of the s", "tells of 0", "put its files back as they were"):
            Journal(tmp_path, 3).check()
    log.unlink()
    with complains("round 0 was opened of", "tells of 0"):
        Journal(tmp_path, 3).check()
    log.write_bytes(whole)
    assert Journal(tmp_path, 3).check() is None


def test_a_resumed_run_goes_on_under_the_agreement_of_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where bounds are computed otherwise by now, as another processor or a later version may."""
    scenario, journal, whole = behind(tmp_path, "shuffled")
    for number in (2, 3):
        (journal.folder / f"{number:06d}.npz").unlink()
    monkeypatch.setattr(shuffled_account, "_local", lambda *_: (Fraction(3), "another bound"))
    fresh = resolve(whole.scenario).agreement
    assert fresh != whole.resolved.agreement
    again = run(scenario, InProcess(1), ledger=journal.ledger, rounds=Journal(tmp_path, 3))
    assert again.resolved.agreement == whole.resolved.agreement
    assert again.outcome.releases_sha256 == whole.outcome.releases_sha256
    assert list(again.spent) == list(whole.spent)


@pytest.mark.parametrize("what", ["missing", "edited", "of another seed", "no object", "another ledger"])
def test_a_folder_without_its_runs_agreement_is_refused_in_a_line(what: str, blindrec: Command, tmp_path: Path) -> None:
    """As are folders that were begun before there were any."""
    journal = interrupted(tmp_path / "out")
    path = tmp_path / "out" / FOLDER / "agreement-3.json"
    words = ["is not what this run was begun under", "put it back as it was"]
    match what:
        case "missing":
            path.unlink()
            words = [f"{path} is missing: it was begun before there was one", "or start in a new folder"]
        case "edited":
            path.write_text(path.read_text().replace('"1"', '"2"', 1))
        case "of another seed":
            interrupted(tmp_path / "other", seed=4)
            shutil.copy(tmp_path / "other" / FOLDER / "agreement-4.json", path)
        case "no object":
            path.write_text("[]")
            words = [f"{path} cannot be read (it holds no object", "put it back as it was"]
        case "another ledger":
            path.unlink()
            assert journal.agree(Agreement()) == Agreement()
            words = ["the ledger was begun under agreement", "start in a new folder"]
    refused_both_ways(blindrec, tmp_path / "out", *words)


@pytest.mark.parametrize("made", ["rounds", "rounds/seed-0", "rounds/ledger/ab/seed-0"])
def test_a_folder_of_a_run_that_was_killed_at_once_can_be_used(made: str, blindrec: Command, tmp_path: Path) -> None:
    out = tmp_path / "out"
    (out / made).mkdir(parents=True)
    (out / ".result.json.0123.blindrec-part").write_text("half")
    line = refused(blindrec, "resume", out, *FLAGS)
    assert f"nothing was kept there; blindrec run ... --out {out} begins one" in line
    begun = blindrec(*WHOLE, "--out", out)
    assert (begun.code, begun.result["releases_sha256"]) == (0, undisturbed())
    names = {"result.json", "scenario.json", "versions.json", "items.parquet", "rounds.parquet"}
    assert {path.name for path in out.iterdir()} == names


@pytest.mark.parametrize("mine", ["notes.txt", "result.json", "rounds/notes.txt", ".notes", "folder/"])
def test_what_no_run_left_is_not_written_over(mine: str, blindrec: Command, tmp_path: Path) -> None:
    out = tmp_path / "out"
    (out / "rounds").mkdir(parents=True)
    if mine.endswith("/"):
        (out / mine).mkdir()
    else:
        (out / mine).write_text("mine")
    before = sorted(out.rglob("*"))
    assert "holds another run" in refused(blindrec, *WHOLE, "--out", out)
    assert sorted(out.rglob("*")) == before


def test_a_run_that_is_gone_on_with_keeps_its_ledgers(tmp_path: Path) -> None:
    """And keeps its name even without rounds, but for another scenario."""
    before, out = interrupted(tmp_path / "out", 2).ledger, tmp_path / "out"
    claim(out, SCENARIO)
    assert Journal(out, 3).ledger == before
    assert before.is_dir()
    out = tmp_path / "new"
    claim(out, SCENARIO)
    before = Journal(out, 3).ledger
    claim(out, SCENARIO, repeat=2)
    assert Journal(out, 3).ledger == before
    claim(out, SCENARIO.model_copy(update={"rounds": 3}))
    assert Journal(out, 3).ledger != before


def test_a_run_whose_ledger_lacks_what_devices_answered_is_refused(blindrec: Command, tmp_path: Path) -> None:
    """A log that ends early looks as a crash leaves it, but for the rounds that were kept after it."""
    journal, out = interrupted(tmp_path / "out", 2), tmp_path / "out"
    (log,) = journal.ledger.iterdir()
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
    ends_alike(blindrec, out)


def test_what_cannot_be_resumed_is_refused(blindrec: Command, tmp_path: Path) -> None:
    assert "holds no interrupted run" in refused(blindrec, "resume", tmp_path / "nowhere", *FLAGS)
    interrupted(out := tmp_path / "out", 2)
    mark = out / FOLDER / "scenario.json"
    held = json.loads(mark.read_text())
    mark.write_text(json.dumps({**held, "format": 2}))
    assert "was kept in format 2, this version of blindrec reads 4" in refused(blindrec, "resume", out, *FLAGS)
    mark.write_text(json.dumps(held)[:-9])
    assert "scenario.json is damaged" in refused(blindrec, "resume", out, *FLAGS)
    assert "scenario.json is damaged" in refused(blindrec, "run", *FLAGS, "--out", out)
    mark.write_text(json.dumps(held))
    assert blindrec("resume", out, *FLAGS).code == 0


@pytest.mark.parametrize(
    ("content", "words"), [("{", "it is no JSON"), ("[]", "holds no object"), ("{}", "no result of run, online")]
)
def test_what_is_no_result_is_not_told(content: str, words: str, blindrec: Command, tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text(content)
    assert words in refused(blindrec, "resume", tmp_path, *FLAGS)


def test_a_finished_folder_tells_its_result_to_the_same_command_alone(
    blindrec: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted(tmp_path)
    finished = blindrec(*WHOLE, "--out", tmp_path)
    assert (finished.code, finished.result["rounds"]) == (0, 4)
    before = tree(tmp_path)
    again = blindrec(*WHOLE, "--out", tmp_path, "--workers", 2)
    assert (again.code, again.out) == (0, finished.out)
    assert "is over: this is its result, and nobody was asked again" in " ".join(again.err.split())
    figure = tmp_path.parent / "again.png"
    assert not blindrec(*WHOLE, "--out", tmp_path, "--figure", figure).code
    assert figure.read_bytes().startswith(b"\x89PNG")
    for flags in (["--seed", "1"], ["--repeat", "2"], ["--epsilon", "2"]):
        assert "holds another run; name a new one" in refused(blindrec, *WHOLE, *flags, "--out", tmp_path)
    monkeypatch.setattr("scenarios.families.main.main_job.code_digest", lambda _: "0" * 64)  # its code has changed
    assert "holds another run; name a new one" in refused(blindrec, *WHOLE, "--out", tmp_path)
    assert before == tree(tmp_path)
