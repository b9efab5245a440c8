"""Rivals and their frequency oracles: what they compute is what we compute."""

import ast
import math
from typing import Any

import numpy as np
import pytest

from benchmarks.rivals import environments, oracles
from benchmarks.rivals.oracles import Counts, compared
from coordinator.protocol.arrays import Ints
from coordinator.protocol.errors import InputError


def test_what_runs_elsewhere_imports_nothing_of_blindrec() -> None:
    for path in (environments.HERE / "inside").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not [name for name in names if name.split(".")[0] in ("actors", "coordinator", "scenarios")]


def test_every_package_of_a_rival_is_pinned() -> None:
    for name in ("hadamard", "opendp"):
        lines = environments.pinned(name).read_text(encoding="utf-8").splitlines()
        assert all(line.count("==") == 1 and "://" not in line for line in lines)


HELD, VALUES = 3, 200


def counts(epsilon: float, users: int, seed: int, *, tilt: float = 0.0) -> Counts:
    """Unary encoding's counts of users who hold one value; ``tilt`` says how unequally others are spoken for."""
    coins = np.random.default_rng(seed)
    rates = np.full(VALUES, 1 / (math.exp(epsilon) + 1)) * (1 + tilt * np.linspace(-1, 1, VALUES))
    rates[HELD] = 0.5
    return Counts(users=users, counts=coins.binomial(users, rates))


@pytest.mark.statistical
def test_who_releases_alike_passes_and_who_does_not_fails() -> None:
    """20 comparisons, each with a false alarm of 1e-6; another epsilon, and values that are favoured, are told."""
    for seed in range(20):
        assert compared(counts(1, 50_000, seed), counts(1, 9000, seed + 100), own_value=HELD).equal
    assert not compared(counts(1, 50_000, 0), counts(1.1, 50_000, 1), own_value=HELD).equal
    assert not compared(counts(1, 50_000, 0), counts(1, 50_000, 1, tilt=0.05), own_value=HELD).equal
    other = counts(1, 50_000, 1)
    other.counts[HELD] += 1200
    found = compared(counts(1, 50_000, 0), other, own_value=HELD)
    assert not found.equal
    assert abs(found.own_value) > 5
    assert abs(found.others - found.freedom) < 6 * math.sqrt(2 * found.freedom)


RIVAL_JOB = oracles.Job(items=40, rated=5, epsilon=1.0, users=4000, seconds=1.0, passes=2)


def all_alike(oracle: str, epsilon: float, users: int) -> Ints:
    job = oracles.Job(items=RIVAL_JOB.items, rated=RIVAL_JOB.rated, epsilon=epsilon, users=users)
    statistic: Any = oracles.all_alike(job, oracle).statistic
    counts: Ints = statistic.sums
    return counts


def outside(name: str, script: str, asked: Any) -> dict[str, Any]:
    """Answers as other devices of blindrec's own oracles do."""
    found = {}
    for oracle in asked.get("oracles", ["grr"]):
        some, more = (all_alike(oracle, asked["epsilon"], users) for users in (4000, 7000))
        found[oracle] = {"users": 3000, "rates": [100.0, 50.0], "counts": (more - some).tolist()}
    return {"version": "1", "oracles": found}


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oracles, "LEAST_SECONDS", 0.0)
    monkeypatch.setattr(oracles, "FEWEST_USERS", 1000)


@pytest.mark.usefixtures("quick")
def test_every_oracle_has_a_row_and_every_rival_the_same_job() -> None:
    seen: list[tuple[str, Any]] = []

    def listening(name: str, script: str, asked: Any) -> dict[str, Any]:
        seen.append((script, asked))
        return outside(name, script, asked)

    frame = oracles.compare(RIVAL_JOB, listening)
    assert list(dict.fromkeys(frame.oracle)) == list(oracles.OURS)
    rivals = frame.dropna()
    assert sorted(zip(rivals.rival, rivals.oracle, strict=True)) == sorted(
        [*(("pure-ldp 1", name) for name in oracles.PURE_LDP), ("OpenDP 1", "grr")]
    )
    assert rivals.times.to_numpy() == pytest.approx(rivals.users / 100)
    assert [script for script, _ in seen] == ["pure_ldp_oracles", "opendp_response"]
    assert {asked["values"] for _, asked in seen} == {41}
    lines = oracles.table(RIVAL_JOB, frame).splitlines()
    assert len(lines) == 2 + len(oracles.OURS) + 1 + 2  # grr has two rivals
    assert {line.count("|") for line in lines[:-2]} == {8}
    assert lines[2].endswith(" |  |  |  |  |  |")  # MaxSense has none
    assert oracles.rivals_of(oracles.Job(items=40, rated=5, epsilon=2.0)) == oracles.PURE_LDP[:-1]


@pytest.mark.usefixtures("quick")
def test_a_rival_that_releases_otherwise_is_refused() -> None:
    def honest(name: str, script: str, asked: Any) -> dict[str, Any]:
        return outside(name, script, asked | {"epsilon": 3.0})

    with pytest.raises(InputError, match=r"pure-ldp's grr reports the held value .* the two do not release alike"):
        oracles.compare(RIVAL_JOB, honest)
