"""Runs that end early go on after the last client or batch that they stored, and end as if nothing had happened."""

import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import worlds
from faults import LAYOUT, TIMED, Disk, forget, left, stopped
from runs import Command, Ended, planted_ratings, refused, tree, write_movielens

from actors import database
from actors.keeper import LEDGER, Keeper, read_charge, spent_by
from actors.private_cohort import PrivateCohort
from coordinator.protocol.ballots import Service
from coordinator.protocol.messages import Release
from coordinator.server.online import service as serving
from coordinator.server.online.service import Line, Served, serve
from scenarios.families.online.online_run import KeptClients
from scenarios.families.two_tier.two_tier_run import KeptBatches
from scenarios.store.manifest import FOLDER, MANIFEST
from scenarios.store.record_log import RecordLog, count_records


def on_a_full_disk(blindrec: Command, holds: int, *arguments: object) -> Ended:
    """A command on a disk that holds so many records."""
    keep, left = RecordLog.keep, [holds]

    def keeping(self: RecordLog[Any], record: Any) -> None:
        left[0] -= 1
        with pytest.MonkeyPatch.context() as patch:
            if left[0] < 0:
                patch.setattr(database, "_transaction", Disk(0, later=True).commit)
            keep(self, record)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RecordLog, "keep", keeping)
        return blindrec(*arguments)


HERE = ["--backend", "inprocess", "--workers", "1"]


@dataclass(frozen=True, kw_only=True)
class Family:
    """A family whose runs store records: how a small one is typed, and what its records are called."""

    name: str
    flags: str
    records: type[RecordLog[Any]]
    nouns: tuple[str, str]
    elsewhere: str  # Another layout
    ends: tuple[int, ...]  # How many clients were served, or devices asked, after each record
    step: tuple[type, str]  # A method that is called so many times for a record
    steps: int
    missing: str  # What is said where the ledger does not have what a record answered

    @property
    def run(self) -> list[str]:
        return [self.name, *self.flags.split(), *HERE]

    def file(self, out: Path) -> Path:
        return self.records(out, 0).path


ONLINE = Family(
    name="online",
    flags="--rounds 20 --voters 30 --clients 4 --peers 5 --budget 900",
    records=KeptClients,
    nouns=("client", "clients"),
    elsewhere="--backend inprocess --workers 2 --devices-per-actor 7",
    ends=(0, 1, 2, 3, 4),
    step=(Line, "offer"),
    steps=20,
    missing="client 0 was answered by 30 devices, their ledger tells of 0; a part of it is missing",
)
TWO_TIER = Family(
    name="two-tier",
    flags="--planted 90,40,2500 --public 20 --private 12 --batch 5 --iterations 4 --rank 3 --regularisation 2 "
    "--mechanism pmd --holdout 5",
    records=KeptBatches,
    nouns=("batch", "batches"),
    elsewhere="--backend inprocess --workers 2",
    ends=(0, 5, 10, 12),
    step=(PrivateCohort, "_vectors"),
    steps=1,
    missing="batch 0 was answered by 5 devices, their ledger tells of 0; a part of it is missing",
)
BOTH = pytest.mark.parametrize("family", [ONLINE, TWO_TIER], ids=lambda one: one.name)
Whole = Callable[..., dict[str, Any]]


