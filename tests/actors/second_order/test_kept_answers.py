"""Answers outlive the process: kept before they are sent, resent as they were, whatever cohort asks for them."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import tiers

from actors.keeper import owner_of
from actors.log import Log
from actors.second_order.answers import SUFFIX, Answer, Answers
from actors.second_order.cohort import PrivateCohort
from coordinator.protocol.errors import InputError, LedgerError
from coordinator.protocol.second_order import SecondOrderRelease

DEVICES = 9
OF = tiers.rated(devices=DEVICES)
MODEL = tiers.features(unseen=58)
"""Of 70 items, so that a PMC release has a fair coin of its own for most: with other coins it never is the same."""
QUERY = tiers.query(MODEL, "pmc")
OTHER_SECRET = bytes(16)
ROOT = Path(__file__).parents[3]


def answered(folder: Path, first: int, stop: int, secret: bytes = tiers.SECRET) -> list[SecondOrderRelease]:
    cohort = tiers.cohort(OF, first, stop, folder=folder, secret=secret)
    cohort.pin(MODEL.digest, first, stop)
    return cohort.answer(QUERY, MODEL, first, stop)


def test_a_new_process_resends_the_kept_bytes_in_any_layout(tmp_path: Path) -> None:
    """With another secret a new answer would differ."""
    before = answered(tmp_path, 0, DEVICES)
    assert answered(tmp_path, 0, DEVICES, OTHER_SECRET) == before
    assert [answered(tmp_path, k, k + 1, OTHER_SECRET)[0] for k in range(DEVICES)] == before
    assert answered(tmp_path / "new", 0, DEVICES, OTHER_SECRET) != before


def test_a_restart_answers_for_those_only_that_had_not(tmp_path: Path) -> None:
    early = answered(tmp_path, 2, 4) + answered(tmp_path, 6, 7)
    later = answered(tmp_path, 0, DEVICES, OTHER_SECRET)
    assert [later[2], later[3], later[6]] == early
    assert later[0] != answered(tmp_path / "new", 0, 1)[0]
    assert answered(tmp_path, 0, DEVICES) == later


def test_the_folder_remembers_the_model_and_the_ledger(tmp_path: Path) -> None:
    answered(tmp_path, 0, DEVICES)
    again = tiers.cohort(OF, 3, 5, folder=tmp_path)
    spent = again.ledger(4)
    assert spent is not None
    assert (spent.query_id, spent.model, spent.mechanism) == (QUERY.id, MODEL.digest, "pmc")
    other = tiers.features(unseen=58, seed=1)
    with pytest.raises(InputError, match=f"answered model {MODEL.digest.hex()[:8]}.*{other.digest.hex()[:8]}"):
        again.pin(other.digest, 3, 5)


KILLED = """
import os, signal, sys
from pathlib import Path
import importlib.util
for name in ("reference", "tiers"):
    spec = importlib.util.spec_from_file_location(name, f"tests/{name}.py")
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
import tiers
from actors.second_order.cohort import PrivateCohort
PrivateCohort._release = lambda self, device: os.kill(os.getpid(), signal.SIGKILL)
model = tiers.features(unseen=58)
cohort = tiers.cohort(tiers.rated(devices=9), 0, 9, folder=Path(sys.argv[1]))
cohort.pin(model.digest, 0, 9)
cohort.answer(tiers.query(model, "pmc"), model, 0, 9)
"""


def test_answers_survive_a_kill_before_they_are_sent(tmp_path: Path) -> None:
    killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], cwd=ROOT, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert answered(tmp_path, 0, DEVICES, OTHER_SECRET) == answered(tmp_path / "new", 0, DEVICES)


def test_an_answer_is_synced_before_it_is_returned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    happened: list[str] = []
    sync, release = os.fsync, PrivateCohort._release

    def synced(file: int) -> None:
        happened.append("folder" if stat.S_ISDIR(os.fstat(file).st_mode) else "file")
        sync(file)

    def sent(cohort: PrivateCohort, device: int) -> SecondOrderRelease:
        happened.append("sent")
        return release(cohort, device)

    monkeypatch.setattr("os.fsync", synced)
    monkeypatch.setattr(PrivateCohort, "_release", sent)
    answered(tmp_path, 0, DEVICES)
    assert happened == ["file", "folder", *["sent"] * DEVICES]


def answer(device: int, payload: bytes = b"\n\n{}", epsilon: Fraction | None = Fraction(1, 3)) -> Answer:
    return Answer(device, bytes(16), bytes(range(16)), "sslp", epsilon, "epsilon", payload)


def known(folder: Path) -> list[Answer | None] | None:
    """What three devices have answered, as a folder tells it; None where it is refused."""
    try:
        kept = Answers(0, 9, folder)
    except LedgerError:
        return None
    return [kept.get(device) for device in range(3)]


def test_a_torn_last_line_was_never_sent_and_is_left_out(tmp_path: Path) -> None:
    """One that lacks nothing but its end is there."""
    kept = Answers(0, 9, tmp_path)
    kept.keep([answer(0), answer(1)])
    (path,) = tmp_path.glob(f"*{SUFFIX}")
    whole = len(path.read_bytes())
    kept.keep([answer(2)])
    both = path.read_bytes()
    for end in range(whole, len(both) - 1):
        path.write_bytes(both[:end])
        assert known(tmp_path) == [answer(0), answer(1), None]
    Answers(0, 9, tmp_path).keep([answer(2, b"anew")])
    assert known(tmp_path) == [answer(0), answer(1), answer(2, b"anew")]
    path.write_bytes(both[:-1])
    assert known(tmp_path) is None  # it has two answers of a device then
    next(one for one in tmp_path.glob(f"*{SUFFIX}") if one != path).unlink()
    assert known(tmp_path) == [answer(0), answer(1), answer(2)]


def test_no_byte_that_is_changed_lets_a_device_answer_again(tmp_path: Path) -> None:
    """One in the last frame did, before: the file was cut to nothing."""
    kept = Answers(0, 9, tmp_path)
    kept.keep([answer(0), answer(1)])
    kept.keep([answer(2)])
    (path,) = tmp_path.glob(f"*{SUFFIX}")
    good = path.read_bytes()
    assert known(tmp_path) == [answer(0), answer(1), answer(2)]
    for place in range(len(good)):
        for flipped in (1, 2, 4, 8, 16, 32, 64, 128):
            content = good[:place] + bytes([good[place] ^ flipped]) + good[place + 1 :]
            path.write_bytes(content)
            assert known(tmp_path) is None, (place, flipped)
            assert path.read_bytes() == content


def test_damage_is_told_in_a_line(tmp_path: Path) -> None:
    answered(tmp_path, 0, DEVICES)
    (path,) = tmp_path.glob(f"*{SUFFIX}")
    content = bytearray(path.read_bytes())
    content[-40] ^= 1
    path.write_bytes(content)
    with pytest.raises(LedgerError, match=rf"^ledger {path} is damaged on line {DEVICES + 1}, .* put the file back"):
        tiers.cohort(OF, 0, 1, folder=tmp_path)


LINE = json.loads(answer(0).line())
BAD_LINES: dict[str, list[Any]] = {
    "below 0": [*LINE[:4], "-20", *LINE[5:]],
    "zero": [*LINE[:4], "0", *LINE[5:]],
    "a float": [*LINE[:4], 0.5, *LINE[5:]],
    "no number": [*LINE[:4], "1/0", *LINE[5:]],
    "beyond the channel": [*LINE[:4], str(10**9), *LINE[5:]],
    "no epsilon": [*LINE[:4], None, *LINE[5:]],
    "epsilon of none": [*LINE[:3], "pmc", *LINE[4:]],
    "no mechanism": [*LINE[:3], "mine", *LINE[4:]],
    "a list": [*LINE[:3], ["pmc"], *LINE[4:]],
    "short query": [0, "00", *LINE[2:]],
    "no model": [*LINE[:2], "zz" * 16, *LINE[3:]],
    "device": [-1, *LINE[1:]],
    "truth": [True, *LINE[1:]],
    "guarantee": [*LINE[:5], None, LINE[6]],
    "payload": [*LINE[:6], "%%%%"],
    "more": [*LINE, 1],
    "less": LINE[:6],
}


@pytest.mark.parametrize("bad", BAD_LINES)
def test_a_line_that_holds_no_answer_is_told(bad: str, tmp_path: Path) -> None:
    """Even with a digest that goes with it; "-20" came back as it stood there."""
    log = Log(tmp_path, "mine", SUFFIX, owner_of(tmp_path))
    log.append([answer(1).line(), json.dumps(BAD_LINES[bad])])
    with pytest.raises(LedgerError, match="is damaged on line 3"):
        Answers(0, 9, tmp_path)


@pytest.mark.parametrize("epsilon", [Fraction(-20), Fraction(0), 0.5, "1", None])
def test_no_answer_is_kept_under_an_epsilon_that_is_none(epsilon: Any) -> None:
    with pytest.raises(InputError, match="epsilon is"):
        answer(0, epsilon=epsilon)


def test_a_device_that_answered_in_two_ways_is_told(tmp_path: Path) -> None:
    """The same answer twice is one."""
    for _ in range(2):
        Log(tmp_path, "mine", SUFFIX, owner_of(tmp_path)).append([answer(0).line()])
    assert known(tmp_path) == [answer(0), None, None]
    Log(tmp_path, "other", SUFFIX, owner_of(tmp_path)).append([answer(0, b"other").line()])
    assert known(tmp_path) is None


def test_answers_of_another_folder_are_refused(tmp_path: Path) -> None:
    mine, other = tmp_path / "run-1" / "0", tmp_path / "run-2" / "0"
    Answers(0, 9, mine).keep([answer(0)])
    assert known(other) == [None, None, None]
    for path in mine.iterdir():
        path.rename(other / path.name)
    with pytest.raises(LedgerError, match=r"that it is .*run-1/0.*, its folder is that of run-2/0"):
        Answers(0, 9, other)


def test_an_answer_that_cannot_be_kept_is_not_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cohort = tiers.cohort(OF, 0, DEVICES, folder=tmp_path)
    cohort.pin(MODEL.digest, 0, DEVICES)
    sync = os.fsync

    def full(file: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(LedgerError, match="No space left on device"):
        cohort.answer(QUERY, MODEL, 0, DEVICES)
    assert cohort.ledger(0) is None
    monkeypatch.setattr("os.fsync", sync)
    assert cohort.answer(QUERY, MODEL, 0, DEVICES) == answered(tmp_path, 0, DEVICES, OTHER_SECRET)


def test_a_folder_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("taken")
    with pytest.raises(LedgerError, match="file cannot keep answers"):
        Answers(0, 1, tmp_path / "file")
