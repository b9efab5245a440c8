"""Answers outlive the process: kept before they are sent, resent as they were, whatever cohort asks for them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import tiers

from actors.second_order.answers import SUFFIX, Answer, Answers, read
from actors.second_order.cohort import PrivateCohort
from coordinator.protocol.errors import InputError
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
        happened.append("synced" if os.fstat(file).st_size > 1000 else "made")
        sync(file)

    def sent(cohort: PrivateCohort, device: int) -> SecondOrderRelease:
        happened.append("sent")
        return release(cohort, device)

    monkeypatch.setattr("os.fsync", synced)
    monkeypatch.setattr(PrivateCohort, "_release", sent)
    answered(tmp_path, 0, DEVICES)
    assert happened[-DEVICES - 1 :] == ["synced", *["sent"] * DEVICES]


def answer(device: int, payload: bytes = b"\n\n{}") -> Answer:
    return Answer(device, bytes(16), bytes(range(16)), "pmc", "", "none", payload)


def test_a_torn_last_frame_was_never_sent_and_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / f"0-9{SUFFIX}"
    kept = Answers(0, 9, tmp_path)
    kept.keep([answer(0), answer(1)])
    whole = path.read_bytes()
    kept.keep([answer(2)])
    both = path.read_bytes()
    flipped = both[:-1] + bytes([both[-1] ^ 1])
    for content in [*(both[:end] for end in range(len(whole), len(both), 9)), both[:-1], flipped]:
        path.write_bytes(content)
        again = Answers(0, 9, tmp_path)
        assert [again.get(k) for k in range(3)] == [answer(0), answer(1), None]
        again.keep([answer(2, b"anew")])
        assert read(path) == [answer(0), answer(1), answer(2, b"anew")]


def test_damage_before_the_last_frame_is_an_error(tmp_path: Path) -> None:
    kept = Answers(0, 9, tmp_path)
    kept.keep([answer(0)])
    kept.keep([answer(1)])
    path = tmp_path / f"0-9{SUFFIX}"
    content = bytearray(path.read_bytes())
    content[40] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match="damaged at byte 0; restore"):
        Answers(5, 6, tmp_path)


def test_an_answer_that_cannot_be_kept_is_not_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cohort = tiers.cohort(OF, 0, DEVICES, folder=tmp_path)
    cohort.pin(MODEL.digest, 0, DEVICES)
    sync = os.fsync

    def full(file: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(InputError, match="No space left on device"):
        cohort.answer(QUERY, MODEL, 0, DEVICES)
    assert cohort.ledger(0) is None
    monkeypatch.setattr("os.fsync", sync)
    assert cohort.answer(QUERY, MODEL, 0, DEVICES) == answered(tmp_path, 0, DEVICES, OTHER_SECRET)


def test_a_folder_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("taken")
    with pytest.raises(InputError, match="file cannot keep answers"):
        Answers(0, 1, tmp_path / "file")
