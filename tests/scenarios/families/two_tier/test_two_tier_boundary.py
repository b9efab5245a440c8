"""What crosses between private devices and the server in a two-tier run: three types, their fields, and no secret."""

from __future__ import annotations

import dataclasses
import pickle
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from boundary import SEED, shows_a_secret

from actors.second_order.cohort import PrivateCohort
from coordinator.protocol.features import ItemFeatures
from coordinator.protocol.second_order import Announcement, SecondOrderQuery, SecondOrderRelease
from coordinator.server.completion.batches import PRIVATE
from coordinator.server.completion.weighing import Weighing
from scenarios.backends import on_ray
from scenarios.backends.selection import InProcess
from scenarios.families.two_tier.two_tier_scenario import TwoTier
from scenarios.families.two_tier.two_tier_seed import run

FIELDS: dict[type, set[str]] = {
    ItemFeatures: {"mean", "vectors", "kappa", "lowest", "highest", "scale", "common_h", "mean_degree"},
    SecondOrderQuery: {"model", "mechanism", "epsilon", "batch", "own_h"},
    SecondOrderRelease: {"query_id", "device", "mechanism", "payload"},
}


@pytest.mark.parametrize(("mechanism", "bytes_out"), [("pmc", 8), ("pmd", 60), ("sslp", 8), ("laplace", 480)])
def test_a_query_a_model_and_one_release_a_device_cross_and_nothing_else(
    mechanism: str, bytes_out: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    crossed: list[Any] = []
    pins: list[tuple[bytes, int, int]] = []
    ask = PrivateCohort.ask

    def tapped(self: PrivateCohort, question: Any, first: int, stop: int, *public: Any) -> Any:
        told = ask(self, question, first, stop, *public)
        if type(question) is Announcement:
            assert (told, public) == (None, ())
            pins.append((question.model, first, stop))
        else:
            crossed.extend([question, *public, *(told or ())])
        return told

    monkeypatch.setattr(PrivateCohort, "ask", tapped)
    flags = {"planted": "60,60,2000", "public": 20, "private": 12, "rank": 2, "regularisation": 1, "iterations": 3}
    run(
        TwoTier.model_validate({**flags, "mechanism": mechanism, "weight": 0.1, "batch": 6, "seed": SEED}), InProcess(1)
    )
    assert {type(one) for one in crossed} == set(FIELDS)
    for one in crossed:
        assert {field.name for field in dataclasses.fields(one)} == FIELDS[type(one)]
    models = list({one.digest: one for one in crossed if isinstance(one, ItemFeatures)}.values())
    places = [(0, 5), (5, 6), (6, 10), (10, 12)]
    assert [(models[first >= 6].digest, first, stop) for first, stop in places] == pins
    assert models[0].digest != models[1].digest
    assert np.array_equal(models[0].mean, models[1].mean)
    releases = [one for one in crossed if isinstance(one, SecondOrderRelease)]
    assert [one.device for one in releases] == list(range(12))
    assert {len(one.payload) for one in releases} == {bytes_out}
    assert not shows_a_secret(crossed, SEED)


def test_on_ray_the_coordinator_is_handed_public_rows_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Private ratings and the secret go to devices; neither they nor the seed are in what the coordinator gets."""
    handed = dict[str, Any]()

    def conducted(work: Any, devices: Any, *_: Any) -> Any:
        handed.update(plan=work.plan, devices=devices, crew=work.device_groups[PRIVATE], secret=work.secret)
        raise KeyboardInterrupt

    monkeypatch.setattr(on_ray, "ray", SimpleNamespace(put=lambda _: "reference", kill=lambda _: None))
    monkeypatch.setattr(on_ray, "start_host", lambda *_, **__: "a handle")
    monkeypatch.setattr(on_ray, "start_keeper", lambda _: SimpleNamespace(actor="the keeper"))
    monkeypatch.setattr(on_ray, "run_supervised", conducted)
    flags = {"planted": "60,60,2000", "public": 20, "private": 12, "rank": 2, "regularisation": 1, "epsilon": 5}
    with pytest.raises(KeyboardInterrupt):
        run(TwoTier.model_validate({**flags, "mechanism": "laplace", "seed": SEED}), on_ray.OnRay(2))
    stream = pickle.dumps([handed["plan"], handed["devices"]])
    private = handed["crew"].holdings
    assert handed["plan"].public.values.tobytes() in stream
    for part in (private.values, private.items):
        assert part.tobytes() not in stream
    assert handed["secret"] not in stream
    assert not shows_a_secret(handed["plan"], SEED)
    assert isinstance(handed["plan"].weight, Weighing), "else what is held out would not have been looked at"
