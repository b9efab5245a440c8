"""The page of adaptive rounds behind a shuffler says what was measured, and the law is what the measurements show."""

import json
import math
from pathlib import Path

import pytest

from benchmarks import adaptive_shuffled
from benchmarks.pages import ROOT

DATA = json.loads((ROOT / adaptive_shuffled.DATA).read_text(encoding="utf-8"))


def test_tables_and_picture_are_of_the_data() -> None:
    assert adaptive_shuffled.differing(DATA) == []


@pytest.mark.thorough
def test_what_says_something_else_than_the_data_differs(tmp_path: Path) -> None:
    other = [{**row, "users": row["users"] + 1000} if row["policy"] == "one-round" else row for row in DATA]
    assert adaptive_shuffled.differing(other) == ["adaptive", adaptive_shuffled.PICTURE]
    (tmp_path / "docs/explanation").mkdir(parents=True)
    for name in (adaptive_shuffled.PAGE, adaptive_shuffled.PICTURE):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    adaptive_shuffled.write(other, tmp_path)
    assert adaptive_shuffled.differing(other, tmp_path) == []


def test_what_the_law_chooses_takes_hardly_more_users_than_the_best_size_and_as_many_as_it_says() -> None:
    """The rule ``A + 2 sqrt(8 A) / mu``, A by Wald's mean information, is met within a quarter, most at N = 100."""
    chosen = [row for row in DATA if row.get("by_law")]
    assert len(chosen) == 9
    for row in chosen:
        sizes = [one["users"] for one in DATA if one["trust"] == "shuffled" and _world(one) == _world(row)]
        assert row["users"] <= 1.1 * min(sizes)
        noiseless = {100: 2021, 300: 20_835, 1000: 263_602}[row["items"]]
        rule = noiseless + 2 * math.sqrt(8 * noiseless) / {0.5: 0.124, 1: 0.237, 2: 0.448}[row["epsilon"]]
        assert 0.95 < row["users"] / rule < 1.3


def _world(row: dict[str, object]) -> tuple[object, ...]:
    return row["items"], row["epsilon"]
