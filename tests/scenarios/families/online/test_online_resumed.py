"""Online runs that end early go on after the last client that they kept, and end as if nothing had happened."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from going_on import LAYOUT, TIMED, killed_on_ray, left, on_a_full_disk, stopped
from runs import Command, planted_ratings, refused, tree, write_movielens

from actors.keeper import Keeper, spent_by
from coordinator.protocol.ballots import Service
from coordinator.server.online import service as serving
from coordinator.server.online.service import Line, Served, serve
from scenarios.families.online.online_run import KeptClients
from scenarios.store.manifest import FOLDER, MANIFEST
from scenarios.store.record_log import count_records

CLIENTS = 4
SERVED = ["online", "--rounds", "20", "--voters", "30", "--clients", str(CLIENTS), "--peers", "5", "--budget", "900"]
HERE = ["--backend", "inprocess", "--workers", "1"]
ELSEWHERE = ["--backend", "inprocess", "--workers", "2", "--devices-per-actor", "7"]
RUN = [*SERVED, *HERE]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Command, set[str]], dict[str, Any]]:
    """What a run leaves that nothing disturbs."""
    out = tmp_path_factory.mktemp("whole") / "out"

    def ended(blindrec: Command, without: set[str] = TIMED) -> dict[str, Any]:
        if not out.exists():
            assert blindrec(*RUN, "--out", out).code == 0
        return left(out, without)

    return ended


Whole = Callable[..., dict[str, Any]]


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The clients that are served, in order."""
    clients: list[int] = []

    def told(service: Service, *more: Any, **others: Any) -> Served:
        clients.append(service.client)
        return serve(service, *more, **others)

    monkeypatch.setattr(serving, "serve", told)
    return clients


@pytest.mark.parametrize("kept", range(1, CLIENTS + 1))
def test_a_run_goes_on_after_any_client(
    kept: int, blindrec: Command, whole: Whole, served: list[int], tmp_path: Path
) -> None:
    """By `resume` on another layout, and those that were served are not served again."""
    out = tmp_path / "out"
    ended = stopped(blindrec, kept, *RUN, "--out", out)
    told = f"{kept} client{'s are' if kept > 1 else ' is'} kept in {out}, the same command or blindrec resume {out}"
    assert (ended.code, ended.out) == (3, "")
    assert ended.err.splitlines()[-1] == f"blindrec: interrupted; {told} goes on"
    served.clear()
    assert blindrec("resume", out, *ELSEWHERE).code == 0
    assert served == list(range(kept, CLIENTS))
    assert left(out, LAYOUT) == whole(blindrec, LAYOUT)


