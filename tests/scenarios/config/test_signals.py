"""Signals: a signal, a full disk, a cleanup that hangs; each is one line with what is kept, and one exit code."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from faults import Disk
from runs import Command, holds_within, planted_ratings, write_movielens

from coordinator.protocol.errors import InputError, LostError
from scenarios.config.signals import BAD_INPUT, RESUMABLE, ended_by_signals, ending, resumable, same_handlers
from scenarios.store.whole_files import PART

HERE = ["--backend", "inprocess"]
RUN = ["run", "--items", "40", "--rated", "5", "--users", "500", "--design", "sign", "--policy", "fixed", *HERE]
RUN += ["--rounds", "4", "--json", "-"]
STUBBORN = """
import pathlib, sys, time
from scenarios.config import signals
from scenarios.store import journal
from scenarios.cli import main

keep, signals.LONGEST = journal.Journal.keep, 0.2
def waiting(self, over):
    keep(self, over)
    while over.ask.query.round == 1:
        try:
            pathlib.Path(sys.argv[1]).touch()
            time.sleep(600)
        except KeyboardInterrupt:
            pass
journal.Journal.keep = waiting
main(sys.argv[2:])
"""
"""A run that waits after two rounds, and does not end by itself."""


@pytest.mark.thorough  # a process; signals are raised in this one below, and Ctrl-C ends a real one in test_processes
def test_a_stubborn_run_that_is_terminated_tells_what_is_kept_and_goes_on(blindrec: Command, tmp_path: Path) -> None:
    """Runs that end by themselves are those of `test_cli_policies`."""
    out, stuck = tmp_path / "out", tmp_path / "stuck"
    command = [sys.executable, "-c", STUBBORN, str(stuck), *RUN, "--out", str(out)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        try:
            assert holds_within(120, lambda: stuck.exists() or run.poll() is not None)
            run.terminate()
            said, err = run.communicate(timeout=60)
        finally:
            run.kill()
    assert (run.returncode, said) == (RESUMABLE, "")
    line = f"2 rounds are kept in {out}, the same command or blindrec resume {out} goes on"
    *progress, last = err.splitlines()
    assert last == f"blindrec: interrupted; {line}"
    assert all(message.startswith("seed 0: ") for message in progress)  # a slow machine prints how far a run has come
    resumed = blindrec("resume", out, *HERE, "--json", "-")
    assert resumed.result["releases_sha256"] == blindrec(*RUN).result["releases_sha256"]


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    """As SIGHUP is under nohup; and what was there before is there again."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with ended_by_signals():
            signal.raise_signal(signal.SIGHUP)
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGTERM)  # it is ending already
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_handlers_of_a_library_do_not_stay() -> None:
    """Ray installs its own as it starts, and ends the process where a signal comes meanwhile."""
    with ended_by_signals():
        ours = signal.getsignal(signal.SIGTERM)
        with same_handlers():
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        assert signal.getsignal(signal.SIGTERM) is ours
        with pytest.raises(KeyboardInterrupt), same_handlers():
            sys.exit(signal.SIGTERM)


def test_the_innermost_tells_what_is_kept_once() -> None:
    with (
        pytest.raises(LostError) as ended,
        resumable(lambda: "outer"),
        resumable(lambda: "inner"),
        resumable(lambda: None),
    ):
        raise LostError("gone")
    assert ending(ended.value) == ("gone; inner", RESUMABLE)
    with pytest.raises(InputError) as given, resumable(lambda: "kept"):
        raise InputError("no")
    assert ending(given.value) == ("no", BAD_INPUT)
    assert ending(ZeroDivisionError()) is None


GRID = """
seeds = 1
most_users = 20_000
decoders = ["centred"]
[base]
rated = 5
epsilon = 4
[[grid]]
items = [16]
"""
TIERS = "--planted 60,20,900 --rank 2 --regularisation 1 --public 20 --private 10"
ADAPTIVE = "sweep adaptive --items 20 --rated 6 --epsilon 3 --seeds 2 --statistic moments --schemes sign,adaptive-sign"
COMMANDS = {
    "run": "run --items 40 --rated 5 --users 500 --design sign --policy fixed --rounds 2 --out {}/out --json {}/json",
    "online": "online --rounds 10 --voters 8 --out {}/out --json {}/json",
    "two-tier": f"two-tier {TIERS} --json {{}}/json",
    "data": "data {}/ratings.csv --json {}/json",
    "users": "sweep sample-complexity {}/grid.toml --out {}/out --json {}/json",
    "adaptive": f"{ADAPTIVE} --out {{}}/out",
    "votes": "sweep online --rounds 20 --voters 8 --axes rounds=20 --recommenders p-rec --seeds 1 --out {}/out",
    "tiers": f"sweep two-tier {TIERS} --figures 2 --seeds 1 --every 10 --mechanisms none,full --out {{}}/out",
}
"""All commands that keep or write something; each ends on a full disk at its first, a middle and its last operation."""
KEPT = "run.db cannot be used (No space left on device); look after its disk"
TOLD = dict.fromkeys(("run", "users", "adaptive", "votes", "tiers"), KEPT)


@pytest.mark.few(1)
@pytest.mark.parametrize("name", COMMANDS)
def test_a_full_disk_is_one_line_and_the_same_command_goes_on(
    name: str, blindrec: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for teller in ("show.tables", "experiment.progress"):  # no progress is told, however slow the machine is
        monkeypatch.setattr(f"scenarios.{teller}.EVERY", 1e9)

    def command(folder: str, disk: Disk) -> tuple[int, str]:
        place = tmp_path / folder
        place.mkdir(exist_ok=True)
        (place / "grid.toml").write_text(GRID)
        write_movielens(place / "ratings.csv", planted_ratings(users=30, items=20, each=8))
        own = [] if name == "data" else HERE
        with monkeypatch.context() as patch:
            disk.instead_of_the_system(patch)
            ended = blindrec(*COMMANDS[name].replace("{}", str(place)).split(), *own)
        return ended.code, ended.err

    whole = Disk()
    assert command("whole", whole)[0] == 0
    told = set[str]()
    operations = len(whole.done)
    for at in sorted({0, operations // 2, operations - 1}):
        code, err = command(f"full-{at}", Disk(at, later=True))
        line = err.splitlines()[-1]
        assert (code, line[:10]) == (RESUMABLE, "blindrec: "), err
        assert "No space left on device" in line
        assert "Traceback" not in err
        assert not list((tmp_path / f"full-{at}").rglob(f"*{PART}"))
        told.add(line)
    if name != "online":  # whose folder with results is not taken
        assert command(f"full-{operations // 2}", Disk())[0] == 0
    assert any(TOLD.get(name, "") in line for line in told), told
