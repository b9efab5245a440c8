"""An online scenario, as a value and as it is typed: what it fills in, results and folders, and what it refuses."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from runs import Command, complains, planted_ratings, refused, write_movielens

from coordinator.server.online.recommenders import named_recommenders
from scenarios.config.settings import validated
from scenarios.families.online.online_scenario import OnlineScenario


def told(scenario: OnlineScenario) -> tuple[int | None, ...]:
    """T, N, P, D and R."""
    return scenario.rounds, scenario.voters, scenario.peers, scenario.diversity, scenario.radius


def test_the_random_environment_is_what_nothing_says_otherwise() -> None:
    assert told(OnlineScenario()) == (1000, 256, 4, 5, 5)
    assert told(OnlineScenario(rounds=70, radius=0)) == (70, 256, 4, 5, 0)
    assert told(OnlineScenario(rounds=None, peers=None)) == (1000, 256, 4, 5, 5)


def test_p_rec_sim_is_for_clients_and_peers_that_never_stray() -> None:
    assert told(OnlineScenario(recommender="p-rec-sim")) == (1000, 256, 4, 0, 0)
    assert told(OnlineScenario(recommender="p-rec-sim", radius=2)) == (1000, 256, 4, 0, 2)


def test_files_bring_their_own_numbers() -> None:
    for source in ({"ratings": Path("r.csv")}, {"world": Path("w.toml")}):
        assert told(OnlineScenario.model_validate(source)) == (None,) * 5
        claimed = OnlineScenario.model_validate({**source, "peers": 3, "diversity": 1, "radius": 2})
        assert told(claimed) == (None, None, 3, 1, 2)


WRONG: list[tuple[dict[str, Any], list[str]]] = [
    ({"recommender": "p-wreck"}, ["recommender is 'p-wreck'", "p-rec, p-rec-sim"]),
    ({"rounds": 1}, ["rounds is 1", "2"]),
    ({"rounds": 10**9}, ["rounds", "100000000"]),
    ({"objects": 1}, ["objects is 1", "2"]),
    ({"voters": 0}, ["voters is 0", "1"]),
    ({"voters": 3}, ["voters is 3", "fewer than 4 peers"]),
    ({"voters": 11, "clients": 3}, ["voters is 11", "4 peers for each of 3 clients"]),
    ({"peers": 257}, ["voters is 256", "257 peers"]),
    ({"diversity": 21, "rounds": 20}, ["diversity is 21", "20 rounds"]),
    ({"rounds": 4}, ["diversity is 5", "4 rounds"]),
    ({"clients": 0}, ["clients is 0", "1"]),
    ({"budget": 0}, ["budget", "is 0", "above 0"]),
    ({"budget": 3, "recommender": "plurality"}, ["budget is 3", "plurality"]),
    ({"budget": 3, "recommender": "p-rec-literal"}, ["budget is 3", "p-rec-literal"]),
    ({"epsilon": 2}, ["epsilon is 2", "naive"]),
    ({"epsilon": -2, "recommender": "naive"}, ["epsilon", "-2", "above 0"]),
    ({"recommender": "p-rec-sharp", "objects": 3}, ["objects is 3", "p-rec-sharp"]),
    ({"columns": ("a", "b", "c")}, ["columns", "--ratings"]),
    ({"like_from": 3.0}, ["like_from is 3.0", "--ratings"]),
    ({"ratings": Path("r.csv"), "world": Path("w.toml")}, ["world is w.toml", "r.csv"]),
    ({"ratings": Path("r.csv"), "voters": 30}, ["voters is 30", "r.csv"]),
    ({"world": Path("w.toml"), "voters": 30}, ["voters is 30", "w.toml"]),
    ({"world": Path("w.toml"), "clients": 2}, ["clients is 2", "w.toml"]),
    ({"likes": 3}, ["'likes'", "unknown"]),
    ({"attack": "halving"}, ["attack is halving", "nobody lies"]),
    ({"malicious": 0.1, "attack": "promote:3"}, ["attack is 'promote:3'", "halving"]),
    ({"malicious": 1.5}, ["malicious is 1.5", "less than 1"]),
]


@pytest.mark.parametrize(("values", "words"), WRONG, ids=[" ".join(values) for values, _ in WRONG])
def test_what_is_wrong_is_told_in_one_line(values: dict[str, Any], words: list[str]) -> None:
    with complains(*words):
        validated(OnlineScenario, None, values)


HERE = ["online", "--backend", "inprocess"]


@pytest.fixture
def ratings(tmp_path: Path) -> Path:
    """Twenty-five users who rated 50 of 60 titles."""
    return write_movielens(tmp_path / "ratings.csv", planted_ratings(users=25, items=60, each=50))


@pytest.fixture
def nobody_votes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail where a voter is asked to take part."""

    def entered(*_: object) -> None:
        raise AssertionError("a voter was asked")

    monkeypatch.setattr("actors.voters.VoterCohort.enter", entered)


def test_help_names_every_recommender(blindrec: Command) -> None:
    ended = blindrec("online", "--help")
    assert ended.code == 0
    for name in named_recommenders():
        assert f"  {name} " in ended.out


def test_a_folder_holds_tables_that_pandas_opens(blindrec: Command, ratings: Path, tmp_path: Path) -> None:
    out = tmp_path / "served"
    flags = ["--ratings", ratings, "--clients", 2, "--budget", "100000/3", "--seed", 2]
    ended = blindrec(*HERE, *flags, "--out", out, "--json", "-")
    assert ended.code == 0
    clients, rounds, voters = (pd.read_parquet(out / f"{name}.parquet") for name in ("clients", "rounds", "voters"))
    assert clients["client"].nunique() == 2
    assert clients["loss"].mean() == ended.result["loss"]
    assert (clients["rounds"] + clients["skipped"] == 25).all(), "fifty titles, two a round"
    assert rounds.groupby("client")["liked"].count().to_dict() == clients.set_index("client")["rounds"].to_dict()
    assert len(voters) == 2 * 24
    scenario = json.loads((out / "scenario.json").read_text())
    assert (scenario["clients"], scenario["seed"], scenario["recommender"]) == (2, 2, "p-rec")
    assert scenario["budget"] == "100000/3"


FLAGS: dict[str, list[str]] = {
    "--rounds many": ["--rounds", "'many'", "integer"],
    "--objects 3 --rounds 2 --diversity 0 --radius 0": ["rounds is 2", "objects 3", "T >= m"],
    "--epsilon x --recommender naive": ["epsilon is x", "number"],
    "--epsilon 1e400 --recommender naive": ["epsilon"],
    "--columns a": ["columns", "'a'", "three"],
    "--world {tmp}/none.toml": ["none.toml", "cannot be read"],
    "--ratings {tmp}/none.csv": ["none.csv"],
    "--ratings {tmp}/ratings.csv --clients 26": ["clients is 26", "25 users"],
    "--ratings {tmp}/ratings.csv --radius 0 --peers 24": ["peers is 24", "within radius 0"],
    "--out {tmp}": ["output folder", "another run"],
    "--json {tmp}": ["json file", "is a folder"],
    "{tmp}/none.toml": ["scenario file", "none.toml"],
}


@pytest.mark.usefixtures("nobody_votes", "ratings")
@pytest.mark.parametrize("flags", FLAGS)
def test_flags_that_are_wrong(flags: str, blindrec: Command, tmp_path: Path) -> None:
    line = refused(blindrec, *HERE, *flags.replace("{tmp}", str(tmp_path)).split())
    assert all(word in line for word in FLAGS[flags]), line
