"""What a run keeps, and `blindrec resume`: its folder is enough to go on; an edit, or a file of another, is refused."""

import functools
import json
import shutil
import sqlite3
from contextlib import closing, nullcontext
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from faults import forget
from runs import Command, Ended, claim, complains, here, present, refused, small, tree

from actors.keeper import LEDGER
from coordinator.protocol.agreement import Agreement
from coordinator.protocol.errors import InputError
from scenarios.backends.selection import InProcess
from scenarios.config import shuffled_account
from scenarios.config.resolve import resolve
from scenarios.config.scenario import Scenario
from scenarios.families.main.run import MainResult, run
from scenarios.families.online.online_scenario import OnlineScenario
from scenarios.store.journal import Journal
from scenarios.store.manifest import FOLDER, MANIFEST, digest, read_manifest
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
    with closing(Journal(out, scenario.seed)) as journal:
        run(scenario, InProcess(1), ledger=journal.ledger, rounds=journal)
    forget(journal.path, f"seed {scenario.seed}", kept)
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
    assert f"{journal.path} is damaged in row 0" in line


TABLE = '"seed 3"'
EXCHANGES = {
    "exchanged": [
        f"UPDATE {TABLE} SET position = {old} WHERE position = {new}" for old, new in ((9, 1), (1, 2), (2, 9))
    ],
    "missing": [f"DELETE FROM {TABLE} WHERE position = 1"],
    "edited": [f"UPDATE {TABLE} SET arrays = zeroblob(length(arrays)) WHERE position = 1"],
}


def exchange(what: str, journal: Journal, other: Path) -> str:
    """Put other rounds in the place of a run's; return what is said of it."""
    if what == "of another run":
        shutil.copy(interrupted(other).path, journal.path)
        return "says that it is of"
    if what == "cut off":
        journal.path.write_bytes(journal.path.read_bytes()[:9000])
        return "is damaged"
    with closing(sqlite3.connect(journal.path)) as tool, tool:
        for statement in EXCHANGES[what]:
            tool.execute(statement)
    return "is damaged in row 1 of table"


@pytest.mark.few(2)
@pytest.mark.parametrize("what", ["of another run", "cut off", *EXCHANGES])
def test_rounds_that_are_not_the_runs_are_refused(what: str, blindrec: Command, tmp_path: Path) -> None:
    """Where the file is removed, as the line says, all rounds are asked again, and devices repeat their answers."""
    journal = interrupted(tmp_path / "out")
    words = exchange(what, journal, tmp_path / "other")
    refused_both_ways(blindrec, tmp_path / "out", str(journal.path), words)
    journal.path.unlink()
    ends_alike(blindrec, tmp_path / "out")


def test_a_round_that_was_written_anew_is_refused(blindrec: Command, tmp_path: Path) -> None:
    """With another count of what came in, and a digest that goes with it."""
    journal = interrupted(tmp_path / "out")
    first, *_ = journal
    journal.close()
    with closing(sqlite3.connect(journal.path)) as tool:
        rows = tool.execute(f"SELECT * FROM {TABLE} ORDER BY position").fetchall()
    forget(journal.path, "seed 3", 0)
    journal.keep(replace(first, size=first.size + 1))
    journal.close()
    with closing(sqlite3.connect(journal.path)) as tool, tool:
        tool.executemany(f"INSERT INTO {TABLE} VALUES (?, ?, ?, ?, ?)", rows[1:])
    refused_both_ways(blindrec, tmp_path / "out", str(journal.path), "is damaged in row 1 of table")


def spoil_ledger(what: str, journal: Journal, other: Path) -> str:
    """Put something else in a ledger's place; return what is said of it."""
    file = journal.ledger / LEDGER.name
    if what in ("of another run", "of another seed"):
        shutil.copy(interrupted(other, seed=3 if what == "of another run" else 4).ledger / LEDGER.name, file)
        return "its folder is that of"
    if what == "no database":
        file.write_bytes(b'0a8fd2e3 ["00", "1", 0, 9]\n' * 40)
        return "is damaged (file is not a database), or of another version of blindrec"
    with closing(sqlite3.connect(file)) as tool, tool:
        if what == "edited":
            tool.execute("UPDATE charges SET stop = 1 WHERE position = 1")
            return "is damaged in row 1 of table"
        if what == "a line less":
            tool.execute("DELETE FROM charges WHERE position = 1")
            return "is damaged in row 1 of table"
        tool.execute("UPDATE about SET value = '4' WHERE name = 'format'")
        return "format 4; its folder is that of"


SPOILT = ["of another run", "of another seed", "edited", "a line less", "no database", "of format 4"]