def cases(online: list[Any], two_tier: list[Any]) -> list[Any]:
    pairs = [(ONLINE, one) for one in online] + [(TWO_TIER, one) for one in two_tier]
    return [pytest.param(family, value, id=f"{family.name}-{value}") for family, value in pairs]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """What a run leaves that nothing disturbs."""
    folder = tmp_path_factory.mktemp("whole")

    def ended(blindrec: Command, family: Family, without: set[str] = TIMED) -> dict[str, Any]:
        if not (out := folder / family.name).exists():
            assert blindrec(*family.run, "--out", out).code == 0
        return left(out, without)

    return ended


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The clients that are served, or the private devices that are asked, in order."""
    numbers: list[int] = []
    answer = PrivateCohort.answer

    def serving_one(service: Service, *more: Any, **others: Any) -> Served:
        numbers.append(service.client)
        return serve(service, *more, **others)

    def answering(self: PrivateCohort, query: Any, features: Any, first: int, stop: int) -> Release:
        numbers.extend(range(first, stop))
        return answer(self, query, features, first, stop)

    monkeypatch.setattr(serving, "serve", serving_one)
    monkeypatch.setattr(PrivateCohort, "answer", answering)
    return numbers


@pytest.mark.parametrize(("family", "stored"), cases([1, 2, 3, 4], [1, 2, 3]))
def test_a_run_goes_on_after_any_record(
    family: Family, stored: int, blindrec: Command, whole: Whole, asked: list[int], tmp_path: Path
) -> None:
    """By `resume` on another layout, and those that were served or have answered are not asked again."""
    out = tmp_path / "out"
    ended = stopped(blindrec, stored, *family.run, "--out", out)
    records = f"{family.nouns[1]} are" if stored > 1 else f"{family.nouns[0]} is"
    line = f"{stored} {records} kept in {out}, the same command or blindrec resume {out}"
    assert (ended.code, ended.out) == (3, "")
    assert ended.err.splitlines()[-1] == f"blindrec: interrupted; {line} goes on"
    asked.clear()
    assert blindrec("resume", out, *family.elsewhere.split()).code == 0
    assert sorted(asked) == list(range(family.ends[stored], family.ends[-1]))
    assert left(out, LAYOUT) == whole(blindrec, family, LAYOUT)


@pytest.mark.few(3)
@pytest.mark.parametrize(("family", "at"), cases([0, 19, 20, 45, 79], [0, 1, 2]))
def test_a_run_that_stops_within_a_record_goes_on_with_that_one(
    family: Family, at: int, blindrec: Command, whole: Whole, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """By the same command; some of its devices have answered. A run that had stored nothing leaves no folder."""
    out, (owner, name), calls = tmp_path / "out", family.step, iter(range(1000))
    step = getattr(owner, name)

    def stopping(self: Any, *more: Any) -> Any:
        if next(calls) == at:
            raise KeyboardInterrupt
        return step(self, *more)

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, stopping)
        assert blindrec(*family.run, "--out", out).code == (3 if at >= family.steps else 130)
    assert out.exists() == (at >= family.steps)
    assert count_records(out) == at // family.steps
    assert blindrec(*family.run, "--out", out).code == 0
    assert left(out, TIMED) == whole(blindrec, family)


@BOTH
def test_records_that_the_ledger_does_not_have_are_refused(family: Family, blindrec: Command, tmp_path: Path) -> None:
    stopped(blindrec, 2, *family.run, "--out", tmp_path)
    shutil.rmtree(family.records(tmp_path, 0).ledger)
    assert family.missing in refused(blindrec, "resume", tmp_path, *HERE)


@pytest.mark.parametrize(
    ("family", "flags"),
    cases(
        ["--seed 1", "--clients 3", "--recommender p-rec-lean", "--budget 901"],
        ["--seed 1", "--rank 2", "--mechanism pmc", "--batch 4"],
    ),
)
def test_the_folder_of_another_scenario_is_refused(
    family: Family, flags: str, blindrec: Command, tmp_path: Path
) -> None:
    stopped(blindrec, 1, *family.run, "--out", tmp_path)
    before = tree(tmp_path)
    line = refused(blindrec, *family.run, *flags.split(), "--out", tmp_path)
    assert f"output folder {tmp_path} holds part of another run; name a new one" in line
    run = ["run", "--items", "20", "--rated", "5", "--users", "100", "--backend", "inprocess"]
    assert "holds part of another run" in refused(blindrec, *run, "--out", tmp_path)
    if family is TWO_TIER:
        assert "devices_per_actor is 3" in refused(blindrec, "resume", tmp_path, *HERE, "--devices-per-actor", "3")
    assert tree(tmp_path) == before


@BOTH
def test_damaged_records_are_told_and_asked_for_again_where_they_are_removed(
    family: Family, blindrec: Command, whole: Whole, tmp_path: Path
) -> None:
    """And devices that have answered repeat their answers."""
    stopped(blindrec, 2, *family.run, "--out", tmp_path)
    file = family.file(tmp_path)
    with closing(sqlite3.connect(file)) as tool, tool:
        tool.execute("""UPDATE "seed 0" SET arrays = zeroblob(length(arrays)) WHERE position = 1""")
    line = refused(blindrec, "resume", tmp_path, *HERE)
    assert f"{file} is damaged in row 1" in line
    assert "or remove it" in line
    file.unlink()
    assert blindrec("resume", tmp_path, *HERE).code == 0
    assert left(tmp_path, TIMED) == whole(blindrec, family)


@BOTH
def test_a_full_disk_leaves_what_was_stored(family: Family, blindrec: Command, whole: Whole, tmp_path: Path) -> None:
    ended = on_a_full_disk(blindrec, 2, *family.run, "--out", tmp_path)
    assert (ended.code, ended.out) == (3, "")
    one, several = family.nouns
    assert ended.err.splitlines()[-1] == (
        f"blindrec: {one} 2 cannot be kept in {family.file(tmp_path)} (No space left on device); "
        f"2 {several} are kept in {tmp_path}, the same command or blindrec resume {tmp_path} goes on"
    )
    assert blindrec("resume", tmp_path, *HERE).code == 0
    assert left(tmp_path, TIMED) == whole(blindrec, family)


@pytest.mark.parametrize(
    ("family", "tables", "words"),
    [
        (ONLINE, ["clients", "rounds", "voters"], "recommendations_sha256"),
        (TWO_TIER, ["iterations", "validated"], "mechanism"),
    ],
    ids=lambda one: getattr(one, "name", None),
)
def test_a_finished_folder_reports_its_result_again(
    family: Family, tables: list[str], words: str, blindrec: Command, asked: list[int], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    first = blindrec(*family.run, "--out", out, "--json", "-")
    asked.clear()
    before = tree(out)
    files = [f"{name}.parquet" for name in tables] + [f"{name}.json" for name in ("result", "scenario", "versions")]
    assert sorted(before) == sorted(files)
    again = blindrec("resume", out, "--json", "-")
    assert (again.code, again.out, again.err) == (0, first.out, "")
    assert first.result[words][:24] in blindrec("resume", out).out
    again = blindrec(*family.run, "--out", out, "--json", "-")
    assert (again.code, again.out) == (0, first.out)
    assert "is over: this is its result, and nobody was asked again" in " ".join(again.err.split())
    assert (asked, tree(out)) == ([], before)
    assert "holds another run; name a new one" in refused(blindrec, *family.run, "--seed", 9, "--out", out)


def test_a_resumed_run_charges_voters_what_an_undisturbed_one_does(
    blindrec: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("scenarios.experiment.experiment.drop", lambda _: None)
    books = []
    for name, layout in (("whole", ""), ("resumed", ONLINE.elsewhere)):
        out = tmp_path / name
        if layout:
            stopped(blindrec, 2, *ONLINE.run, "--out", out)
        assert blindrec(*ONLINE.run, *layout.split(), "--out", out).code == 0
        with closing(Keeper(KeptClients(out, 0).ledger)) as keeper:
            books.append(spent_by(keeper, 30))
    assert books[0] == books[1]
    assert all(spent for _, _, spent in books[0])


def test_what_has_changed_since_is_refused(blindrec: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The file of ratings, the code that serves, and flags that are about other experiments."""
    ratings = write_movielens(tmp_path / "ratings.csv", planted_ratings(users=25, items=60, each=50))
    run, out = ["online", "--ratings", ratings, "--clients", "3", *HERE], tmp_path / "out"
    stopped(blindrec, 1, *run, "--out", out)
    assert "has no design or policy" in refused(blindrec, "resume", out, *HERE, "--policy", "fixed")
    good = ratings.read_text()
    ratings.write_text(good.replace("5.0", "4.0", 1))
    assert f"{ratings} has changed since the run in {out} began" in refused(blindrec, "resume", out, *HERE)
    ratings.write_text(good)
    for digest, again in (("00" * 32, ["resume", out, *HERE]), ("ff" * 32, [*run, "--out", out])):
        with monkeypatch.context() as patch:
            patch.setattr("scenarios.store.run_folder.code_digest", lambda _, digest=digest: digest)
            assert "another version of blindrec began" in refused(blindrec, *again)
    assert blindrec("resume", out, *HERE).code == 0
    assert not (out / FOLDER / MANIFEST).exists()


