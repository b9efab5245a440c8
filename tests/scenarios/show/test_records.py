"""Records: where they may be written, nothing written is lost, means over seeds, and one level of numbers and texts."""

import json
import math
import re
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

import mechanisms
import numpy as np
import pandas as pd
import pytest
from evidence import clopper_pearson
from golden.making import golden
from runs import here, small
from scipy import stats

import blindrec
from coordinator.protocol.errors import InputError
from scenarios.experiment.experiment import Record, write_folder
from scenarios.families.main.main_columns import record
from scenarios.families.main.main_seed import items_table, tables_of
from scenarios.families.main.run import MainResult
from scenarios.show import intervals
from scenarios.show.columns import Average, Column, mean_of, record_of
from scenarios.show.intervals import mean_interval, median_interval, median_ranks, quantile_interval, quantile_ranks
from scenarios.show.records import check_target, deliver, flat, versions
from scenarios.store.whole_files import to_json, try_folder, write_json


def write_run(out: Path, finished: MainResult) -> dict[str, Any]:
    result = record(finished)
    tables = partial(tables_of, finished)
    write_folder(out, Record(values=result, scenario=finished.scenario.again(), tables=tables))
    return result


COLUMNS = ["item", "score", "standard_error", "cluster"]


def test_a_new_folder_is_made_and_an_empty_one_taken(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "new"
    for _ in range(2):
        try_folder(out)
        assert out.is_dir()
    check_target(str(out / "also.json"))
    check_target("-")
    check_target(None)
    assert list(out.iterdir()) == []


def test_places_that_cannot_be_used_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    places = {
        "output folder": [tmp_path / "file", tmp_path / "file" / "below", Path("/proc/none")],
        "json file": [tmp_path, tmp_path / "none" / "x.json", tmp_path / "file" / "x.json", Path("/proc/none.json")],
    }
    for thing, paths in places.items():
        for path in paths:
            with pytest.raises(InputError, match=f"^{thing} {re.escape(str(path))} .*; name ") as raised:
                try_folder(path) if thing == "output folder" else check_target(str(path))
            assert "\n" not in str(raised.value)
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize("epsilon", ["1/3", "inf"])
def test_the_folder_of_a_run(epsilon: str, tmp_path: Path) -> None:
    scenario = small(epsilon=epsilon, like="0.9,0.5,0.1", cluster_shares="0.5,0.25,0.25")
    run = here(scenario)
    result = write_run(tmp_path, run)
    files = ["items.parquet", "result.json", "rounds.parquet", "scenario.json", "versions.json"]
    assert sorted(path.name for path in tmp_path.iterdir()) == files
    assert json.loads((tmp_path / "result.json").read_text()) == result
    as_run = json.loads((tmp_path / "scenario.json").read_text())
    assert small(**as_run) == run.scenario == scenario.complete()
    assert as_run["epsilon"] == epsilon  # a word where there is no noise
    told = json.loads((tmp_path / "versions.json").read_text())
    assert told.pop("ended").endswith("+00:00")
    assert told == {**versions(), "command": None}
    assert {"python", "ray", "numpy", "blindrec"} <= set(versions())
    for table in ("items", "rounds"):
        assert pd.read_parquet(tmp_path / f"{table}.parquet").attrs == {"releases_sha256": result["releases_sha256"]}


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_json_is_strict_and_a_failure_leaves_the_old_file(value: float, tmp_path: Path) -> None:
    target = tmp_path / "result.json"
    write_json(target, {"accuracy": 0.5})
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(target, {"accuracy": value})
    assert json.loads(target.read_text()) == {"accuracy": 0.5}
    assert [path.name for path in tmp_path.iterdir()] == ["result.json"]


def test_delivery(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    deliver(None, {"a": 1})
    deliver(str(tmp_path / "a.json"), {"a": 1})
    assert capsys.readouterr().out == ""
    deliver("-", {"a": 1})
    assert capsys.readouterr().out == to_json({"a": 1})
    told = json.loads((tmp_path / "a.json").read_text())
    assert told.pop("provenance")["versions"] == versions()
    assert told == {"a": 1}


def test_a_link_is_followed_and_neighbours_are_left_alone(tmp_path: Path) -> None:
    aim, link, neighbour = tmp_path / "aim.json", tmp_path / "link.json", tmp_path / "link.json.part"
    aim.write_text("old", encoding="utf-8")
    neighbour.write_text("mine", encoding="utf-8")
    link.symlink_to(aim)
    check_target(str(link))
    assert aim.read_text(encoding="utf-8") == "old"
    write_json(link, {"a": 1})
    assert link.is_symlink()
    assert json.loads(aim.read_text(encoding="utf-8")) == {"a": 1}
    assert neighbour.read_text(encoding="utf-8") == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["aim.json", "link.json", "link.json.part"]


def test_what_is_no_regular_file_stays_what_it_is() -> None:
    check_target("/dev/null")
    write_json(Path("/dev/null"), {"a": 1})
    assert Path("/dev/null").is_char_device()


def test_items_of_ones_own_mechanism_are_ranked_as_others_are() -> None:
    """Its contract says that what has a larger estimate is liked more."""
    run = here(small(design=mechanisms.OUE(), users=20_000, epsilon=3))
    table = items_table(run)
    assert list(table.columns) == [*COLUMNS, "rank", "popularity"]
    assert table.sort_values("rank")["score"].is_monotonic_decreasing
    assert record(run)["rank_correlation"] > 0.5
    assert record(run)["top_50"] == 1


AVERAGES: list[Column[Any]] = [Column(name=one.name.lower(), label=one.name, average=one) for one in Average]


@pytest.mark.parametrize(
    ("name", "values", "told"),
    [
        ("worst", [1.0, 3.0, 2.0], 3.0),
        ("worst", [1.0, "inf"], "inf"),
        ("worst", [1.0, None], None),
        ("count", [5, 5], 5),
        ("count", [5, 6], 5.5),
        ("formula", [0.5, 0.7], 0.6),
        ("share", [True, False, False, False], 0.25),
        ("first", [1, 2], 1),
        ("joined", ["a", "a"], "a"),
        ("joined", ["a", "b"], "differs"),
        ("joined", [[1], [2]], "differs"),
        ("joined", [1.0, None], None),
        ("mean", [1.0, "inf"], "inf"),
        ("mean", [None, None], None),
        ("unknown", [1, 2], 1.5),
    ],
)
def test_each_average_says_what_it_promises(name: str, values: list[object], told: object) -> None:
    found = mean_of(AVERAGES, [{name: value, "nothing": str(value)} for value in values])
    assert "nothing" not in found  # as a digest of one seed stands for no others
    assert found[name] == (pytest.approx(told) if isinstance(told, float) else told)
    intervals = {"mean", "share"} | ({"count"} if isinstance(told, float) else set())
    assert (name in found["intervals"]) == (name in intervals and isinstance(told, float))


def test_an_interval_is_cut_to_what_numbers_can_be() -> None:
    """A mean of .5 and 1 has a Student interval of .75 +- 3.18: no share is below 0 or above 1, no loss below 0."""
    columns: list[Column[Any]] = [
        Column(name="share", average=Average.MEAN, most=1),
        Column(name="loss", average=Average.MEAN),
    ]
    found = mean_of(columns, [{"share": 0.5, "loss": 0.5}, {"share": 1.0, "loss": 1.0}])["intervals"]
    assert found["share"] == [0, 1]
    assert found["loss"] == [0, pytest.approx(0.75 + 12.7062 * 0.25, rel=1e-5)]
    below = mean_of(columns, [{"loss": -0.5}, {"loss": 1.0}])["intervals"]["loss"]
    assert below[0] == -1
    assert math.isfinite(below[1])


def test_what_no_column_declares_is_not_lost_in_silence() -> None:
    columns: list[Column[int]] = [Column("part"), Column("seed", value=lambda run: run), Column("absent")]
    assert record_of(columns, 3, {"part": "here"}) == {"part": "here", "seed": 3}
    with pytest.raises(AssertionError, match="no column is declared for other"):
        record_of(columns, 3, {"part": "here", "other": 1})


def test_a_column_is_left_out_where_another_says_it_better() -> None:
    column: Column[Any] = Column(name="policy", label="policy", unless_one="rounds", unless_known="accuracy")
    assert column.shown({"policy": "fixed", "rounds": 2})
    assert not column.shown({"policy": "fixed", "rounds": 1})
    assert not column.shown({"policy": "fixed", "rounds": 2, "accuracy": 0.5})
    assert not column.shown({"rounds": 2})
    assert not Column(name="policy").shown({"policy": "fixed"})


HERE = blindrec.InProcess(workers=1)
SCENARIO = blindrec.Scenario(items=12, rated=4, users=200, epsilon=3)


def test_a_flat_result_holds_every_number_and_nothing_else() -> None:
    for name in ("maxsense, two seeds", "plan", "data", "sweep, online", "two-tier, pmc", "online, file"):
        record = golden()[name]["result"]
        told = flat(record)
        assert {type(value) for value in told.values()} <= {int, float, str}
        assert len(told) == len(leaves(record)), name
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


# Intervals of quantiles, medians, means, shares and ratios against direct computations.


def at_most(count: int, share: float) -> list[float]:
    """P(B <= 0), P(B <= 1), ..., summed up."""
    return list(accumulate(math.comb(count, k) * share**k * (1 - share) ** (count - k) for k in range(count + 1)))


@pytest.mark.parametrize("share", [0.5, 0.9, 0.95, 0.99])
@pytest.mark.parametrize("count", [1, 2, 19, 20, 21, 71, 72, 73, 100, 400])
def test_ranks_are_the_tightest_that_miss_with_at_most_half_the_rest(count: int, share: float) -> None:
    rank, low, high = quantile_ranks(count, share)
    assert rank == min(k for k in range(1, count + 1) if k >= share * count - 1e-9)
    below = at_most(count, share)
    lows = [j for j in range(1, count + 1) if below[j - 1] <= 0.025]
    highs = [k for k in range(1, count + 1) if 1 - below[k - 1] <= 0.025]
    assert low == max(lows, default=None)
    assert high == min(highs, default=None)
    assert (low or 0) <= rank <= (high or count)


def test_when_an_interval_opens() -> None:
    assert quantile_interval([5.0, math.nan, 1.0, 3.0], 0.5) == (3.0, None, None)
    assert quantile_interval([5.0, math.nan, 1.0, 3.0], 0.9) == (None, 3.0, None)
    most = quantile_interval([float(n) for n in range(100)], 0.95)
    assert most == (94.0, 89.0, 99.0)
    assert quantile_interval([*(float(n) for n in range(99)), math.nan], 0.95) == (94.0, 89.0, None)


def test_means_and_shares() -> None:
    values = [3.0, 4.0, 8.0]
    mean, low, high = mean_interval(values)
    error = np.std(values, ddof=1) / math.sqrt(3)
    assert mean == 5
    assert (low, high) == pytest.approx((5 - 4.302653 * error, 5 + 4.302653 * error))
    assert mean_interval([7.0]) == (7.0, None, None)
    for successes, count in ((0, 20), (18, 20), (20, 20)):
        ends = clopper_pearson(successes, count, false_alarm=0.05)
        assert intervals.share_interval(successes, count)[1:] == pytest.approx(ends)


def test_ratios_go_from_the_worst_case_to_the_best() -> None:
    assert intervals.ratio_interval((10.0, 8.0, 12.0), (2.0, 1.0, 4.0)) == (5.0, 2.0, 12.0)
    assert intervals.ratio_interval((10.0, 8.0, None), (2.0, 1.0, 4.0)) == (5.0, 2.0, None)
    assert intervals.ratio_interval((None, 8.0, None), (2.0, None, 4.0)) == (None, 2.0, None)
    assert intervals.ratio_interval((10.0, 10.0, 10.0), (2.0, 1.0, 0.0)) == (5.0, None, 10.0)


@pytest.mark.parametrize(("count", "ranks"), [(1, (1, 1)), (5, (1, 5)), (6, (1, 6)), (9, (2, 8)), (20, (6, 15))])
def test_ranks_are_those_of_the_tables(count: int, ranks: tuple[int, int]) -> None:
    """The classical table of confidence limits for a median; below six values 95 % cannot be had."""
    low, high, level = median_ranks(count)
    assert (low, high) == ranks
    assert level == pytest.approx(max(0.0, 1 - 2 * stats.binom.cdf(low - 1, count, 0.5)))
    assert (level >= 0.95) == (count >= 6)


def test_the_median_is_the_population_that_half_of_the_seeds_succeed_at() -> None:
    told = median_interval([5.0, 1.0, 4.0, 2.0, 3.0, 6.0, 7.0, 8.0])
    assert (told["users"], told["low"], told["high"], told["seeds"], told["unreached"]) == (4, 1, 8, 8, 0)
    assert median_interval([3.0, 1.0, 2.0])["users"] == 2
    assert median_interval([3.0])["level"] == 0


def test_seeds_that_were_not_reached_count_as_larger_than_all() -> None:
    told = median_interval([math.nan, 1.0, 2.0, math.nan, 3.0, 4.0, 5.0, 6.0])
    assert (told["users"], told["low"], told["high"], told["unreached"]) == (4, 1, None, 2)
    none = median_interval([math.nan, math.nan, math.nan, 1.0])
    assert (none["users"], none["low"], none["unreached"]) == (None, 1, 3)
