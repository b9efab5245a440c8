"""The simulation of faults: its histories hold, it replays them, and it finds bugs that are planted."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from actors import durable
from actors.charges import Entry
from actors.ledger import Ledger
from benchmarks.faults import __main__ as command
from benchmarks.faults.history import play
from benchmarks.faults.scheduler import KINDS
from coordinator.server.fleet.panel import Panel

HISTORIES = 300
"""Some 15 s of one core; a night takes `python -m benchmarks.faults --histories 500000`."""


@pytest.mark.slow
def test_whatever_happens_what_must_hold_holds() -> None:
    told = [play(number) for number in range(HISTORIES)]
    wrong = {one.number: one.wrong for one in told if one.wrong}
    assert not wrong, f"replay one: python -m benchmarks.faults --history {min(wrong)}"
    assert {kind for one in told for kind in one.fired} == set(KINDS), "some kind of fault never happened"
    assert sum(one.attempts > 1 for one in told) > HISTORIES / 10, "hardly any run was resumed"


@pytest.mark.parametrize("number", [3, 15, 39, 46, 2033])
def test_a_history_replays_exactly(number: int) -> None:
    """In the last one all devices refuse two rounds, whose digests are the same."""
    first, second = play(number), play(number)
    assert first == second
    assert not first.wrong
    assert len(first.trace) > 10


@pytest.mark.parametrize("number", [10604, 50503])
def test_the_simulation_itself_was_wrong_here(number: int) -> None:
    """A folder that had been removed came back as a file; a process that died meanwhile took a power cut's place."""
    assert not play(number).wrong


def books_afterwards(self: Ledger, entry: Entry) -> list[tuple[int, int]]:
    """Books what was answered before only when the next question comes."""
    owed: list[str] = vars(self).setdefault("owed", [])
    known, _ = self._keeper.read(self.first, self.stop)
    if owed:
        self._keeper.book(self.first, self.stop, known, owed)
        owed.clear()
    self._stretches, booked, refused = self._charged(entry, self.budget)
    owed += [replace(entry, first=low, stop=high).line() for low, high in booked]
    return refused


def adds_without_waiting(path: Path, content: bytes, *, new: bool) -> None:
    """Leaves it to the system when the disk gets it."""
    system = vars(durable)["os"]
    held = system.open(path, os.O_WRONLY | os.O_APPEND | (os.O_CREAT | os.O_EXCL if new else 0), 0o666)
    try:
        left = memoryview(content)
        while left:
            left = left[system.write(held, left) :]
    finally:
        system.close(held)


def book_late(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Ledger, "_charge", books_afterwards)


def lose_a_wait(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("actors.durable.add", adds_without_waiting)
    patch.setattr("actors.log.add", adds_without_waiting)


def take_any_answer(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Panel, "_current", lambda *_: True)


def trust_what_a_dead_keeper_left(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("actors.log.settle", lambda *_: None)


@pytest.mark.parametrize(
    ("plant", "told"),
    [
        (book_late, "answered query .* not booked on the disk"),
        (lose_a_wait, "answered query .* not booked on the disk"),
        (take_any_answer, "is counted|than if nothing had happened|is no answer to"),
        (trust_what_a_dead_keeper_left, "answered query .* not booked on the disk"),
    ],
)
def test_a_planted_bug_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last one was in the code until a history brought it to light."""
    plant(monkeypatch)
    found = next(one for number in range(HISTORIES) if (one := play(number)).wrong)
    assert re.search(told, found.wrong), f"history {found.number}: {found.wrong}"
    monkeypatch.undo()
    assert not play(found.number).wrong, f"history {found.number} goes wrong without the bug, too"


def test_the_command_counts_histories_by_kind_of_fault(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command.main(histories=4, first=2)
    out = capsys.readouterr().out
    assert not ended.value.code
    assert "4 of 4 histories held" in out
    assert all(f"| {kind} |" in out for kind in KINDS)


def test_a_history_that_goes_wrong_is_told_with_how_to_replay_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lose_a_wait(monkeypatch)
    with pytest.raises(SystemExit) as ended:
        command.main(histories=1, first=0)
    assert ended.value.code == 1
    assert "python -m benchmarks.faults --history 0" in capsys.readouterr().out
    with pytest.raises(SystemExit) as again:
        command.main(history=0)
    assert again.value.code == 1
    assert "not booked on the disk" in capsys.readouterr().out


def test_ctrl_c_ends_with_what_was_played(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(number: int) -> object:
        if number == 2:
            raise KeyboardInterrupt
        return play(number)

    monkeypatch.setattr(command, "play", interrupted)
    assert len(command.played(0, 9)) == 2
    assert "interrupted after 2 histories" in capsys.readouterr().out
