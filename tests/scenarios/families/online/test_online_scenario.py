"""An online scenario, as a value and as it is typed: what it fills in, results and folders, and what it refuses."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pydantic import ValidationError
from runs import Command, planted_ratings, refused, write_movielens

from coordinator.protocol.errors import InputError
from coordinator.server.online.recommenders import named_recommenders
from scenarios.cli import main
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


@pytest.mark.parametrize("name", named_recommenders())
def test_every_recommender_is_known_by_its_name(name: str) -> None:
    assert OnlineScenario(recommender=name).recommender == name


def test_a_budget_is_exact() -> None:
    assert OnlineScenario.model_validate({"budget": "1/3"}).budget == Fraction(1, 3)
    assert OnlineScenario.model_validate({"budget": 0.1}).budget == Fraction(1, 10)
    assert OnlineScenario.model_validate({"budget": "inf"}).budget is None


def test_a_toml_file_is_read_and_flags_win(tmp_path: Path) -> None:
    file = tmp_path / "scenario.toml"
    file.write_text('recommender = "p-rec-lean"\nrounds = 50\nradius = 1\n')
    scenario = validated(OnlineScenario, file, {"rounds": 60, "voters": None})
    assert (scenario.recommender, *told(scenario)) == ("p-rec-lean", 60, 256, 4, 5, 1)


WRONG: list[tuple[dict[str, Any], list[str]]] = [
    ({"recommender": "p-wreck"}, ["recommender is 'p-wreck'", "p-rec, p-rec-sim"]),
    ({"recommender": 3}, ["recommender is 3"]),
    ({"rounds": 1}, ["rounds is 1", "2"]),
    ({"rounds": 10**9}, ["rounds", "100000000"]),
    ({"rounds": 2.5}, ["rounds is 2.5"]),
    ({"objects": 1}, ["objects is 1", "2"]),
    ({"objects": 257}, ["objects is 257", "256"]),
    ({"voters": 0}, ["voters is 0", "1"]),
    ({"voters": 3}, ["voters is 3", "fewer than 4 peers"]),
    ({"voters": 11, "clients": 3}, ["voters is 11", "4 peers for each of 3 clients"]),
    ({"peers": 0}, ["peers is 0", "1"]),
    ({"peers": 257}, ["voters is 256", "257 peers"]),
    ({"diversity": -1}, ["diversity is -1", "0"]),
    ({"diversity": 21, "rounds": 20}, ["diversity is 21", "20 rounds"]),
    ({"radius": -1}, ["radius is -1", "0"]),
    ({"radius": 21, "rounds": 20}, ["radius is 21", "20 rounds"]),
    ({"rounds": 4}, ["diversity is 5", "4 rounds"]),
    ({"clients": 0}, ["clients is 0", "1"]),
    ({"seed": -1}, ["seed is -1", "0"]),
    ({"budget": 0}, ["budget", "is 0", "above 0"]),
    ({"budget": "much"}, ["budget", "much", "above 0"]),
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
    ({"world": Path("w.toml"), "rounds": 30}, ["rounds is 30", "w.toml"]),
    ({"world": Path("w.toml"), "clients": 2}, ["clients is 2", "w.toml"]),
    ({"like_from": 3.0, "world": Path("w.toml")}, ["like_from is 3.0", "--ratings"]),
    ({"likes": 3}, ["'likes'", "unknown"]),
]


@pytest.mark.parametrize(("values", "words"), WRONG, ids=[" ".join(values) for values, _ in WRONG])
def test_what_is_wrong_is_told_in_one_line(values: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(InputError) as raised:
        validated(OnlineScenario, None, values)
    line = str(raised.value)
    assert "\n" not in line
    assert all(word in line for word in words), line


def test_a_scenario_does_not_change() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        OnlineScenario().rounds = 3


HERE = ["online", "--backend", "inprocess"]
SHORT = [*HERE, "--rounds", "40", "--json", "-"]


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


def test_a_run_prints_one_json_object(blindrec: Command) -> None:
    ended = blindrec(*SHORT)
    assert (ended.code, ended.err) == (0, "")
    result = ended.result
    assert (result["recommender"], result["rounds"], result["backend"]) == ("p-rec", 40, "inprocess")
    assert result["loss"] <= 40


def test_without_json_it_prints_a_table(blindrec: Command) -> None:
    ended = blindrec(*HERE, "--rounds", "30", "--clients", "2", "--diversity", "0", "--radius", "0")
    assert ended.code == 0
    for words in ("loss: disliked recommendations", "epsilon, proved", "epsilon of a voter, all clients", "voters N"):
        assert words in ended.out


def test_help_names_every_recommender(blindrec: Command) -> None:
    ended = blindrec("online", "--help")
    assert ended.code == 0
    for name in named_recommenders():
        assert f"  {name} " in ended.out


@pytest.mark.parametrize("name", named_recommenders())
def test_every_recommender_runs(name: str, blindrec: Command, ratings: Path) -> None:
    assert blindrec(*SHORT, "--recommender", name).result["recommender"] == name
    assert blindrec(*HERE, "--ratings", ratings, "--recommender", name, "--json", "-").result["clients"] == 1


def test_speed_flags_never_change_the_recommendations(blindrec: Command, ratings: Path) -> None:
    for world in (["--rounds", "40", "--clients", "2"], ["--ratings", ratings, "--clients", "3"]):
        digests = {
            blindrec(*HERE, *world, *flags, "--json", "-").result["recommendations_sha256"]
            for flags in ([], ["--workers", "1"], ["--devices-per-actor", "9"], ["--devices-per-actor", "1000"])
        }
        assert len(digests) == 1


def test_repeat_prints_means_and_intervals(blindrec: Command) -> None:
    single = [blindrec(*SHORT, "--seed", seed).result["loss"] for seed in (3, 4, 5)]
    result = blindrec(*SHORT, "--seed", 3, "--repeat", 3).result
    assert result["loss"] == pytest.approx(sum(single) / 3)
    low, high = result["intervals"]["loss"]
    assert low <= result["loss"] <= high
    assert (result["repeat"], result["seed"]) == (3, 3)


def test_clients_add_up_and_a_budget_keeps_voters_away(blindrec: Command) -> None:
    one = blindrec(*SHORT).result["epsilon_proved"]
    three = blindrec(*SHORT, "--clients", 3).result
    assert three["voter_epsilon"] == pytest.approx(3 * one, abs=1e-5)
    held = blindrec(*SHORT, "--clients", 3, "--budget", 1.5 * one).result
    assert held["refused"] == pytest.approx(256 * 2 / 3)
    assert held["voter_epsilon"] == held["budget"] == pytest.approx(1.5 * one)
    assert held["voter_loss"] <= held["budget"]
    assert blindrec(*SHORT, "--clients", 3, "--budget", "inf").result["refused"] == 0


def test_a_folder_holds_tables_that_pandas_opens(blindrec: Command, ratings: Path, tmp_path: Path) -> None:
    out = tmp_path / "served"
    flags = ["--ratings", ratings, "--clients", 2, "--budget", "100000/3", "--seed", 2]
    ended = blindrec(*HERE, *flags, "--out", out, "--json", "-")
    assert ended.code == 0
    names = ["clients.parquet", "result.json", "rounds.parquet", "scenario.json", "versions.json", "voters.parquet"]
    assert sorted(path.name for path in out.iterdir()) == names
    assert json.loads((out / "result.json").read_text()) == ended.result
    clients, rounds, voters = (pd.read_parquet(out / f"{name}.parquet") for name in ("clients", "rounds", "voters"))
    assert clients["client"].nunique() == 2
    assert clients["loss"].mean() == ended.result["loss"]
    assert (clients["rounds"] + clients["skipped"] == 25).all(), "fifty titles, two a round"
    assert rounds.groupby("client")["liked"].count().to_dict() == clients.set_index("client")["rounds"].to_dict()
    assert list(rounds) == ["client", "round", "recommended", "liked", "survivors"]
    assert list(voters) == ["client", "voter", "peer", "alive", "d_strikes", "r_strikes", "privacy_loss"]
    assert len(voters) == 2 * 24
    scenario = json.loads((out / "scenario.json").read_text())
    assert (scenario["clients"], scenario["seed"], scenario["recommender"]) == (2, 2, "p-rec")
    assert scenario["budget"] == "100000/3"


def test_a_scenario_file_is_read_and_flags_win(blindrec: Command, tmp_path: Path) -> None:
    (tmp_path / "scenario.toml").write_text('recommender = "p-rec-lean"\nrounds = 30\nvoters = 50\n')
    result = blindrec(*HERE, tmp_path / "scenario.toml", "--rounds", 35, "--json", "-").result
    assert (result["recommender"], result["rounds"], result["voters"]) == ("p-rec-lean", 35, 50)


def test_a_world_that_is_written_down(blindrec: Command, tmp_path: Path) -> None:
    (tmp_path / "world.toml").write_text("votes = [[0, 0, 1], [0, 1, 0], [1, 1, 1]]\nlikes = [[0], [0, 1], [1]]\n")
    result = blindrec(*HERE, "--world", tmp_path / "world.toml", "--json", "-").result
    told = {"rounds": 3, "voters": 3, "peers": 2, "peers_measured": 3, "diversity": 1, "radius": 1}
    assert {name: result[name] for name in told} == told


FLAGS: dict[str, list[str]] = {
    "--recommender p-wreck": ["recommender is 'p-wreck'", "p-rec-sim"],
    "--rounds 1": ["rounds is 1", "2"],
    "--rounds many": ["--rounds", "'many'", "integer"],
    "--objects 1": ["objects is 1", "2"],
    "--objects 257": ["objects is 257", "256"],
    "--objects 3 --rounds 2 --diversity 0 --radius 0": ["rounds is 2", "objects 3", "T >= m"],
    "--objects 3 --recommender p-rec-sharp": ["objects is 3", "p-rec-sharp"],
    "--voters 3": ["voters is 3", "4 peers"],
    "--voters 0": ["voters is 0"],
    "--peers 0": ["peers is 0"],
    "--peers 100 --clients 3": ["voters is 256", "100 peers", "3 clients"],
    "--diversity 1001": ["diversity is 1001", "1000 rounds"],
    "--radius 1001": ["radius is 1001", "1000 rounds"],
    "--radius -1": ["radius is -1", "0"],
    "--clients 0": ["clients is 0"],
    "--budget 0": ["budget", "above 0"],
    "--budget 9 --recommender dsybil": ["budget is 9", "dsybil"],
    "--epsilon 2": ["epsilon is 2", "naive"],
    "--epsilon x --recommender naive": ["epsilon is x", "number"],
    "--seed -1": ["seed is -1"],
    "--repeat 0": ["repeat is 0"],
    "--workers 0": ["workers is 0"],
    "--devices-per-actor 0": ["devices_per_actor is 0"],
    "--backend spark": ["backend", "'spark'"],
    "--like-from 3": ["like_from", "--ratings"],
    "--columns a": ["columns", "'a'", "three"],
    "--world {tmp}/none.toml": ["none.toml", "cannot be read"],
    "--ratings {tmp}/none.csv": ["none.csv"],
    "--ratings {tmp}/ratings.csv --world w.toml": ["world is w.toml"],
    "--ratings {tmp}/ratings.csv --voters 9": ["voters is 9", "ratings.csv"],
    "--ratings {tmp}/ratings.csv --rounds 500": ["0 of 25 users", "500 rounds"],
    "--ratings {tmp}/ratings.csv --clients 26": ["clients is 26", "25 users"],
    "--ratings {tmp}/ratings.csv --diversity 0": ["diversity is 0", "several objects"],
    "--ratings {tmp}/ratings.csv --radius 0 --peers 24": ["peers is 24", "within radius 0"],
    "--ratings {tmp}/ratings.csv --like-from nan": ["like_from", "nan"],
    "--out {tmp}": ["output folder", "another run"],
    "--json {tmp}": ["json file", "is a folder"],
    "{tmp}/none.toml": ["scenario file", "none.toml"],
}


@pytest.mark.usefixtures("nobody_votes", "ratings")
@pytest.mark.parametrize("flags", FLAGS)
def test_flags_that_are_wrong(flags: str, blindrec: Command, tmp_path: Path) -> None:
    line = refused(blindrec, *HERE, *flags.replace("{tmp}", str(tmp_path)).split())
    assert all(word in line for word in FLAGS[flags]), line


WORLDS: dict[str, tuple[str, list[str]]] = {
    "no vote": ("votes = [[0, 0], [1, []]]\nlikes = [0, 0]", ["round 1", "voter 1", "0 objects"]),
    "two votes": ("votes = [[0, 0], [[0, 1], 1]]\nlikes = [0, 0]", ["round 1", "voter 0", "2 objects"]),
    "nothing liked": ("votes = [[0, 0], [1, 1]]\nlikes = [0, []]", ["round 1", "likes none of 2"]),
    "too few peers": ("votes = [[0, 0], [1, 1]]\nlikes = [0, 0]\n", ["peers is 2", "within radius 0", "at least 1"]),
}


@pytest.mark.usefixtures("nobody_votes")
@pytest.mark.parametrize("name", WORLDS)
def test_worlds_that_are_wrong(name: str, blindrec: Command, tmp_path: Path) -> None:
    text, words = WORLDS[name]
    (tmp_path / "world.toml").write_text(text)
    line = refused(blindrec, *HERE, "--world", tmp_path / "world.toml", "--peers", 2, "--radius", 0)
    assert all(word in line for word in words), line


@pytest.mark.usefixtures("nobody_votes")
def test_an_epsilon_that_is_no_number_for_a_computer_is_refused(blindrec: Command) -> None:
    line = refused(blindrec, *SHORT[:-2], "--recommender", "naive", "--epsilon", "1e400")
    assert "epsilon" in line


def test_a_key_that_is_unknown(blindrec: Command, tmp_path: Path) -> None:
    (tmp_path / "scenario.toml").write_text("peer = 3\n")
    assert "'peer' is unknown" in refused(blindrec, *HERE, tmp_path / "scenario.toml")


def test_results_of_before_survive_bad_input(blindrec: Command, tmp_path: Path) -> None:
    old = tmp_path / "old.json"
    old.write_text("{}")
    refused(blindrec, *HERE, "--json", old, "--rounds", 1)
    assert old.read_text() == "{}"


def test_the_same_seed_is_the_same_run(capsys: pytest.CaptureFixture[str]) -> None:
    told = []
    for _ in range(2):
        with pytest.raises(SystemExit):
            main([*SHORT, "--seed", "9"])
        result = json.loads(capsys.readouterr().out)
        told.append({name: value for name, value in result.items() if name != "seconds"})
    assert told[0] == told[1]
