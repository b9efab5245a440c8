"""Audits of two servers: the exact law, planted leaks with their twins, the command, and what ends with one line."""

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import dishonest
import numpy as np
import pytest
from runs import Command

from actors.device import Cohort
from coordinator.protocol.mechanisms.totals import Totals
from coordinator.protocol.messages import Query
from coordinator.protocol.noise import NoiseLaw, discrete_laplace, polya_share, skellam_share
from scenarios.config.mechanism_settings import mechanism_kind
from scenarios.studies.scrutiny import servers_audit as audits
from scenarios.studies.scrutiny.mechanism_under_test import PUBLIC, Size, small_run, subject_of
from scenarios.studies.scrutiny.servers_audit import MakeServer, audit_servers, exact_epsilon, server_of
from scenarios.studies.scrutiny.verdicts import ServersAudit

SIZE = Size(items=3, rated=1, users=4)


@pytest.fixture(autouse=True)
def _few_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audits, "FEWEST_ROUNDS", 400)


def query_of(delta: float, size: Size = SIZE, **settings: Any) -> Query:
    run = small_run(mechanism_kind("totals"), settings, size, Fraction(1), delta=delta)
    return run.design.query(round_number=0, public_seed=PUBLIC, epsilon=Fraction(1))


def played(make: MakeServer = server_of, devices: type[Cohort] = Cohort, **options: Any) -> ServersAudit:
    """An audit of few rounds, of devices that have one like of three items."""
    settings, delta = options.get("settings", {}), options.get("delta", 0.0)
    size = SIZE._replace(users=options.get("users", 4))
    subject, query = subject_of(mechanism_kind("totals"), settings, size=size), query_of(delta, size, **settings)
    how: dict[str, Any] = {"releases": options.get("releases", 2000), "doubt": 1e-3, "make": make, "devices": devices}
    return audit_servers(subject, query, users=size.users, delta=delta, size=size, **how)


@pytest.mark.parametrize("delta", [0.0, 1e-3])
@pytest.mark.parametrize("noise", ["servers", "devices"])
@pytest.mark.parametrize(("neighbours", "changes"), [("replace", 6), ("add-remove", 3)])
def test_the_exact_epsilon_is_of_the_farthest_inputs(delta: float, noise: str, neighbours: str, changes: int) -> None:
    """It is the claimed one, but for the public grid of deviations; of fewer coordinates it is smaller."""
    size, half = Size(items=6, rated=3, users=20), Totals()
    query = query_of(delta, size, noise=noise, neighbours=neighbours)
    duel = audits.farthest_inputs(query, half, size)
    assert duel.changes == changes
    exact = exact_epsilon(query, half, changes, delta)
    assert 0.998 < exact <= 1
    assert exact_epsilon(query, half, changes - 1, delta) < 0.95 * exact


@pytest.mark.parametrize(
    ("law", "dose"),
    [
        (polya_share(1, sensitivity=2, honest=6), discrete_laplace(1, sensitivity=2)),
        (skellam_share(3.0, honest=6), skellam_share(3.0, honest=1)),
    ],
)
def test_the_law_of_six_shares_is_that_of_one_dose(law: NoiseLaw, dose: NoiseLaw) -> None:
    values = np.arange(-8, 9)[None]
    assert audits.NoiseLogs(law, 6).of(values) == pytest.approx(audits.NoiseLogs(dose, 1).of(values), abs=1e-6)


LEAKS: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "one server's noise missing": ({"make": dishonest.without_noise}, {}, "seeds"),
    "both servers' noise from one seed": ({"make": dishonest.one_seed}, {}, "words"),
    "a seed used twice": ({"devices": dishonest.SeedTwice}, {}, "words"),
    "half of the devices gone": (
        {"make": dishonest.opening_few},
        {"settings": {"noise": "devices"}, "users": 7, "releases": 20_000},
        "short rounds",
    ),
}


@pytest.mark.few(1)
@pytest.mark.statistical
@pytest.mark.parametrize(  # behind a shuffler rounds that are short are found by default
    "leak", [pytest.param(one, marks=[pytest.mark.thorough] * one.startswith("half")) for one in LEAKS]
)
def test_a_leak_is_found(leak: str) -> None:
    """Its twins are below."""
    planting, options, attack = LEAKS[leak]
    result = played(**planting, **options)
    assert any(line.startswith(f"attack {attack}, ") for line in result.failures), (result, result.attacks)


@pytest.mark.few(1)
@pytest.mark.statistical
@pytest.mark.parametrize("options", [{}, {"settings": {"noise": "devices"}, "users": 7, "releases": 5000}])
def test_servers_and_devices_of_runs_pass_where_leaks_are_found(options: dict[str, Any]) -> None:
    """They fail with probability 1e-3 at most; a sum of too few is not opened, and shows nothing."""
    twin = played(**options)
    assert twin.held, twin.failures
    assert {one.measured for one in twin.attacks if one.name == "short rounds"} <= {0.0}
    assert twin.epsilon_at_least == 1


def test_claim_law_and_measurement_are_said(monkeypatch: pytest.MonkeyPatch, blindrec: Command, tmp_path: Path) -> None:
    flags = ("--trust", "two-servers", "--users", "3", "--releases", "1500", "--items", "4", "--rated", "2")
    ended = blindrec("audit", *flags, "--design", "totals", "--json", tmp_path / "one.json")
    assert (ended.code, ended.err) == (0, "")
    record = json.loads((tmp_path / "one.json").read_text(encoding="utf-8"))
    assert (record["trust_model"], record["epsilon_local"], record["neighbours"]) == ("two-servers", None, "replace")
    assert (record["answered"], record["delta"], record["bytes_per_device"]) == (3, 1e-3, 32)
    assert [one["name"] for one in record["attacks"]] == ["words", "seeds", "published"]
    page = " ".join(ended.out.split())
    assert "if both servers collude, nothing is left" in page
    for name in ("epsilon", "epsilon_at_least"):
        assert f"{record[name]:.4f}" in page
    monkeypatch.setattr(  # the leak is in the code that runs use
        "coordinator.aggregators.gathering.ShareServer._noise", dishonest.Noiseless._noise
    )
    ended = blindrec("audit", *flags, "--design", "totals")
    assert ended.code == 2
    assert "attack words, by sum, measured at least" in " ".join(ended.out.split())
