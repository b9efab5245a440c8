"""What `benchmarks.kills` makes of its runs: who is killed follows from the seed, and any loss is told. No Ray."""

from collections import Counter
from dataclasses import dataclass, field

import pytest

from benchmarks.kills import (
    ATTEMPTS,
    EARLIEST,
    FAMILIES,
    LATEST,
    Cluster,
    End,
    Kill,
    RunRecord,
    measure,
    plan,
    rows,
)

RUN = ["run"]
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
class Played(Cluster):
    """Runs that end as they are told."""

    end: End | None
    whole: End | None = field(default_factory=lambda: END)
    victim: str = "process 7, 1 of 2"
    killed: list[Kill] = field(default_factory=list)
    whole_ones: list[str] = field(default_factory=list)

    def undisturbed(self, family: str) -> RunRecord:
        self.whole_ones.append(family)
        return RunRecord(end=self.whole, answers=4000, complaint="no room")

    def disturbed(self, kill: Kill) -> RunRecord:
        self.killed.append(kill)
        return RunRecord(end=self.end, victim=self.victim, seconds=1.5, answers=1000, retries=2, restarts=1, resumed=1)


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("seed", range(20))
def test_every_kind_is_killed_three_times_in_twenty(seed: int, name: str) -> None:
    of = FAMILIES[name]
    wanted = plan([name], 20, seed)
    assert len(wanted) == 20
    assert min(Counter(kill.kind for kill in wanted).values()) >= 3
    assert {kill.kind for kill in wanted} == {*of.kinds, "driver", "node"}
    assert all(EARLIEST <= kill.share <= LATEST for kill in wanted)
    assert wanted == plan([name], 20, seed) != plan([name], 20, seed + 1)
    assert (
        plan([name], 33, seed)[:20]
        == wanted
        == plan(list(FAMILIES), 20 * len(FAMILIES), seed)[list(FAMILIES).index(name) :: len(FAMILIES)]
    )


def test_a_run_that_ends_alike_counts(capsys: pytest.CaptureFixture[str]) -> None:
    arena = Played(END)
    found = measure(plan(RUN, 6, 3), arena)
    assert arena.killed == plan(RUN, 6, 3)
    assert arena.whole_ones == RUN
    assert found.identical.tolist() == [True] * 6
    out = capsys.readouterr().out.splitlines()
    assert out[2] == f"| 1 | run | {arena.killed[0].kind} | 1.5 | 1000 | 2 | 1 | 1 | True | process 7, 1 of 2 |  |"
    assert any(line.startswith("6 of 6 identical to the undisturbed run") for line in out)
    assert sum(int(line.split()[-1]) for line in out[-len(set(found.kind)) :]) == 6


def test_an_undisturbed_run_that_does_not_end_is_told() -> None:
    with pytest.raises(RuntimeError, match="did not end: no room"):
        next(rows(plan(RUN, 1, 0), Played(END, whole=None)))


@pytest.mark.parametrize("end", OTHERS)
def test_a_run_that_ends_otherwise_or_not_at_all_does_not(end: End | None) -> None:
    assert [row["identical"] for row in rows(plan(RUN, 2, 0), Played(end))] == [False, False]


def test_a_run_in_which_nothing_was_killed_shows_nothing() -> None:
    arena = Played(END, victim="")
    (row,) = rows(plan(RUN, 1, 0), arena)
    assert arena.killed == plan(RUN, 1, 0) * ATTEMPTS
    assert (row["identical"], row["victim"]) == (False, "none: the run was over")
