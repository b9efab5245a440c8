"""Results of online runs: the flat record, means and intervals over seeds, and tables."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scenarios.backends.selection import InProcess
from scenarios.families.online.online_bounds import loss_bound
from scenarios.families.online.online_report import COLUMNS, privacy_losses, record, tables_of
from scenarios.families.online.online_run import OnlineResult, run_online
from scenarios.families.online.online_scenario import OnlineScenario
from scenarios.show.columns import Average, mean_of
from scenarios.store.whole_files import to_json

WORST = {column.name for column in COLUMNS if column.average is Average.WORST}


def online(**changes: Any) -> OnlineResult:
    return run_online(OnlineScenario.model_validate({"rounds": 60, **changes}), InProcess(1))


def test_bounds_are_those_of_the_clients_own_numbers() -> None:
    result = record(online(peers=3, radius=1, diversity=2))
    bound = loss_bound("p-rec", rounds=60, objects=2, voters=256, peers=3, diversity=2, radius=1)
    assert result["loss_bound"] == bound
    sim = record(online(recommender="p-rec-sim", voters=20, peers=5, rounds=100))
    assert sim["epsilon_exact"] == pytest.approx(3.057734510226, abs=5.1e-13)
    assert sim["privacy_loss_of_run"] <= sim["epsilon_exact"] <= sim["epsilon_proved"]
    assert record(online(recommender="random"))["epsilon_exact"] == 0


def test_clients_are_averaged_and_their_exposures_added() -> None:
    run = online(clients=3, rounds=50)
    result, rows = record(run), tables_of(run)["clients"]
    assert (result["clients"], len(rows)) == (3, 3)
    for name in ("loss", "survivors", "log_likelihood"):
        assert result[name] == pytest.approx(rows[name].mean())
    for name in ("privacy_loss_of_run", "epsilon_proved"):
        assert result[name] == rows[name].max(), "what is guaranteed, or leaked, is told of the worst"
    assert result["voter_epsilon"] == pytest.approx(rows["epsilon_proved"].sum(), abs=3e-6)
    assert result["voter_epsilon"] >= rows["epsilon_proved"].sum()


SHORT = {"rounds": 3, "diversity": 0, "radius": 0, "voters": 31, "peers": 5}
"""In some such runs a single vote decides, and plurality's loss is infinite; in others none does."""


def test_a_loss_without_limit_is_told_whatever_it_is_averaged_with_and_fits_into_a_table(tmp_path: Path) -> None:
    """Of three clients; in some runs one of them has such a loss, and another one has not."""
    mixed = 0
    for seed in range(12):
        run = online(recommender="plurality", clients=3, seed=seed, **SHORT)
        table = tables_of(run)["clients"]
        table.to_parquet(tmp_path / "clients.parquet", index=False)
        assert table["privacy_loss_of_peers"].dtype == np.float64
        losses = [privacy_losses(client)[1] for client in run.clients]
        mixed += len({math.isinf(loss) for loss in losses}) > 1
        assert record(run)["privacy_loss_of_peers"] == ("inf" if math.inf in losses else max(losses))

    assert mixed > 2


def test_seeds_of_which_some_have_a_loss_without_limit_can_be_summed_up() -> None:
    records = [record(online(recommender="plurality", **SHORT, seed=seed)) for seed in range(6)]
    assert {type(row["privacy_loss_of_peers"]) for row in records} == {str, float}
    assert json.loads(to_json(mean_of(COLUMNS, records)))["privacy_loss_of_peers"] == "inf"


@pytest.mark.parametrize("name", ["p-rec", "p-rec-literal"])
def test_what_differs_between_seeds_is_never_the_first_seeds_alone(name: str) -> None:
    """A reader of means takes every number for all seeds'."""
    records = [record(online(seed=seed, rounds=200, recommender=name, diversity=0)) for seed in range(5)]
    result, differ = mean_of(COLUMNS, records), 0
    for key in set(result) - {"seed", "runs", "intervals", "repeat", "level"}:
        values = [row.get(key) for row in records]
        if len(set(map(str, values))) > 1:
            differ += 1
            told = max if key in WORST else np.mean
            assert result[key] == pytest.approx(float(told([value for value in values if value is not None]))), key
    assert differ > 5


def test_tables_hold_all_rounds_and_all_voters() -> None:
    run = online(clients=2, voters=40)
    tables = tables_of(run)
    rounds, voters = tables["rounds"], tables["voters"]
    assert list(rounds) == ["client", "round", "recommended", "liked", "survivors"]
    assert list(voters) == ["client", "voter", "peer", "alive", "d_strikes", "r_strikes", "privacy_loss"]
    assert (len(rounds), len(voters)) == (120, 80)
    for client in run.clients:
        mine = rounds[rounds["client"] == client.world.name]
        assert mine["round"].tolist() == list(range(60))
        assert mine["recommended"].tolist() == client.served.chosen.tolist()
        assert (~mine["liked"]).sum() == client.served.loss
        theirs = voters[voters["client"] == client.world.name]
        assert theirs["voter"].tolist() == list(range(40))
        assert theirs["peer"].sum() == 4
        assert theirs["alive"].sum() == client.served.alive.sum()
        assert (theirs["d_strikes"] + theirs["r_strikes"]).max() <= 2 * (5 + 5) + 1
        assert theirs["privacy_loss"].abs().max() == privacy_losses(client)[1]
