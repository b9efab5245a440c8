"""Answers outlive the process: kept before they are sent, resent as they were, whatever cohort asks for them."""

import json
import signal
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import worlds
from faults import Deaf, Disk, limited

from actors.keeper import Keeper
from actors.second_order.cohort import Answers, DeviceAnswer, Pin, PrivateCohort
from coordinator.protocol.errors import InputError, LedgerError
from coordinator.protocol.second_order import SecondOrderRelease

DEVICES = 9
OF = worlds.rated(devices=DEVICES)
MODEL = worlds.features(unseen=58)
"""Of 70 items, so that a PMC release has a fair coin of its own for most: with other coins it never is the same."""
QUERY = worlds.query(MODEL, "pmc")
OTHER_SECRET = bytes(16)
ROOT = Path(__file__).parents[3]


def answered(folder: Path, first: int, stop: int, secret: bytes = worlds.SECRET) -> list[SecondOrderRelease]:
    cohort = worlds.cohort(OF, first, stop, keeper=worlds.keeper_on(folder), secret=secret)
    cohort.pin(MODEL.digest, first, stop)
    return cohort.answer(QUERY, MODEL, first, stop)


def test_a_new_process_resends_the_kept_bytes_in_any_layout(tmp_path: Path) -> None:
    """With another secret a new answer would differ."""
    before = answered(tmp_path, 0, DEVICES)
    assert answered(tmp_path, 0, DEVICES, OTHER_SECRET) == before
    assert [answered(tmp_path, k, k + 1, OTHER_SECRET)[0] for k in range(DEVICES)] == before
    assert answered(tmp_path / "new", 0, DEVICES, OTHER_SECRET) != before


KILLED = """
import os, signal, sys
from pathlib import Path
import importlib.util
for name in ("reference", "worlds"):
    spec = importlib.util.spec_from_file_location(name, f"tests/support/{name}.py")
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
import worlds
from actors.keeper import Keeper
from actors.second_order.cohort import PrivateCohort
PrivateCohort._release = lambda self, one: os.kill(os.getpid(), signal.SIGKILL)
model = worlds.features(unseen=58)
cohort = worlds.cohort(worlds.rated(devices=9), 0, 9, keeper=Keeper(Path(sys.argv[1])))
cohort.pin(model.digest, 0, 9)
cohort.answer(worlds.query(model, "pmc"), model, 0, 9)
"""


@pytest.mark.thorough  # by default the simulation of faults kills processes there
def test_answers_survive_a_kill_before_they_are_sent(tmp_path: Path) -> None:
    killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], cwd=ROOT, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert answered(tmp_path, 0, DEVICES, OTHER_SECRET) == answered(tmp_path / "new", 0, DEVICES)


def test_an_answer_is_committed_before_it_is_returned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    happened: list[str] = []
    disk, release = Disk(), PrivateCohort._release

    def sent(cohort: PrivateCohort, one: DeviceAnswer) -> SecondOrderRelease:
        happened.append(f"sent after {disk.done.count('commit')} commits")
        return release(cohort, one)

    disk.instead_of_the_system(monkeypatch)
    monkeypatch.setattr(PrivateCohort, "_release", sent)
    answered(tmp_path, 0, DEVICES)
    assert happened == ["sent after 2 commits"] * DEVICES, "of the model, and of the answers"


def answer(device: int, payload: bytes = b"\n\n{}", epsilon: Fraction | None = Fraction(1, 3)) -> DeviceAnswer:
    return DeviceAnswer(device, bytes(16), bytes(range(16)), "sslp", epsilon, "epsilon", payload)


def known(folder: Path) -> list[DeviceAnswer | None] | None:
    """What three devices have answered, as a folder tells it; None where it is refused."""
    try:
        kept = Answers(0, 9, worlds.keeper_on(folder))
        kept.look()
    except LedgerError:
        return None
    return [kept.get(device) for device in range(3)]


LINE = json.loads(answer(0).line())
BAD_LINES: list[list[Any]] = [
    *([*LINE[:4], epsilon, *LINE[5:]] for epsilon in ("-20", "0", 0.5, "1/0", str(10**9), None)),  # or beyond coins
    *([*LINE[:3], mechanism, *LINE[4:]] for mechanism in ("pmc", "mine", ["pmc"])),  # the first has no epsilon
    *([device, *LINE[1:]] for device in (-1, True)),
    *([0, "00", *LINE[2:]], [*LINE[:2], "zz" * 16, *LINE[3:]]),
    *([*LINE[:5], None, LINE[6]], [*LINE[:6], "%%%%"], [*LINE, 1], LINE[:6]),
]


