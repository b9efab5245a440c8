"""`blindrec compare` as it runs: rows, the panel, custom mechanisms, going on, tables at 80 columns, and refusals."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import mechanisms
import numpy as np
import pytest
from rich.console import Console
from runs import Command, lines_of_units, planted_ratings, printed, refused, result_in, write_movielens

import blindrec as face
from scenarios.cli import main
from scenarios.studies.compare.comparison import comparison
from scenarios.studies.compare.comparison_settings import TRUST_MODELS, Comparison
from scenarios.studies.compare.design_rows import design_rows
from scenarios.studies.compare.row import RowRequest
from scenarios.studies.compare.rows import registered_rows
from scenarios.studies.compare.scoring import SERVED, rows_of, show_panel
from scenarios.studies.compare.summary import show
from scenarios.studies.compare.worlds import world_of

pytestmark = pytest.mark.usefixtures("undrawn")

COLUMNS = {"trust_model", "mechanism", "features", "epsilon", "users", "simulated", "seconds", "public"}
COLUMNS |= {f"{name}{end}" for name in ("hit_rate", "ndcg", "recall") for end in ("", "_low", "_high")}
HERE = ("--backend", "inprocess", "--like-from", 4, "--seeds", 3)
FEW = (*HERE, "--neighbours", 5, "--rank", 3, "--ridge", 5, "--top", 20, "--likes", 8)
PANEL = (*HERE, "--mechanisms", "all", "--trust-models", "coordinator", "--clients", 4)
# Of each trust model; golden comparisons have all
NAMES = ("chance", "popularity", "item kNN", "EASE", "set")
MEASURED = {(row.trust_model, row.mechanism) for row in registered_rows().values() if row.mechanism in NAMES}
CUSTOM = (*HERE, "--mechanisms", "popularity", "--trust-models", "none,local", "--epsilon", "2,4")


def write_files(folder: Path) -> tuple[Path, Path]:
    """A file of ratings, and one of its items' kinds."""
    kinds = folder / "kinds.csv"
    kinds.write_text("item,kind\n" + "".join(f"{item + 1},{'ab'[item // 15]}\n" for item in range(30)))
    return write_movielens(folder / "ratings.csv", planted_ratings(users=50, items=30, each=16)), kinds


def at_80_columns(shown: Callable[[Console], None]) -> list[str]:
    """The lines that are shown, none of which is longer than 80 columns."""
    lines = printed(shown).splitlines()
    assert max(map(len, lines)) <= 80
    return lines


