"""Results of every family, made once: real folders of a run and a comparison, records of the golden results, an audit."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import pytest
from runs import planted_ratings, write_movielens

from scenarios import cli

GOLDEN = Path(__file__).parents[2] / "golden" / "golden.json"
RECORDS = {
    "two-tier, pmc": "pmc",
    "two-tier, laplace": "laplace",
    "two-tier, none": "silent",
    "online, clients and a budget": "online",
    "online, plurality": "plurality",
    "pairwise, equal, public, centred": "pairwise",
    "item-query": "item-query",
    "sweep, users": "users",
    "sweep, adaptive": "adaptive",
    "sweep, two-tier": "tiers",
    "plan": "plan",
    "data": "data",
}
"""Golden results, and the names of their files."""
AUDIT = {"design": "sign", "epsilon": 1.0, "claimed": 1.0, "exact": 1.0, "measured": 0.98, "confidence": 0.99}
FEW = ["--like-from", "4", "--neighbours", "5", "--rank", "3", "--ridge", "5", "--top", "20", "--likes", "8"]


def command(*arguments: object) -> None:
    """Run the command line in this process."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        with pytest.raises(SystemExit) as ended:
            cli.main([str(argument) for argument in arguments])
    assert not ended.value.code


@pytest.fixture(scope="session")
def subjects(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Paths of results of every family."""
    folder = tmp_path_factory.mktemp("results")
    here = ["--backend", "inprocess"]
    block = ["--items", 12, "--rated", 4, "--epsilon", 3, "--users", 600]
    command("run", *block, "--repeat", 2, *here, "--out", folder / "run")
    ratings = write_movielens(folder / "ratings.csv", planted_ratings(users=40, items=12, each=6))
    command("run", "--ratings", ratings, "--users", 500, "--epsilon", 2, *here, "--out", folder / "copies")
    models = ["--trust-models", "none,curator,local", "--mechanisms", "popularity,set", "--epsilon", "2,inf"]
    command("compare", ratings, *FEW, *models, "--scale", "1,5", "--seeds", 2, "--out", folder / "compare")
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    for name, file in RECORDS.items():
        (folder / f"{file}.json").write_text(json.dumps(golden[name].get("result", golden[name])), encoding="utf-8")
    (folder / "audit.json").write_text(json.dumps(AUDIT), encoding="utf-8")
    files = [folder / f"{name}.json" for name in (*RECORDS.values(), "audit")]
    return [folder / "run", folder / "copies", folder / "compare", *files]


@pytest.fixture(scope="session")
def page(subjects: list[Path]) -> str:
    """One page of all of them."""
    from scenarios.pages.page import report_of  # noqa: PLC0415 (only these tests need it)

    return report_of(subjects)


@pytest.fixture(scope="session")
def record_of(subjects: list[Path]) -> Any:
    """Return the record of a result by its name."""
    by_name = {path.name.removesuffix(".json"): path for path in subjects}
    return lambda name: by_name[name]
