"""`examples`: each runs as a reader would run it, needs the public face only, and keeps what every mechanism keeps."""

import ast
import json
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
from runs import Command, result

import blindrec as public
from benchmarks.documented import printed
from benchmarks.notebooks import code_of, source_of
from benchmarks.pages import ROOT, WRITTEN, folder_of_pages, notebooks

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
HERE = ("--backend", "inprocess", "--workers", 1)


@pytest.fixture(autouse=True)
def folder() -> Iterator[Path]:
    """A folder with the examples, as their reader is in."""
    with folder_of_pages():
        yield Path.cwd()


def sources() -> Iterator[tuple[str, str]]:
    """All code of the examples and the tutorials."""
    yield from ((path.name, path.read_text(encoding="utf-8")) for path in EXAMPLES)
    for path in notebooks():
        cells = code_of(json.loads(path.read_text(encoding="utf-8")))
        yield path.name, "\n".join(WRITTEN.sub("", source_of(cell)) for cell in cells)


def test_every_kind_is_there_and_imports_nothing_private() -> None:
    assert len(EXAMPLES) >= 3
    assert notebooks()
    for name, text in sources():
        nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Import | ast.ImportFrom)]
        named = {one.module or "" if isinstance(one, ast.ImportFrom) else one.names[0].name for one in nodes}
        assert not {one.partition(".")[0] for one in named} & {"actors", "coordinator", "scenarios", "tests"}, name
        for one in nodes:
            if isinstance(one, ast.ImportFrom) and one.module == "blindrec":
                assert {alias.name for alias in one.names} <= set(public.__all__), name


def test_every_example_is_told_in_their_page() -> None:
    text = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    assert all(f"]({path.name})" in text for path in EXAMPLES)


@pytest.mark.thorough  # tests/test_fourth_party.py checks a class of ones own by default
@pytest.mark.statistical
def test_the_mechanism_keeps_what_every_mechanism_keeps(blindrec: Command) -> None:
    """With four buckets its channel can be gone through. False alarm: 1e-6 of the sampler, 1e-5 of estimates."""
    small = ("--setting", "buckets=4", "--setting", "hashes=64")
    told = result(blindrec, "check", "count_mean_sketch:CountMeanSketch", *small, "--epsilon", 1)
    assert told["held"]
    verdicts = {row["check"]: row["verdict"] for row in told["rows"]}
    assert {verdicts[one] for one in ("log-ratio", "run's size", "sampler", "layouts", "estimates")} == {"held"}


def test_the_policy_screens_and_asks_about_what_is_left(blindrec: Command) -> None:
    world = ("--design", "sign", "--items", 100, "--rated", 10, "--users", 40_000)
    for policy, first in (("two_stages:TwoStages", 20_000), ("two_stages:quick", 13_333)):
        told = result(blindrec, "run", *world, "--policy", policy, *HERE, "--out", policy.partition(":")[2])
        rounds = pd.read_parquet(Path(policy.partition(":")[2]) / "rounds.parquet")
        assert rounds["asked"].tolist() == [first, 40_000 - first]
        assert rounds["pool"][0] == 100 > rounds["pool"][1]
        assert told["refused"] == 0


@pytest.mark.thorough
def test_the_experiments_table_is_one_that_pandas_opens() -> None:
    printed("python adaptive_experiment.py table.csv")
    table = pd.read_csv("table.csv")
    assert len(table) == 18
    means = table.groupby(["policy", "users"])["accuracy"].mean()
    assert means["eliminate", 40_000] > means["one-round", 40_000]
