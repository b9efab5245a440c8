"""DataFrames in the place of files: the same numbers, a name of their own in folders, and nothing left of them."""

import gc
import html
import re
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from runs import Command, lasting, planted_ratings, refused, write_movielens

import blindrec as face
from scenarios.backends.on_ray import OnRay
from scenarios.config import frames
from scenarios.config.frames import named
from scenarios.data import datasets

HERE = face.InProcess(workers=1)
FEW: dict[str, Any] = {"trust_models": "none,local", "mechanisms": "popularity,set", "epsilon": 4, "scale": 1}
NAMES = {"ratings", "about_file", "remarks", "answer"}
"""Of a comparison's result: what says how the file is called."""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write_movielens(tmp_path / "ratings.csv", planted_ratings(users=40, items=30, each=15))


@pytest.fixture
def frame(file: Path) -> pd.DataFrame:
    return pd.read_csv(file)


def numbers(result: Any) -> dict[str, Any]:
    """What a result says, without times, and without how a file is called and by which names a format is known."""
    told = lasting({name: value for name, value in dict(result).items() if name not in NAMES}, {"seconds"})
    assert isinstance(told, dict)
    rows = [{name: value for name, value in row.items() if name != "seconds"} for row in told.get("rows", [])]
    return {**told, "rows": rows, "devices_per_second": None}


def test_a_frame_gives_the_numbers_of_its_file(file: Path, frame: pd.DataFrame) -> None:
    ours, theirs = (face.compare(one, HERE, progress=False, **FEW) for one in (frame, file))
    assert numbers(ours) == numbers(theirs)
    assert ours["ratings"] == f"frame-{named(frame).content[0][:16]}"
    assert numbers(face.plan(ratings=frame, epsilon=4)) == numbers(face.plan(ratings=file, epsilon=4))
    asked = face.Scenario(epsilon=4, users=30)
    read = face.Scenario(epsilon=4, users=30, ratings=file)
    assert numbers(face.run(asked, HERE, ratings=frame, progress=False)) == numbers(
        face.run(read, HERE, progress=False)
    )
    other = frame.rename(columns={"userId": "who", "movieId": "what", "rating": "how"})
    named_columns = face.run(asked, HERE, ratings=other, columns=("who", "what", "how"), progress=False)
    assert numbers(named_columns) == numbers(face.run(read, HERE, progress=False))


