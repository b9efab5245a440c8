"""Two tiers where a library's last bits differ: the same models, the same coins, the same choices."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from coordinator.server.completion import batches, weighing
from coordinator.server.completion import batches as announcing
from coordinator.server.completion.fitting import FittedModel, iterate
from scenarios.backends.selection import InProcess
from scenarios.families.two_tier import validation
from scenarios.families.two_tier.two_tier_scenario import TwoTier
from scenarios.families.two_tier.two_tier_seed import read_table, run, settle, world_of
from scenarios.families.two_tier.validation import Trial, trial_error

SMALL = {"planted": (150, 60, 4_000), "private": 50, "batch": 10, "seed": 3}
FIXED = {**SMALL, "rank": 5, "regularisation": 1.0}
TABLE = read_table(TwoTier.model_validate(SMALL))
SAME = ("model_digest", "releases_sha256", "rank", "regularisation", "weight", "answered", "rmse")
NOISE = 1e-14
"""As a share of the largest entry, after every call of EM; OpenBLAS's processors differ by about a tenth of it."""


class OtherLibrary:
    """EM and its trials as another processor's code does them: with other last bits each time."""

    def __init__(self) -> None:
        self._coins = np.random.default_rng(1)

    def iterate(self, *arguments: Any, **named: Any) -> FittedModel:
        model = iterate(*arguments, **named)
        vectors = model.features.vectors
        noise = NOISE * np.abs(vectors).max() * self._coins.uniform(-1, 1, vectors.shape)
        model.features = replace(model.features, vectors=vectors + np.where(vectors == 0, 0, noise))
        return model

    def trial_error(self, trial: Trial) -> float:
        return trial_error(trial) * (1 + NOISE * float(self._coins.uniform(-1, 1)))


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """On another processor."""
    with monkeypatch.context() as patch:
        other = OtherLibrary()
        patch.setattr(batches, "iterate", other.iterate)
        patch.setattr(weighing, "iterate", other.iterate)
        patch.setattr(validation, "trial_error", other.trial_error)
        yield


def told(wanted: dict[str, Any]) -> dict[str, Any]:
    """What a run says that must not depend on last bits."""
    result = run(TwoTier.model_validate(wanted), InProcess(1))
    return {name: round(result[name], 9) if name == "rmse" else result[name] for name in SAME}


@pytest.mark.parametrize(
    "wanted",
    [
        FIXED,
        {**FIXED, "norm": "weighted"},
        {**FIXED, "mechanism": "exact"},
        {**SMALL, "mechanism": "laplace", "epsilon": "5"},
    ],
    ids=["pmc", "weighted", "exact", "validated"],
)
def test_last_bits_change_no_coin(wanted: dict[str, Any], request: pytest.FixtureRequest) -> None:
    """Six models of 300 entries: one crosses with probability 1e-14 / 2 over 2^-16 each, 6e-7 in all."""
    here = told(wanted)
    request.getfixturevalue("elsewhere")
    assert told(wanted) == here


@pytest.mark.parametrize("seed", range(4))
def test_settings_that_are_as_good_tie_whatever_the_last_bits(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lowest rank is taken; by the bits themselves it would be any of three, and 20 as often as 5."""
    world, coins = world_of(TwoTier.model_validate(SMALL), TABLE), np.random.default_rng(seed)

    def alike(trial: Trial) -> float:
        return trial.fold.targets.items.size * (1 + NOISE * float(coins.uniform(-1, 1)))

    monkeypatch.setattr(validation, "trial_error", alike)
    fitting, tried = settle(world, InProcess(1))
    assert {rank for rank, _, _ in tried} == {5, 10, 20}
    assert (fitting.rank, fitting.kappa) == min((rank, kappa) for rank, kappa, _ in tried)


def test_a_grid_that_is_too_fine_lets_them(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(announcing, "VECTOR_BITS", 50)
    here = told(FIXED)
    request.getfixturevalue("elsewhere")
    there = told(FIXED)
    assert there["model_digest"] != here["model_digest"]
    assert there["releases_sha256"] != here["releases_sha256"]