@pytest.mark.parametrize("what", SPOILT)
def test_a_ledger_that_is_not_the_runs_is_refused(what: str, blindrec: Command, tmp_path: Path) -> None:
    journal = interrupted(tmp_path / "out")
    words = spoil_ledger(what, journal, tmp_path / "other")
    refused_both_ways(blindrec, tmp_path / "out", str(journal.ledger), words, "or start in a new folder")


BEHIND: dict[str, dict[str, Any]] = {
    "shuffled": {"design": "grr", "trust": "shuffled", "policy": "fixed", "rounds": 4, "users": 8000},
    "two-servers": {"design": "totals", "trust": "two-servers"},
}


def behind(out: Path, trust: str) -> tuple[Scenario, Journal, MainResult]:
    """A run with somebody between devices and server that was killed after all rounds were kept."""
    scenario = small(seed=3, **BEHIND[trust])
    claim(out, scenario)
    with closing(Journal(out, 3)) as journal:
        return scenario, journal, run(scenario, InProcess(1), ledger=journal.ledger, rounds=journal)


def check(out: Path) -> None:
    """Check a run's records and books, as a run does that goes on."""
    with Journal.checked(out, 3):
        pass


@pytest.mark.parametrize("trust", BEHIND)
def test_a_run_whose_books_lack_what_was_opened_is_refused_as_one_without_its_ledger(
    trust: str, tmp_path: Path
) -> None:
    _, journal, whole = behind(tmp_path, trust)
    check(tmp_path)
    for opener in present(whole.resolved.agreement).openers:
        good = (journal.ledger / LEDGER.name).read_bytes()
        forget(journal.ledger / LEDGER.name, f"openings of {opener}", 0)
        with complains("round 0 was opened for", f"the book of {opener} has 0", "put its files back as they were"):
            check(tmp_path)
        (journal.ledger / LEDGER.name).write_bytes(good)
    check(tmp_path)


def test_a_resumed_run_goes_on_under_the_agreement_of_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where bounds are computed otherwise by now, as another processor or a later version may."""
    scenario, journal, whole = behind(tmp_path, "shuffled")
    forget(journal.path, "seed 3", 2)
    monkeypatch.setattr(shuffled_account, "_local", lambda *_: (Fraction(3), "another bound"))
    fresh = resolve(whole.scenario).agreement
    assert fresh != whole.resolved.agreement
    with closing(Journal(tmp_path, 3)) as journal:
        again = run(scenario, InProcess(1), ledger=journal.ledger, rounds=journal)
    assert again.resolved.agreement == whole.resolved.agreement
    assert again.outcome.releases_sha256 == whole.outcome.releases_sha256
    assert list(again.spent) == list(whole.spent)


def test_another_agreement_than_that_of_a_folder_is_refused_in_a_line(blindrec: Command, tmp_path: Path) -> None:
    journal = interrupted(tmp_path / "out")
    good = journal.path.read_bytes()
    with closing(sqlite3.connect(journal.path)) as tool, tool:
        tool.execute("""UPDATE "agreement of seed 3" SET agreement = replace(agreement, '"1"', '"2"')""")
    words = 'is damaged in row 0 of table "agreement of seed 3"'
    refused_both_ways(blindrec, tmp_path / "out", str(journal.path), words, "put it back as it was")
    journal.path.write_bytes(good)
    forget(journal.path, "agreement of seed 3", 0)
    assert journal.agree(Agreement()) == Agreement()
    journal.close()
    refused_both_ways(blindrec, tmp_path / "out", "the ledger was begun under agreement", "start in a new folder")


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
    """A ledger that ends early looks as a crash leaves it, but for the rounds that were kept after it."""
    journal, out = interrupted(tmp_path / "out", 2), tmp_path / "out"
    file = journal.ledger / LEDGER.name
    forget(file, "charges", 2)  # the third round was answered, but not kept: nobody can tell
    whole = file.read_bytes()
    for left in (0, 1):
        forget(file, "charges", left)
        line = refused(blindrec, "resume", out, *FLAGS)
        assert f"round {left} was answered by 125 devices, their ledger tells of 0; a part of it is missing" in line
        assert "what devices spent is not known: put its files back as they were, or start in a new folder" in line
        file.write_bytes(whole)
    file.unlink()
    assert "round 0 was answered by 125 devices, their ledger tells of 0" in refused(blindrec, "resume", out, *FLAGS)
    file.write_bytes(whole)
    ends_alike(blindrec, out)


def test_what_cannot_be_resumed_is_refused(blindrec: Command, tmp_path: Path) -> None:
    assert "holds no interrupted run" in refused(blindrec, "resume", tmp_path / "nowhere", *FLAGS)
    interrupted(out := tmp_path / "out", 2)
    mark = out / FOLDER / "scenario.json"
    held = json.loads(mark.read_text())
    mark.write_text(json.dumps({**held, "format": 4}))
    assert "has format 4, this version of blindrec reads 5" in refused(blindrec, "resume", out, *FLAGS)
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
