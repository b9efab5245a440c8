"""Results as one level of numbers and texts, and how MLflow logs them."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from golden.making import golden

import blindrec
from scenarios.show.records import flat

HERE = blindrec.InProcess(workers=1)
SCENARIO = blindrec.Scenario(items=12, rated=4, users=200, epsilon=3)


@pytest.mark.parametrize(
    "name", ["maxsense, two seeds", "plan", "data", "sweep, online", "two-tier, pmc", "online, file"]
)
def test_a_flat_result_holds_every_number_and_nothing_else(name: str) -> None:
    record = golden()[name]["result"]
    told = flat(record)
    assert {type(value) for value in told.values()} <= {int, float, str}
    assert len(told) == sum(1 for _ in leaves(record))
    assert all(part for path in told for part in path.split("."))


def leaves(value: object) -> list[object]:
    if isinstance(value, dict):
        return [leaf for one in value.values() for leaf in leaves(one)]
    if isinstance(value, list):
        return [leaf for one in value for leaf in leaves(one)]
    return [] if value is None else [value]


def test_names_say_where_a_number_stands() -> None:
    record = golden()["maxsense, two seeds"]["result"]
    told = flat(record)
    assert (told["intervals.ari.low"], told["intervals.ari.high"]) == (*record["intervals"]["ari"],)
    assert told["runs.1.accuracy"] == record["runs"][1]["accuracy"]
    assert flat({"epsilon": "inf"})["epsilon"] == math.inf


def test_mlflow_logs_a_result_and_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow", reason="needs the extra: pip install blindrec[tracking]")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((tmp_path / "tracked").as_uri())
    result = blindrec.run(SCENARIO, HERE, out=tmp_path / "first", progress=False)
    with mlflow.start_run() as run:
        mlflow.log_metrics(result.flat(texts=False))
        mlflow.log_artifacts(str(tmp_path / "first"))
    kept = mlflow.get_run(run.info.run_id)
    assert kept.data.metrics == pytest.approx(result.flat(texts=False))
    names = {one.path for one in mlflow.artifacts.list_artifacts(run_id=run.info.run_id)}
    assert {"result.json", "items.parquet", "scenario.json"} <= names