@pytest.mark.parametrize("round_number", [0, 19, 20, 45, 79])
def test_a_run_that_stops_while_a_client_is_served_goes_on_with_that_client(
    round_number: int, blindrec: Command, whole: Whole, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """By the same command; one that had kept nothing leaves no folder."""
    out, offer, rounds = tmp_path / "out", Line.offer, iter(range(1000))

    def stopping(self: Line, *asked: int) -> bool:
        if next(rounds) == round_number:
            raise KeyboardInterrupt
        return offer(self, *asked)

    with monkeypatch.context() as patch:
        patch.setattr(Line, "offer", stopping)
        assert blindrec(*RUN, "--out", out).code == (3 if round_number >= 20 else 130)
    assert out.exists() == (round_number >= 20)
    assert count_records(out) == round_number // 20
    assert blindrec(*RUN, "--out", out).code == 0
    assert left(out, TIMED) == whole(blindrec)


def test_a_repeat_goes_on_with_the_seed_it_was_at(blindrec: Command, served: list[int], tmp_path: Path) -> None:
    run = [*RUN, "--repeat", "3"]
    assert blindrec(*run, "--out", tmp_path / "whole").code == 0
    stopped(blindrec, CLIENTS + 1, *run, "--out", tmp_path / "out")
    served.clear()
    assert blindrec("resume", tmp_path / "out", *HERE).code == 0
    assert served == [*range(1, CLIENTS), *range(CLIENTS)]
    assert left(tmp_path / "out", TIMED) == left(tmp_path / "whole", TIMED)


def test_a_resumed_run_charges_voters_what_an_undisturbed_one_does(
    blindrec: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("scenarios.experiment.experiment.drop", lambda _: None)
    books = []
    for name in ("whole", "resumed"):
        out = tmp_path / name
        if name == "resumed":
            stopped(blindrec, 2, *RUN, "--out", out)
        assert blindrec(*RUN, *(ELSEWHERE if name == "resumed" else ()), "--out", out).code == 0
        books.append(spent_by(Keeper(KeptClients(out, 0).ledger), 30))
    assert books[0] == books[1]
    assert all(spent for _, _, spent in books[0])


def test_clients_that_the_ledger_does_not_tell_of_are_refused(blindrec: Command, tmp_path: Path) -> None:
    stopped(blindrec, 2, *RUN, "--out", tmp_path)
    shutil.rmtree(KeptClients(tmp_path, 0).ledger)
    told = "client 0 was answered by 30 devices, their ledger tells of 0; a part of it is missing"
    assert told in refused(blindrec, "resume", tmp_path, *HERE)


def test_a_budget_keeps_the_same_voters_away_from_a_resumed_run(blindrec: Command, tmp_path: Path) -> None:
    run = ["400" if one == "900" else one for one in RUN]
    whole = blindrec(*run, "--json", "-").result
    stopped(blindrec, 3, *run, "--out", tmp_path)
    resumed = blindrec("resume", tmp_path, *ELSEWHERE, "--json", "-").result
    assert resumed["refused"] == whole["refused"] > 0
    assert resumed["recommendations_sha256"] == whole["recommendations_sha256"]


def test_a_run_that_cannot_begin_leaves_no_folder(blindrec: Command, tmp_path: Path) -> None:
    ratings = write_movielens(tmp_path / "ratings.csv", planted_ratings(users=25, items=60, each=50))
    line = refused(blindrec, "online", "--ratings", ratings, "--clients", "26", *HERE, "--out", tmp_path / "out")
    assert "clients is 26" in line
    assert not (tmp_path / "out").exists()


def test_a_finished_folder_tells_its_result_again(blindrec: Command, served: list[int], tmp_path: Path) -> None:
    told = blindrec(*RUN, "--out", tmp_path / "out", "--json", "-")
    served.clear()
    before = tree(tmp_path / "out")
    again = blindrec("resume", tmp_path / "out", "--json", "-")
    assert (again.code, again.out, again.err) == (0, told.out, "")
    assert told.result["recommendations_sha256"][:24] in blindrec("resume", tmp_path / "out").out
    assert served == []
    assert tree(tmp_path / "out") == before


@pytest.mark.parametrize("flags", ["--seed 1", "--clients 3", "--recommender p-rec-lean", "--budget 901"])
def test_the_folder_of_another_scenario_is_refused(flags: str, blindrec: Command, tmp_path: Path) -> None:
    stopped(blindrec, 1, *RUN, "--out", tmp_path)
    before = tree(tmp_path)
    line = refused(blindrec, *RUN, *flags.split(), "--out", tmp_path)
    assert f"output folder {tmp_path} holds part of another run; name a new one" in line
    run = ["run", "--items", "20", "--rated", "5", "--users", "100", "--backend", "inprocess"]
    assert "holds part of another run" in refused(blindrec, *run, "--out", tmp_path)
    assert tree(tmp_path) == before


@pytest.mark.parametrize("number", [0, 1])
def test_a_damaged_client_is_served_again(number: int, blindrec: Command, whole: Whole, tmp_path: Path) -> None:
    stopped(blindrec, 2, *RUN, "--out", tmp_path)
    file = KeptClients(tmp_path, 0).folder / f"{number:06d}.npz"
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    resumed = blindrec("resume", tmp_path, *HERE)
    assert resumed.code == 0
    assert f"{number:06d}.npz is damaged; going on from the client before it" in " ".join(resumed.err.split())
    assert left(tmp_path, TIMED) == whole(blindrec)


def test_a_client_of_another_run_is_refused(blindrec: Command, tmp_path: Path) -> None:
    for name in ("one", "other"):
        stopped(blindrec, 2, *RUN, "--out", tmp_path / name)
    here = KeptClients(tmp_path / "one", 0).folder / "000001.npz"
    here.write_bytes((KeptClients(tmp_path / "other", 0).folder / "000001.npz").read_bytes())
    assert f"{here} is no client 1 of this run" in refused(blindrec, "resume", tmp_path / "one", *HERE)


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
    with monkeypatch.context() as patch:
        patch.setattr("scenarios.store.run_folder.code_digest", lambda _: "ab" * 32)
        for again in (["resume", out, *HERE], [*run, "--out", out]):
            assert "the code of blindrec has changed since" in refused(blindrec, *again)
    assert blindrec("resume", out, *HERE).code == 0
    assert not (out / FOLDER / MANIFEST).exists()


def test_a_full_disk_leaves_what_was_kept(blindrec: Command, whole: Whole, tmp_path: Path) -> None:
    ended = on_a_full_disk(blindrec, 2, *RUN, "--out", tmp_path)
    assert (ended.code, ended.out) == (3, "")
    assert ended.err.splitlines()[-1] == (
        f"blindrec: client 2 cannot be kept in {KeptClients(tmp_path, 0).folder} (No space left on device); "
        f"2 clients are kept in {tmp_path}, the same command or blindrec resume {tmp_path} goes on"
    )
    assert blindrec("resume", tmp_path, *HERE).code == 0
    assert left(tmp_path, TIMED) == whole(blindrec)


@pytest.mark.thorough
@pytest.mark.cluster
def test_a_run_that_was_killed_on_ray_goes_on_in_process(blindrec: Command, whole: Whole, tmp_path: Path) -> None:
    killed_on_ray(tmp_path, 2, *SERVED, "--workers", "1")
    resumed = blindrec("resume", tmp_path, *HERE, "--devices-per-actor", "11")
    assert resumed.code == 0, resumed.err
    assert left(tmp_path, LAYOUT) == whole(blindrec, LAYOUT)
