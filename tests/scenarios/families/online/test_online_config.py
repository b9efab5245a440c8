"""An online scenario as a value: what it fills in, and what it refuses before anybody votes."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from coordinator.protocol.errors import InputError
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