def test_a_resumed_run_draws_no_fresh_noise(blindrec: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What every device has answered, and to what, is what it answered before, and what an undisturbed run asks."""
    monkeypatch.setattr("scenarios.experiment.experiment.drop", lambda _: None)
    charges: dict[str, list[str]] = {}
    for name in ("whole", "resumed"):
        out = tmp_path / name
        if name == "resumed":
            stopped(blindrec, 2, *TWO_TIER.run, "--out", out)
            forget(TWO_TIER.file(out), "seed 0", 1)  # its devices have answered all the same
        assert blindrec(*TWO_TIER.run, "--out", out).code == 0
        charges[name] = worlds.keeper_on(KeptBatches(out, 0).ledger).read(0, 12)[1]
    assert charges["whole"] == charges["resumed"]
    assert sum(charge.stop - charge.first for charge in map(read_charge, charges["whole"])) == 12
    digests = (json.loads((tmp_path / name / "result.json").read_text())["releases_sha256"] for name in charges)
    assert len(set(digests)) == 1


def test_a_weight_that_was_validated_is_read_and_not_validated_again(
    blindrec: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run = [*TWO_TIER.run, "--planted", "50,20,600", "--private", "4", "--batch", "2", "--mechanism", "laplace"]
    assert blindrec(*run, "--out", tmp_path / "whole").code == 0
    stopped(blindrec, 2, *run, "--out", tmp_path / "out")
    monkeypatch.setattr("coordinator.server.completion.weighing.Weighing.choose", None)
    assert blindrec("resume", tmp_path / "out", *HERE).code == 0
    assert left(tmp_path / "out", TIMED) == left(tmp_path / "whole", TIMED)


def test_what_has_no_devices_stores_nothing_and_reports_its_result(blindrec: Command, tmp_path: Path) -> None:
    first = blindrec(*TWO_TIER.run, "--mechanism", "full", "--out", tmp_path / "out", "--json", "-")
    assert first.code == 0
    assert blindrec("resume", tmp_path / "out", "--json", "-").out == first.out


def test_damaged_answers_and_other_models_are_refused(
    blindrec: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Devices must not answer again, nor can releases be folded into a model that they were not about."""
    stopped(blindrec, 2, *TWO_TIER.run, "--out", tmp_path)
    file = KeptBatches(tmp_path, 0).ledger / LEDGER.name
    good = file.read_bytes()
    with closing(sqlite3.connect(file)) as tool, tool:
        tool.execute("""UPDATE charges SET entry = replace(entry, '0', '1') WHERE position = 1""")
    assert "is damaged in row 1" in refused(blindrec, "resume", tmp_path, *HERE)
    file.write_bytes(good)
    with monkeypatch.context() as patch:
        patch.setattr("coordinator.server.completion.fitting.SHRINK", 4.0)
        patch.setattr("coordinator.server.completion.fitting.centre.__defaults__", (4.0,))
        assert "batch 0 answered about model" in refused(blindrec, "resume", tmp_path, *HERE)
    assert blindrec("resume", tmp_path, *HERE).code == 0
    assert not (tmp_path / FOLDER).exists()
