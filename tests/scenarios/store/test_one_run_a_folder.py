"""An output folder belongs to one run at a time, a full disk is told in a line, and nothing that was kept is lost."""

import errno
import os
import shutil
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from faults import limited
from runs import Command, claim, refused, small

from actors import database
from actors.database import make_folder
from actors.keeper import Keeper
from coordinator.protocol.errors import InputError
from scenarios.experiment import experiment as finishing
from scenarios.store import run_folder, whole_files
from scenarios.store.journal import Journal
from scenarios.store.whole_files import locked_folder

pytestmark = pytest.mark.usefixtures("few_draws")

RUN = ["run", "--items", "40", "--rated", "5", "--users", "500", "--design", "sign", "--policy", "fixed"]
RUN += ["--rounds", "4", "--backend", "inprocess", "--json", "-"]


def ends_alike(blindrec: Command, out: Path) -> None:
    """`resume` comes to the end that a run comes to which nothing disturbs."""
    resumed = blindrec("resume", out, "--backend", "inprocess", "--json", "-")
    assert (resumed.code, resumed.result["rounds"]) == (0, 4)
    assert resumed.result["releases_sha256"] == blindrec(*RUN).result["releases_sha256"]


def test_a_run_that_could_not_begin_leaves_no_empty_folder(tmp_path: Path, blindrec: Command) -> None:
    """One that was there before stays, and so does one that holds something."""
    wrong = ["run", "--items", "40", "--rated", "5", "--users", "500", "--address", "127.0.0.1:9"]
    before = tmp_path / "before"
    before.mkdir()
    for out in (tmp_path / "new", before):
        assert "127.0.0.1:9 does not answer" in refused(blindrec, *wrong, "--out", out)
    assert [path.name for path in tmp_path.iterdir()] == ["before"]
    with locked_folder(tmp_path / "used"):
        (tmp_path / "used" / "kept").touch()
    assert (tmp_path / "used" / "kept").exists()


def test_a_folder_is_free_again_whatever_happened(tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(KeyError), locked_folder(tmp_path / "out"):
            raise KeyError
    with (
        locked_folder(tmp_path / "out"),
        locked_folder(tmp_path / "other"),
        locked_folder(None),
        pytest.raises(InputError, match="in use"),
    ):
        locked_folder(tmp_path / "out").__enter__()
    assert list(tmp_path.iterdir()) == []  # no file told of a lock, so the empty folders could go
    with pytest.raises(KeyboardInterrupt), run_folder._left_empty(None, new=True):
        raise KeyboardInterrupt


def test_a_folder_that_another_run_took_or_removed_is_not_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two runs made it at the same time; who comes second neither removes it nor holds what is no longer there."""

    def taken(*_: object) -> None:
        raise BlockingIOError

    out = tmp_path / "out"
    for lock in (taken, lambda *_: out.rmdir()):
        monkeypatch.setattr("fcntl.flock", lock)
        with pytest.raises(InputError, match="in use by another"):
            locked_folder(out).__enter__()
        assert out.exists() == (lock is taken)
        shutil.rmtree(out, ignore_errors=True)


def full(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_results_that_cannot_be_written(blindrec: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """See `test_resumed` for a disk that fills up while records are kept."""
    out = tmp_path / "out"
    monkeypatch.setattr(finishing, "write_bytes", full)
    ended = blindrec(*RUN, "--out", out)
    assert (ended.code, ended.out) == (3, "")
    assert f"results cannot be written to {out} (No space left on device); 4 rounds are kept" in ended.err
    monkeypatch.undo()
    ends_alike(blindrec, out)


def test_a_ledger_that_cannot_be_written_stops_the_run_where_it_can_be_resumed(
    blindrec: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    book, keep, out, kept = Keeper.book, Journal.keep, tmp_path / "out", list[object]()

    def fills_up(self: Keeper, *given: Any) -> Any:
        with limited("query_only = 1", "query_only = 0") if len(kept) == 3 else nullcontext():
            return book(self, *given)

    monkeypatch.setattr(Keeper, "book", fills_up)
    monkeypatch.setattr(Journal, "keep", lambda *given: kept.append(keep(*given)))
    ended = blindrec(*RUN, "--out", out)
    assert (ended.code, ended.out) == (3, "")
    assert "a readonly database); devices do not answer what they cannot book; 3 rounds are kept" in ended.err
    monkeypatch.undo()
    ends_alike(blindrec, out)


def test_names_of_files_and_folders_are_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file's content alone would not survive a power cut under a name; names of its own files SQLite sees to."""
    synced: list[Path] = []
    for module in ("actors.database", "scenarios.store.whole_files"):
        monkeypatch.setattr(f"{module}.sync_folder", synced.append)
    make_folder(tmp_path / "a" / "b")
    assert synced == [tmp_path.parent, tmp_path, tmp_path / "a"], "from the top, where a dead process left off first"
    synced.clear()
    whole_files.write_bytes(tmp_path / "a" / "file", b"told")
    assert synced == [tmp_path / "a"]


def test_a_file_system_that_cannot_synchronize_folders_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(errno.EINVAL, "Invalid argument")))
    database.sync_folder(tmp_path)
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        database.sync_folder(tmp_path)


