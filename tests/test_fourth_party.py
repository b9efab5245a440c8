"""A mechanism of a fourth party: three files in the rooms, checked without being told. For lies see test_checks."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
from boundary import cases_of
from runs import Command, alike, here, small

import actors.mechanisms
import coordinator.protocol.mechanisms
import coordinator.server.mechanisms
from scenarios.studies.scrutiny.checks import CHECKS
from scenarios.studies.scrutiny.mechanism import subjects
from scenarios.studies.scrutiny.verdicts import FAILED

FILES = Path(__file__).parent / "fourth_party"
ROOMS: dict[str, ModuleType] = {
    "in_public": coordinator.protocol.mechanisms,
    "on_devices": actors.mechanisms,
    "on_the_server": coordinator.server.mechanisms,
}
Install = Callable[..., None]


def forget() -> None:
    """Let the rooms look for their mechanisms anew."""
    for room in ROOMS.values():
        sys.modules.pop(f"{room.__name__}.unary", None)
        for one in vars(room).values():
            if hasattr(one, "cache_clear"):
                one.cache_clear()


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Put the three files into the rooms, where wanted with a text replaced in one of them."""

    def put(file: str = "", before: str = "", after: str = "") -> None:
        for name, room in ROOMS.items():
            text = (FILES / f"{name}.py").read_text(encoding="utf-8")
            assert name != file or before in text
            (tmp_path / name).mkdir()
            (tmp_path / name / "unary.py").write_text(
                text.replace(before, after) if name == file else text, encoding="utf-8"
            )
            monkeypatch.setattr(room, "__path__", [*room.__path__, str(tmp_path / name)])
        forget()

    yield put
    monkeypatch.undo()
    forget()


def failures(*names: str) -> set[str]:
    """The checks that fail, of these."""
    rows = [one.of(subject) for subject in subjects("unary") for one in CHECKS if one.name in names]
    return {row.check for row in rows if row.verdict == FAILED}


def test_three_files_are_found_checked_and_hold(install: Install, blindrec: Command) -> None:
    install()
    ended = blindrec("check", "unary", "--json", "-")
    assert (ended.code, ended.result["held"]) == (0, True)
    assert {row["check"] for row in ended.result["rows"]} == {one.name for one in CHECKS}
    for case in cases_of("unary").values():
        scenario = small(**case, users=401)
        assert alike(here(scenario, devices_per_actor=7), here(scenario))


@pytest.mark.parametrize(
    ("file", "before", "after", "seen"),
    [
        ("on_devices", "return Sketch(bits)", "return Sketch(bits, bits.any(axis=1))", "silence"),
        ("on_devices", "coins.sketch()[some]", "(coins.sketch()[some] * 0 + coins.first)", "layouts"),
        ("on_the_server", "devices=release.count", "devices=release.count + 1", "merging"),
        ("on_the_server", "dtype=np.int64", "dtype=np.float64", "crossing"),
    ],
)
def test_mistakes_are_seen_by_their_checks(install: Install, file: str, before: str, after: str, seen: str) -> None:
    install(file, before, after)
    assert failures(seen)
