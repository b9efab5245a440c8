"""A mechanism of a fourth party: one file in its room, checked without being told. For lies see test_checks."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from messages import cases_of
from runs import Command, alike, here, small

from coordinator.protocol import mechanisms as room
from scenarios.studies.scrutiny.checks import CHECKS
from scenarios.studies.scrutiny.mechanism_under_test import subjects
from scenarios.studies.scrutiny.verdicts import FAILED

FILE = Path(__file__).parent / "fourth_party" / "unary.py"
Install = Callable[..., None]


def forget() -> None:
    """Let the room look for its mechanisms anew."""
    sys.modules.pop(f"{room.__name__}.unary", None)
    for one in vars(room).values():
        if hasattr(one, "cache_clear"):
            one.cache_clear()


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Put the file into the room, with a text replaced in it."""

    def put(before: str = "", after: str = "") -> None:
        text = FILE.read_text(encoding="utf-8")
        assert before in text
        (tmp_path / "unary.py").write_text(text.replace(before, after) if before else text, encoding="utf-8")
        monkeypatch.setattr(room, "__path__", [*room.__path__, str(tmp_path)])
        forget()

    yield put
    monkeypatch.undo()
    forget()


def failures(*names: str) -> set[str]:
    """The checks that fail, of these."""
    rows = [one.of(subject) for subject in subjects("unary") for one in CHECKS if one.name in names]
    return {row.check for row in rows if row.verdict == FAILED}


def test_one_file_is_found_checked_and_holds(install: Install, blindrec: Command) -> None:
    install()
    ended = blindrec("check", "unary", "--json", "-")
    assert (ended.code, ended.result["held"]) == (0, True)
    assert {row["check"] for row in ended.result["rows"]} == {one.name for one in CHECKS}
    for case in cases_of("unary").values():
        scenario = small(**case, users=401)
        assert alike(here(scenario, devices_per_actor=7), here(scenario))


@pytest.mark.parametrize(
    ("before", "after", "seen"),
    [
        ("return Sketch(bits)", "return Sketch(bits, bits.any(axis=1))", "silence"),
        ("coins.sketch()[some]", "(coins.sketch()[some] * 0 + coins.first)", "layouts"),
        ("devices=release.count", "devices=release.count + 1", "merging"),
        ("dtype=np.int64", "dtype=np.float64", "crossing"),
    ],
)
def test_mistakes_are_seen_by_their_checks(install: Install, before: str, after: str, seen: str) -> None:
    install(before, after)
    assert failures(seen)
