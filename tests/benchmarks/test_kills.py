"""What `benchmarks.kills` makes of its runs: who is killed follows from the seed, and any loss is told. No Ray."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest

from benchmarks import kills
from benchmarks.families import FAMILIES, End
from benchmarks.killing import Kill, Survived
from benchmarks.kills import ATTEMPTS, EARLIEST, LATEST, kinds_of, measure, plan, rows

RUN = FAMILIES["run"]
END: End = {"releases_sha256": "ab", "items.parquet": "cd", "spent_max": 3.0, "spent_mean": 3.0, "answered": 6}
OTHERS = [
    END | {"releases_sha256": "ac"},
    END | {"items.parquet": "ce"},
    END | {"spent_max": 4.0},
    END | {"spent_mean": 2.5},
    END | {"answered": 5},
    None,
]


@dataclass
class Played:
    """Runs that end as they are told."""

    end: End | None
    whole: End | None = field(default_factory=lambda: END)
    victim: str = "process 7, 1 of 2"
    killed: list[Kill] = field(default_factory=list)

    def undisturbed(self) -> Survived:
        return Survived(end=self.whole, complaint="no room")

    def disturbed(self, kill: Kill) -> Survived:
        self.killed.append(kill)
        return Survived(end=self.end, victim=self.victim, seconds=1.5, answers=1000, retries=2, restarts=1, resumed=1)


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("seed", range(20))
def test_every_kind_is_killed_three_times_in_twenty(seed: int, name: str) -> None:
    of = FAMILIES[name]
    wanted = plan(of, 20, seed)
    assert len(wanted) == 20
    assert min(Counter(kill.kind for kill in wanted).values()) >= 3
    assert {kill.kind for kill in wanted} == {*of.kinds, "driver", "node"}
    assert all(EARLIEST <= kill.share <= LATEST for kill in wanted)
    assert wanted == plan(of, 20, seed) != plan(of, 20, seed + 1)


@pytest.mark.parametrize("runs", [1, 4, 5, 14])
def test_fewer_runs_share_the_kinds(runs: int) -> None:
    counts = Counter(kill.kind for kill in plan(RUN, runs, 0))
    assert counts.total() == runs
    assert all(counts[kind] >= runs // len(kinds_of(RUN)) for kind in kinds_of(RUN))


def test_a_run_that_ends_alike_counts(capsys: pytest.CaptureFixture[str]) -> None:
    arena = Played(END)
    figures = measure(RUN, 6, 3, arena)
    assert arena.killed == plan(RUN, 6, 3)
    assert (figures["identical"], figures["runs"]) == (6, 6)
    out = capsys.readouterr().out.splitlines()
    assert out[2] == f"| 1 | {arena.killed[0].kind} | 1.50 | 1,000 | 2 | 1 | yes | yes | process 7, 1 of 2 |"
    assert out[-1].startswith("6 of 6 identical to the undisturbed run")


@pytest.mark.parametrize("end", OTHERS)
def test_a_run_that_ends_otherwise_or_not_at_all_does_not(end: End | None) -> None:
    assert [row["identical"] for row in rows(plan(RUN, 2, 0), Played(end))] == [False, False]


def test_a_run_in_which_nothing_was_killed_shows_nothing() -> None:
    arena = Played(END, victim="")
    (row,) = rows(plan(RUN, 1, 0), arena)
    assert arena.killed == plan(RUN, 1, 0) * ATTEMPTS
    assert (row["identical"], row["victim"]) == (False, "none: the run was over")


def test_without_an_undisturbed_run_there_is_nothing_to_compare() -> None:
    with pytest.raises(RuntimeError, match="the undisturbed run did not end: no room"):
        next(rows(plan(RUN, 1, 0), Played(END, whole=None)))


@pytest.mark.parametrize(("end", "code"), [(END, 0), (END | {"answered": 5}, 1)])
def test_the_exit_code_tells_a_loss(
    end: End, code: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    class Entered(Played):
        def __enter__(self) -> Played:
            return self

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr(kills, "Cluster", lambda *_: Entered(end))
    with pytest.raises(SystemExit) as ended:
        kills.main(runs=2, seed=0, size=10, json_file=tmp_path / "kills.json")
    assert int(ended.value.code or 0) == code
    assert '"complaint": ""' in (tmp_path / "kills.json").read_text()