def test_what_is_in_a_frame_is_what_is_in_its_file(
    file: Path, frame: pd.DataFrame, blindrec: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    learnable = "scenarios.studies.plan_of_file.learnable_of"  # takes five seconds
    monkeypatch.setattr(learnable, lambda table, liked_from: {"users": len(table.user_labels), "from": liked_from})
    ours = face.data(frame, block_model=True)
    theirs = blindrec("data", file, "--block-model", "--json", "-").result
    assert {**lasting(dict(ours), set()), "format": "MovieLens CSV"} == theirs
    assert theirs["learnable"]["users"] == 40
    assert repr(ours).startswith(
        "DataResult(600 ratings, 40 users, 30 items: nothing can be said: the file has 40 people"
    )
    assert ours.frame("file")["ratings_per_user.median"].tolist() == [15.0]
    assert ours.frame().empty
    assert "600 ratings" in ours._repr_html_()
    assert ours.plot().figure is not None
    with pytest.raises(face.errors.InputError, match="of is 'files'; did you mean 'file'"):
        ours.frame("files")  # type: ignore[arg-type]


def test_a_comparison_shows_its_answer(tmp_path: Path) -> None:
    """Of 520 people and one rung; the table is the terminal's, and a paper's."""
    rows = pd.DataFrame(planted_ratings(users=520, items=30, each=15), columns=["user", "item", "rating"])
    result = face.compare(rows, HERE, progress=False, **{**FEW, "mechanisms": "popularity,EASE,set"})
    table = result.frame("answer")
    assert table["who is trusted"].tolist()[0] == "nobody"
    assert set(table["epsilon"]) == {4.0}
    assert "<td>nobody</td>" in result._repr_html_()
    assert html.escape(result["answer"]["by_epsilon"][0]["advice"]["headline"]) in result._repr_html_()
    assert table.style.to_latex().startswith(r"\begin{tabular}")
    small = face.compare(rows[rows["user"] < 40], HERE, progress=False, **FEW)
    assert small["answer"] is None
    assert "SweepResult(" in small._repr_html_()
    with pytest.raises(face.errors.InputError, match="of is 'answer'; choose"):
        small.frame("answer")


def test_a_digest_is_of_values(frame: pd.DataFrame) -> None:
    changes = [
        frame.astype({"userId": "int32", "rating": "float32"}),
        frame.astype({"movieId": "category"}),
        frame.set_index(frame.index[::-1]),
        frame.astype({"userId": "Int64"}),
    ]
    digest = named(frame).content[0]
    assert digest[:16] == "793756a648ece7a6"  # in every process
    assert [named(one).content[0] for one in changes] == [digest] * len(changes)
    frame.loc[7, "rating"] = 0.5
    assert named(frame).content[0] != digest


def test_texts_of_any_kind_have_one_digest() -> None:
    texts = pd.DataFrame({"user": ["a", "b", None], "item": ["x", "y", "x"]})
    kinds = [texts.astype(kind) for kind in ("string", "category", "object")]
    assert {named(one).content[0] for one in (texts, *kinds)} == {named(texts).content[0]}
    mixed = pd.DataFrame({"user": [1, "b"], "item": [1.5, None], "rating": [[1], {2}]}, dtype=object)
    assert named(mixed).content[0] != named(mixed.astype({"item": float})[["user", "item"]]).content[0]


def test_a_folder_goes_on_with_the_same_frame_alone(frame: pd.DataFrame, tmp_path: Path, blindrec: Command) -> None:
    out = tmp_path / "out"
    first = face.compare(frame, HERE, out=out, progress=False, **FEW)
    assert numbers(face.compare(frame.copy(), HERE, out=out, progress=False, **FEW)) == numbers(first)
    other = frame.iloc[1:]
    with pytest.raises(face.errors.InputError, match=r"^output folder .* holds part of another sweep; name a new one"):
        face.compare(other, HERE, out=out, progress=False, **FEW)
    run: dict[str, Any] = {"progress": False, "out": tmp_path / "run"}
    asked = face.Scenario(epsilon=4)
    over = face.run(asked, HERE, ratings=frame, **run)
    assert face.run(asked, HERE, ratings=frame, **run)["releases_sha256"] == over["releases_sha256"]
    with pytest.raises(face.errors.InputError, match="another run"):
        face.run(asked, HERE, ratings=other, **run)


def test_nothing_is_left_of_a_frame(frame: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    scenario = face.Scenario(epsilon=4, ratings=frame.iloc[3:])  # which no comparison of another test has in a cache
    path = scenario.ratings
    assert path is not None
    assert not path.exists()
    assert str(path) in frames.sent()
    face.run(scenario, HERE, progress=False)
    name = Path(str(path))
    del scenario, path
    datasets._read_once.cache_clear()  # the last table that was read
    gc.collect()
    assert str(name) not in frames.sent()
    assert list((tmp_path / "temporary").iterdir()) == []
    with pytest.raises(face.errors.InputError, match=r"^frame-\w{16} is a DataFrame, which a folder does not keep"):
        face.run(face.Scenario(ratings=name), HERE, progress=False)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda frame: frame[["userId"]], "no column of the DataFrame has a usual name for the item"),
        (lambda frame: pd.concat([frame, frame.head(1)]), "user '.*' rated item '.*' twice, on row"),
        (lambda frame: frame.head(0), "the DataFrame holds no rating"),
        (lambda frame: frame.assign(rating="good"), "the DataFrame has no finite number in its column 'rating'"),
    ],
)
def test_what_a_file_may_not_hold_a_frame_may_not(change: Any, told: str, frame: pd.DataFrame) -> None:
    with pytest.raises(face.errors.InputError, match=told) as raised:
        face.compare(change(frame), HERE, progress=False, **FEW)
    assert "\n" not in str(raised.value)


def test_a_frame_stands_for_ratings_alone(frame: pd.DataFrame) -> None:
    with pytest.raises(face.errors.InputError, match=r"^features is a DataFrame; write it to a file, and name that$"):
        face.compare(frame, HERE, features=frame, progress=False, **FEW)


