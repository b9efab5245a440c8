"""What `benchmarks.mutants` makes of mutants: what is tested again, which tests are near, what runs in which tree."""

import signal
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks.laboratory import ROOT, hand_over, read
from benchmarks.mutants import Mutant, died, ended, table

LEDGER = "actors/ledger.py"


def mutant(number: int) -> Mutant:
    source = (ROOT / LEDGER).read_text() + f"NUMBER = {number}\n"
    return {"module": LEDGER, "line": number, "operator": "NumberReplacer", "source": source}


class Played:
    """A laboratory in which mutants end with the exit codes of their lines."""

    def __init__(self, codes: Sequence[int], tests: str = "these") -> None:
        self.codes, self.says, self.tested = codes, tests, list[str]()

    def tests(self, *_: object) -> list[str]:
        return ["tests/actors/test_ledger.py"]

    def digest(self, *_: object) -> str:
        return self.says

    def test(self, _: str, source: str, *__: object) -> tuple[int, float, str]:
        self.tested.append(source.splitlines()[-1])
        return self.codes[int(source.rsplit(maxsplit=1)[-1])], 1.0, "a test"


def test_what_was_killed_is_not_tested_again_and_survivors_only_by_other_tests(tmp_path: Path) -> None:
    file, all_ = tmp_path / "mutants.jsonl", [mutant(number) for number in range(4)]
    first: Any = Played([1, 0, -signal.SIGXCPU, -signal.SIGSEGV])
    rows = ended(all_[:3], first, file)
    assert [row["outcome"] for row in rows] == ["killed", "alive", "out of time"]
    assert (rows[1]["before"], rows[1]["after"]) == ("", "NUMBER = 1")
    same: Any = Played([1, 0, 0, -signal.SIGSEGV])
    assert [row["outcome"] for row in ended(all_, same, file)] == ["killed", "alive", "out of time", "crashed"]
    assert same.tested == ["NUMBER = 3"]
    with file.open("a") as cut_off:  # as if the machine had stopped in the middle of a line
        cut_off.write('{"id": "')
    sharper: Any = Played([0, 4, 0, 0], "sharper ones")
    assert [row["outcome"] for row in ended(all_, sharper, file)][1] == "killed"
    assert sharper.tested == ["NUMBER = 1"]
    assert len(read(file)) == 5


def test_only_equivalent_mutants_that_are_listed_do_not_count(tmp_path: Path) -> None:
    played: Any = Played([1, 0, 0, 1])
    rows = ended([mutant(number) for number in range(4)], played, tmp_path / "mutants.jsonl")
    assert died(table(rows, [])) == 0.5
    listed = [{"module": LEDGER, "before": "", "after": f"NUMBER = {number}", "why": ""} for number in (1, 3)]
    frame = table(rows, listed)
    assert list(frame.outcome) == ["killed", "equivalent", "alive", "killed"], "what dies is not equivalent"
    assert died(frame) == pytest.approx(2 / 3)
    assert set(frame.folder) == {"actors"}


def write(root: Path, files: dict[str, str]) -> None:
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)


def test_kernels_of_a_copy_serve_the_next_one_unless_they_depend_on_the_mutant(tmp_path: Path) -> None:
    copy, clean = tmp_path / "copy", tmp_path / "clean"
    write(copy, {f"actors/__pycache__/{name}.py311.1.nbc": "new" for name in ("same.f-1", "mutant.f-1")})
    write(clean, {"actors/__pycache__/same.f-1.py311.1.nbc": "old", "actors/__pycache__/mutant.f-1.py311.1.nbc": "old"})
    for _ in range(2):
        hand_over(copy, clean, {"mutant"})
        assert (clean / "actors/__pycache__/same.f-1.py311.1.nbc").read_text() == "new"
        assert (clean / "actors/__pycache__/mutant.f-1.py311.1.nbc").read_text() == "old"


def test_every_listed_module_is_there() -> None:
    listed = tomllib.loads((ROOT / "benchmarks/mutants.toml").read_text())
    assert [one for one in listed["modules"] if not list(ROOT.glob(one))] == []
    for one in listed["equivalent"]:
        assert one["before"].split("\n")[0] in (ROOT / one["module"]).read_text(), f"{one['module']} has changed"
        assert one["why"]