@pytest.mark.parametrize(
    "command",
    ["run", "online --rounds 10 --voters 20", "sweep sample-complexity maxsense-items --seeds 1", "resume FOLDER"],
)
def test_a_command_is_refused_while_another_holds_its_folder(command: str, blindrec: Command, tmp_path: Path) -> None:
    words = [str(tmp_path) if word == "FOLDER" else word for word in command.split()]
    place = [] if command.startswith("resume") else ["--out", tmp_path]
    claim(tmp_path, small())
    with locked_folder(tmp_path):
        line = refused(blindrec, *words, "--backend", "inprocess", *place)
    use = f"output folder {tmp_path} is in use by another blindrec that still runs"
    assert line == f"{use}; wait for it, or name another one\n"


def test_a_run_holds_its_folder_to_its_end(blindrec: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Locks of killed processes go with them; see `test_units`."""
    keep, write, times = Journal.keep, whole_files.write_bytes, list[object]()

    def contend(call: Any, *arguments: Any) -> None:
        with pytest.raises(InputError, match="in use by another"), locked_folder(tmp_path / "out"):
            pytest.fail("two hold one folder")
        times.append(call(*arguments))

    monkeypatch.setattr(Journal, "keep", lambda *arguments: contend(keep, *arguments))
    monkeypatch.setattr(finishing, "write_bytes", lambda *arguments: contend(write, *arguments))
    assert blindrec(*RUN, "--out", tmp_path / "out").code == 0
    assert len(times) > 4


@pytest.mark.parametrize("name", ["versions.json", "rounds/seed-0", "rounds"])
def test_links_out_of_a_folder_are_refused(name: str, tmp_path: Path) -> None:
    """By one somebody's own file would be overwritten, or be removed as what is left over."""
    out, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "mine").write_text("as it was", encoding="utf-8")
    (out / name).parent.mkdir(parents=True)
    (out / name).symlink_to(elsewhere / "mine" if name.endswith(".json") else elsewhere)
    with pytest.raises(InputError, match=rf"{name} is a symbolic link out of it"), locked_folder(out):
        pytest.fail("nobody works there")
    assert (elsewhere / "mine").read_text(encoding="utf-8") == "as it was"


def test_links_within_a_folder_and_to_it_are_followed(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "one").write_text("1", encoding="utf-8")
    (tmp_path / "out" / "two").symlink_to(tmp_path / "out" / "one")
    (tmp_path / "link").symlink_to(tmp_path / "out")
    with locked_folder(tmp_path / "link"):
        assert (tmp_path / "link" / "two").read_text(encoding="utf-8") == "1"