@pytest.fixture
def ratings(tmp_path: Path) -> Path:
    return write_files(tmp_path)[0]


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The whole comparison, made once for the tests that read it."""
    folder = tmp_path_factory.mktemp("comparison")
    ratings, kinds = write_files(folder)
    rows = ("--mechanisms", ",".join(NAMES), "--json", folder / "result.json")
    words = ("compare", ratings, "--features", kinds, *FEW, "--epsilon", "2,inf", "--scale", "1,40", "--devices", 100)
    with pytest.raises(SystemExit) as end:
        main([str(word) for word in (*words, "--public", "0.2", *rows)])
    assert not end.value.code
    return result_in(folder)


def test_every_row_is_there_with_its_columns(result: dict[str, Any]) -> None:
    rows = result["rows"]
    assert all(row.keys() >= COLUMNS for row in rows)
    assert {(row["trust_model"], row["mechanism"]) for row in rows} == MEASURED
    assert [model for model in TRUST_MODELS if model in {row["trust_model"] for row in rows}] == list(TRUST_MODELS)
    local = [row for row in rows if row["trust_model"] == "local"]
    assert {(row["users"], row["simulated"]) for row in local} == {(50, "devices"), (2000, "aggregate")}
    assert {row["epsilon"] for row in local} == {2.0, "inf"}
    assert {row["epsilon"] for row in rows if row["trust_model"] == "none"} == {None}
    assert all(row["ndcg_low"] <= row["ndcg"] <= row["ndcg_high"] and row["seeds"] == 3 for row in rows)
    assert "nobody in the file is protected" in result["remarks"][0]


def test_what_is_learned_is_worth_more_than_chance(result: dict[str, Any]) -> None:
    plain = [row for row in result["rows"] if not row["features"]]
    worth = {(row["trust_model"], row["mechanism"]): row["ndcg"] for row in plain if row["users"] == 50}
    for model in ("popularity", "item kNN", "EASE"):
        assert worth["none", model] > 1.2 * worth["none", "chance"]
    free = [row for row in plain if (row["epsilon"], row["users"], row["mechanism"]) == ("inf", 2000, "set")]
    assert [row["trust_model"] for row in free] == ["shuffled", "local"]
    assert [row["ndcg"] for row in free] == [pytest.approx(worth["none", "popularity"], abs=0.1)] * 2


def test_every_table_fits_into_80_columns(result: dict[str, Any]) -> None:
    lines = at_80_columns(lambda console: show(console, result, "blindrec compare"))
    assert not any("…" in line for line in lines)
    assert all(any(line.startswith(f"{model}: ") for line in lines) for model in TRUST_MODELS)


def test_where_no_device_adds_noise_no_table_says_what_a_lying_shuffler_leaves(result: dict[str, Any]) -> None:
    free = {**result, "rows": [row for row in result["rows"] if row["epsilon"] == "inf"]}
    for shown, is_there in ((result, True), (free, False)):
        text = printed(partial(show, result=shown, title="blindrec compare"))
        assert ("if the shuffler lies: epsilon" in text) is is_there


@pytest.mark.parametrize("users", [None, 50])
def test_more_people_do_not_help_where_a_curator_counts_few_likes(result: dict[str, Any], users: int | None) -> None:
    row = {"trust_model": "curator", "mechanism": "popularity", "features": False, "epsilon": 1.0, "users": users}
    row |= {
        "at_most": False,
        "users_low": None,
        "users_high": None,
        "least": 50,
        "most": 2000,
        "share": 0.9,
        "of": "best",
    }
    lines = at_80_columns(lambda console: show(console, {**result, "people": [row]}, "blindrec compare"))
    said = " ".join(line.strip() for line in lines)
    assert ("popularity counts 10 likes of each person" in said) is (users is None)


def test_rows_are_made_once(blindrec: Command, ratings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, figure = tmp_path / "out", tmp_path / "worth.png"
    monkeypatch.setattr("scenarios.show.records.rendered", lambda *_: b"drawn")
    one = ("--trust-models", "none,curator,local", "--mechanisms", "popularity,set", "--scale", 1, "--out", out)

    def compared(*more: object) -> Any:
        return blindrec("compare", ratings, *FEW, *one, "--json", "-", *more)

    first = compared("--epsilon", 1).result
    assert len(lines_of_units(out)) == 3 * 3
    second = compared("--epsilon", "1,4", "--figure", figure)
    assert second.err.startswith("9 of 15 units were done before")
    assert len(lines_of_units(out)) == 3 * 5
    assert figure.read_bytes() == b"drawn"
    again = [row for row in second.result["rows"] if row["epsilon"] in (None, 1.0)]
    for row in (*again, *first["rows"]):  # intervals that hold at once depend on which rows there are
        for name in [name for name in row if "to_popularity" in name or "to_above" in name]:
            del row[name]
    assert again == first["rows"]
    monkeypatch.setattr("scenarios.studies.study.measure", None)
    assert compared("--epsilon", "1,4").result == result_in(out)
    assert "another sweep" in refused(blindrec, "compare", ratings, *FEW, *one, "--rank", 4)
    line = refused(blindrec, "resume", out)
    assert line.startswith(
        f"output folder {out} holds a comparison, which goes on by its own command: blindrec compare"
    )
    assert "--epsilon 1" in line


def test_numbers_depend_neither_on_workers_nor_on_the_order(blindrec: Command, ratings: Path) -> None:
    rows = ("--mechanisms", "popularity,set", "--trust-models", "none,two-servers,local")
    options = (*FEW, *rows, "--epsilon", 2, "--scale", 1, "--json", "-")

    def numbers(workers: int) -> list[dict[str, Any]]:
        told = blindrec("compare", ratings, *options, "--workers", workers).result["rows"]
        return sorted(({**row, "seconds": 0} for row in told), key=str)

    assert numbers(1) == numbers(3)


def test_from_python_it_is_the_same(blindrec: Command, ratings: Path) -> None:
    options = ("--mechanisms", "popularity", "--seeds", 3, "--epsilon", 1, "--scale", 1, "--json", "-")
    rows = blindrec("compare", ratings, "--backend", "inprocess", *options).result["rows"]
    compared = face.compare(ratings, mechanisms="popularity", seeds=3, epsilon=1, scale=1, progress=False)
    assert [row["ndcg"] for row in compared["rows"]] == [row["ndcg"] for row in rows]
    assert repr(compared) == f"SweepResult({len(rows)} rows, 3 seeds)"
    assert compared.frame("seeds")["ndcg"].between(0, 1).all()


OUE, LIAR, HASHED = "mechanisms:OUE", "mechanisms:Liar", "mechanisms:LocalHashing"


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--seeds", "2"), "seeds is 2; an interval over splits takes 3 or more of them; raise --seeds"),
        (("--scale", "0"), "scale is '0', no list of numbers above 0"),
        (("--epsilon", "1,1"), "epsilon is '1,1'; name each value once"),
        (("--public", "2"), "public is '2', no list of shares"),
        (("--trust-models", "god"), "trust model 'god' is unknown; choose among none, curator"),
        (("--mechanisms", "magic"), "mechanism 'magic' is unknown; choose among"),
        (("--mechanisms", "rappor"), "mechanism 'rappor' has a row only where it is asked for; add it with --design"),
        (("--mechanisms", "EASE", "--trust-models", "local"), "none of the mechanisms is of these trust models"),
        (("--features", "missing.csv"), "missing.csv cannot be read"),
        ((*CUSTOM, "--design", "set"), "design is set, which is compared already"),
        ((*CUSTOM, "--design", "nowhere:Mine"), "design nowhere:Mine cannot be imported"),
        ((*CUSTOM, "--setting", "shift=1"), "setting shift is none of any design; give --design"),
        ((*CUSTOM, "--design", OUE, "--setting", "shift=1"), f"setting shift is none of {OUE}"),
        ((*CUSTOM, "--design", LIAR), "mechanism Liar"),
        ((*CUSTOM, "--design", OUE, "--trust-models", "none"), "add that to --trust-models"),
        ((*CUSTOM, "--design", HASHED, "--devices", 49), "of which at most 49 devices answer"),
    ],
)
def test_comparisons_that_are_wrong(blindrec: Command, ratings: Path, flags: tuple[object, ...], words: str) -> None:
    assert words in refused(blindrec, "compare", ratings, "--backend", "inprocess", *flags)


def test_a_list_of_names_names_each_row(blindrec: Command, ratings: Path) -> None:
    """No name holds the comma between names: every row can be named, and a name selects that row alone."""
    assert not [row.mechanism for row in registered_rows().values() if "," in row.mechanism]
    named = comparison({"ratings": ratings, "mechanisms": "popularity, pairs with EASE,lifts with set"}).settings
    assert set(rows_of(named)) == {
        *(f"{model}: popularity" for model in ("none", "curator", "two-servers", "two-tier")),
        *(f"{model}: pairs with EASE" for model in ("curator", "two-servers")),
        "two-tier: lifts with set",
    }
    known = refused(blindrec, "compare", ratings, "--mechanisms", "popularity,pairs by EASE")
    assert known.startswith("mechanism 'pairs by EASE' is unknown; did you mean 'pairs with EASE'? choose among EASE, ")
    assert ", pairs with EASE, " in known
    earlier = Comparison(ratings=ratings, mechanisms=["pairs, EASE", "popularity, set"])  # type: ignore[arg-type] # read
    assert earlier.mechanisms == ("pairs with EASE", "popularity with set")


# Custom mechanisms


def test_custom_mechanisms_stand_beside_the_others(
    blindrec: Command, ratings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scenarios.config.admission.DRAWS", 1000)  # of a sampler that is honest
    design = ("--design", f"mechanisms:GRR,{HASHED}", "--setting", "shift=1", "--scale", "1,100")
    result = blindrec("compare", ratings, *CUSTOM, *design, "--devices", 50, "--json", "-").result
    rows = [row for row in result["rows"] if row["trust_model"] == "local"]
    names = list(dict.fromkeys(row["mechanism"] for row in rows))
    assert [name.partition("@")[0] for name in names] == ["GRR", "LocalHashing"]
    measured = {(row["mechanism"] == names[0], row["epsilon"], row["users"], row["simulated"]) for row in rows}
    answered = {(law, epsilon, 50, "devices") for law in (True, False) for epsilon in (2, 4)}
    assert measured == answered | {(True, epsilon, 5000, "aggregate") for epsilon in (2, 4)}
    remarks = [remark for remark in result["remarks"] if "@" in remark]
    assert remarks[0] == f"{names[0]} is mechanisms:GRR, shift 1; its channel was checked exactly"
    assert remarks[2].startswith(f"{names[1]} is not measured with 5,000 people: it has no law")


def test_any_mechanism_is_compared_by_its_name_under_the_trust_models_that_it_is_for(ratings: Path) -> None:
    told = {
        "mechanisms": "popularity",
        "trust_models": "none,two-servers,shuffled,local",
        "design": f"{OUE},grr,olh,totals",
    }
    rows = rows_of(comparison({"ratings": ratings, **told}).settings)
    assert {name.partition("@")[0] for name in rows} == {
        *("none: popularity", "two-servers: popularity", "two-servers: totals"),
        *(f"{model}: {name}" for model in ("shuffled", "local") for name in ("OUE", "grr", "olh")),
    }


def test_from_python_a_mechanism_is_enough_and_other_settings_are_another_row(ratings: Path) -> None:
    options: dict[str, Any] = {"scale": 1, "epsilon": 1, "progress": False}
    designs = [mechanisms.GRR(), mechanisms.GRR(shift=1)]
    compared = face.compare(ratings, design=designs, mechanisms="set", seeds=3, trust_models="local", **options)
    assert len({row["mechanism"] for row in compared["rows"]}) == 3
    with pytest.raises(face.errors.PolicyError, match=r"(?i)liar"):
        face.compare(ratings, design=mechanisms.Liar(), **options)


def test_items_are_ranked_by_what_a_custom_class_estimates(ratings: Path) -> None:
    settings = Comparison(ratings=ratings, like_from=4, design=(mechanisms.GRR(),))
    world, rows = world_of(settings, 0), design_rows(settings)
    train = world.fold.train
    signs = np.where(train.values, 1.0, -1.0) / train.degrees[train.owners]  # a random rated item, liked or not
    assert [row.trust_model for row in rows.values()] == ["shuffled", "local"]
    for row in rows.values():
        advised = row.advise(world, RowRequest(settings=settings, epsilon=None, users=20_000, public=0, seed=0))
        assert np.corrcoef(advised.popularity, np.bincount(train.items, signs, world.items))[0, 1] > 0.9


# The coordinator's panel


def test_the_panel_is_what_the_sweep_of_recommenders_measures(blindrec: Command, tmp_path: Path) -> None:
    ratings, out = write_movielens(tmp_path / "r.csv", planted_ratings(users=40, items=80, each=60)), tmp_path / "out"
    panel = blindrec("compare", ratings, *PANEL, "--json", "-").result["coordinator"]
    online = ("sweep", "online", "--ratings", ratings, "--recommenders", ",".join(SERVED), "--clients", 4, "--out", out)
    assert panel["recommenders"] == blindrec(*online, *HERE, "--json", "-").result["recommenders"]
    assert [row["recommender"] for row in panel["recommenders"]] == list(SERVED)
    assert at_80_columns(lambda console: show_panel(console, panel))
    by_name = {row["recommender"]: row for row in panel["recommenders"]}
    assert by_name["plurality"]["to_plurality_share"] == 0
    assert by_name["p-rec"]["epsilon_median"] > by_name["p-rec-sharp"]["epsilon_median"] > 0


def test_a_file_of_too_few_rounds_says_so_and_has_all_other_rows(blindrec: Command, tmp_path: Path) -> None:
    few = write_movielens(tmp_path / "few.csv", planted_ratings(users=30, items=30, each=16))
    assert "users have 20 rounds" in refused(blindrec, "compare", few, *PANEL)
    rows = ("--trust-models", "none,coordinator", "--mechanisms", "popularity,p-rec", "--seeds", 3, "--json", "-")
    result = blindrec("compare", few, "--backend", "inprocess", *rows).result
    assert result["coordinator"] is None
    assert result["remarks"][-1].startswith("coordinator: clients is 20, but only ")
    assert len(result["rows"]) == 1