@pytest.fixture
def held(frame: pd.DataFrame) -> pd.DataFrame:
    """Three ratings of everybody."""
    return frame.groupby("userId").head(3)[["userId", "movieId"]]


def test_a_split_of_ones_own_is_what_is_held_out(
    file: Path, frame: pd.DataFrame, held: pd.DataFrame, blindrec: Command, tmp_path: Path
) -> None:
    held.to_csv(tmp_path / "held.csv", index=False)
    lists = tmp_path / "lists"
    flags = ["--trust-models", "none,local", "--mechanisms", "popularity,set", "--epsilon", 4, "--scale", 1]
    flags += ["--held-out", tmp_path / "held.csv", "--out", lists, "--lists", "--backend", "inprocess", "--json", "-"]
    told = blindrec("compare", file, *flags).result
    kept = pd.read_parquet(lists / "lists" / "holdout.parquet")
    liked = frame.merge(held).set_index("userId")
    train = frame.merge(held, how="left", indicator=True).query("_merge == 'left_only'")
    liked = liked[liked["rating"] > train.groupby("userId")["rating"].mean().reindex(liked.index)].reset_index()
    expected = {(str(row.userId), str(row.movieId)) for row in liked.itertuples()}
    for _, rows in kept.groupby("seed"):
        assert {*zip(rows["user_id"], rows["item_id"], strict=True)} == expected
    assert told["held_out"] == "held.csv"
    assert any(line.startswith("held.csv says what is held out, in all 3 splits alike") for line in told["remarks"])
    ours = face.compare(frame, HERE, held_out=held, progress=False, **FEW)
    assert {**numbers(ours), "held_out": "held.csv"} == numbers(told)


def test_another_split_is_another_comparison(frame: pd.DataFrame, held: pd.DataFrame, tmp_path: Path) -> None:
    face.compare(frame, HERE, held_out=held, out=tmp_path / "out", progress=False, **FEW)
    with pytest.raises(face.errors.InputError, match="another sweep"):
        face.compare(frame, HERE, held_out=held.iloc[1:], out=tmp_path / "out", progress=False, **FEW)


@pytest.mark.parametrize(
    ("content", "flags", "told"),
    [
        (
            "user,item\n1,999\n",
            "",
            "held_out: '.*' holds user '1', item '999', which the ratings file does not contain; every",
        ),
        ("user,item\n1,999\n77,1\n", "", "holds user '1', item '999', and 1 more pairs, which"),
        ("user,item\n1,2\n", "--split-by time", "split_by is time, but held.csv says what is held out; give one of"),
        ("user,item\n1,2\n", "--min-ratings 2", "min_ratings is 2, but held.csv says what is held out; give one of"),
        ("who,what\n1,2\n", "", "no column of '.*' has a usual name for the user"),
    ],
)
def test_a_split_that_is_none_is_refused(
    content: str, flags: str, told: str, file: Path, blindrec: Command, tmp_path: Path
) -> None:
    (tmp_path / "held.csv").write_text(content)
    assert re.search(told, refused(blindrec, "compare", file, "--held-out", tmp_path / "held.csv", *flags.split()))


def test_a_share_above_one_is_no_split(file: Path) -> None:
    with pytest.raises(face.errors.InputError, match=r"^held_out is 1.5; give a share between 0 and 1, or a file of"):
        face.compare(file, HERE, held_out=1.5, progress=False, **FEW)


@pytest.mark.cluster
def test_a_frame_travels_once(
    frame: pd.DataFrame, held: pd.DataFrame, ray_session: OnRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both frames are stored once in the session, although numbers of people follow in further calls."""
    import ray  # noqa: PLC0415 (a second that other tests need not wait)

    stored: list[Any] = []
    put = ray.put

    def noted(one: Any) -> Any:
        stored.append(one)
        return put(one)

    monkeypatch.setattr(ray, "put", noted)
    call: dict[str, Any] = {"held_out": held, "progress": False, **FEW}
    here = face.compare(frame, HERE, **call)
    monkeypatch.setattr("scenarios.from_python.opened", lambda _: nullcontext(ray_session))
    there = face.compare(frame, face.Ray(), **call)
    assert numbers(there) == numbers(here)
    assert sorted(sha256 for sha256, _ in stored) == sorted(named(one).content[0] for one in (frame, held))