@pytest.mark.parametrize("bad", BAD_LINES, ids=str)
def test_a_line_that_holds_no_answer_is_told(bad: list[Any], tmp_path: Path) -> None:
    """Even with a digest that goes with it; "-20" came back as it stood there."""
    worlds.keeper_on(tmp_path).book(0, 9, 0, [answer(1).line(), json.dumps(bad)])
    with pytest.raises(LedgerError, match=r"a ledger's line is no answer: .*what devices said is not known"):
        Answers(0, 9, worlds.keeper_on(tmp_path)).look()


@pytest.mark.parametrize("epsilon", [Fraction(-20), Fraction(0), 0.5, "1", None])
def test_no_answer_is_kept_under_an_epsilon_that_is_none(epsilon: Any) -> None:
    with pytest.raises(InputError, match="epsilon is"):
        answer(0, epsilon=epsilon)


def test_a_device_that_answered_in_two_ways_is_told(tmp_path: Path) -> None:
    """The same answer twice is one."""
    for number in range(2):
        worlds.keeper_on(tmp_path).book(0, 9, number, [answer(0).line()])
    assert known(tmp_path) == [answer(0), None, None]
    worlds.keeper_on(tmp_path).book(0, 9, 2, [answer(0, b"other").line()])
    assert known(tmp_path) is None


@pytest.mark.parametrize("other", [MODEL.digest, worlds.features(unseen=58, seed=1).digest])
def test_a_model_is_one_that_a_device_was_told_of_in_any_process(other: bytes, tmp_path: Path) -> None:
    """The server restarts the process between two announcements: the promise was booked."""
    worlds.cohort(OF, 0, DEVICES, keeper=worlds.keeper_on(tmp_path)).pin(MODEL.digest, 0, DEVICES)
    again = worlds.cohort(OF, 0, DEVICES, keeper=worlds.keeper_on(tmp_path))
    if other == MODEL.digest:
        again.pin(other, 0, DEVICES)
    else:
        with pytest.raises(InputError, match=f"took model {MODEL.digest.hex()[:8]}.*accepts one model only"):
            again.pin(other, 0, DEVICES)
    assert again.answer(QUERY, MODEL, 0, DEVICES) == answered(tmp_path / "new", 0, DEVICES)
    assert worlds.keeper_on(tmp_path).read(0, DEVICES)[1].count(Pin(MODEL.digest, 0, DEVICES).line()) == 1


def test_two_processes_of_the_same_devices_answer_once() -> None:
    """In turn, one device each: whoever comes second sends what the first one booked."""
    keeper = Keeper()
    one, other = (worlds.cohort(OF, 0, DEVICES, keeper=keeper, secret=secret) for secret in (worlds.SECRET, bytes(16)))
    for cohort in (one, other):
        cohort.pin(MODEL.digest, 0, DEVICES)
    told = [(one, other)[k % 2].answer(QUERY, MODEL, k, k + 1)[0] for k in range(DEVICES)]
    assert one.answer(QUERY, MODEL, 0, DEVICES) == other.answer(QUERY, MODEL, 0, DEVICES) == told
    assert len(keeper.read(0, DEVICES)[1]) == DEVICES + 1


def test_devices_whose_keeper_does_not_answer_send_nothing_that_is_not_booked() -> None:
    deaf = Deaf(Keeper())
    cohort = worlds.cohort(OF, 0, DEVICES, keeper=deaf)
    cohort.pin(MODEL.digest, 0, DEVICES)
    assert cohort.answer(QUERY, MODEL, 0, DEVICES) == []
    deaf.below = 0
    some = cohort.answer(QUERY, MODEL, 2, 4)
    assert [release.device for release in some] == [2, 3]
    deaf.below = 1
    assert cohort.answer(QUERY, MODEL, 0, DEVICES) == some


def test_an_answer_that_cannot_be_kept_is_not_sent(tmp_path: Path) -> None:
    cohort = worlds.cohort(OF, 0, DEVICES, keeper=worlds.keeper_on(tmp_path))
    cohort.pin(MODEL.digest, 0, DEVICES)
    with limited("query_only = 1", "query_only = 0"), pytest.raises(LedgerError, match="write a readonly database"):
        cohort.answer(QUERY, MODEL, 0, DEVICES)
    assert worlds.answer_of(cohort, 0) is None
