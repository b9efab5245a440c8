"""A two-tier run: what crosses between devices and server, the same models everywhere, and liars among the devices."""

import pickle
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import psutil
import pytest
from evidence import THOROUGH
from faults import LAYOUT
from messages import SEED, shows_a_secret
from runs import holds_within
from worlds import SECRET, WILLING, features, private, query, rated

from actors.lying import LOUD, Poison, PoisoningCohort, poisoned
from actors.private_cohort import PrivateCohort
from benchmarks.victims import alive, below
from coordinator.protocol.arrays import Floats2
from coordinator.protocol.coins import as_words
from coordinator.protocol.features import ItemFeatures
from coordinator.protocol.messages import Release
from coordinator.protocol.second_order import SecondOrderQuery
from coordinator.server.completion import batches, weighing
from coordinator.server.completion import batches as announcing
from coordinator.server.completion.batches import PRIVATE
from coordinator.server.completion.crowd import cut_users
from coordinator.server.completion.fitting import FittedModel, ReleaseBook, iterate
from coordinator.server.completion.weighing import Weighing
from coordinator.server.rounds.state import RunProgress
from scenarios.backends import on_ray
from scenarios.backends.on_ray import OnRay
from scenarios.backends.selection import InProcess
from scenarios.backends.session import Backend, Progress, silent
from scenarios.families.two_tier import two_tier_worlds
from scenarios.families.two_tier.two_tier_scenario import TwoTier
from scenarios.families.two_tier.two_tier_seed import read_table, run, settle, world_of
from scenarios.families.two_tier.two_tier_worlds import Trial, trial_error


@pytest.mark.parametrize(("mechanism", "bytes_out"), [("pmc", 8), ("pmd", 60), ("sslp", 8), ("laplace", 480)])
def test_a_query_a_model_and_one_release_a_device_cross_and_nothing_else(
    mechanism: str, bytes_out: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    crossed: list[Any] = []
    announcements: list[tuple[bytes, int, int]] = []
    ask = PrivateCohort.ask

    def tapped(self: PrivateCohort, question: Any, first: int, stop: int, *public: Any) -> Any:
        told = ask(self, question, first, stop, *public)
        if not public:
            assert told is None
            announcements.append((question.model, first, stop))
        crossed.extend([question, *public, *([told] if public else [])])
        return told

    monkeypatch.setattr(PrivateCohort, "ask", tapped)
    flags = {"planted": "60,60,2000", "public": 20, "private": 12, "rank": 2, "regularisation": 1, "iterations": 3}
    run(
        TwoTier.model_validate({**flags, "mechanism": mechanism, "weight": 0.1, "batch": 6, "seed": SEED}), InProcess(1)
    )
    assert {type(one) for one in crossed} == {SecondOrderQuery, ItemFeatures, Release}
    models = list({one.digest: one for one in crossed if isinstance(one, ItemFeatures)}.values())
    places = [(0, 5), (5, 6), (6, 10), (10, 12)]
    assert [(models[first >= 6].digest, first, stop) for first, stop in places] == announcements
    assert models[0].digest != models[1].digest
    assert np.array_equal(models[0].mean, models[1].mean)
    releases = [one for one in crossed if isinstance(one, Release)]
    assert [(one.first, one.first + one.count) for one in releases] == places
    assert {(one.width, one.answered, one.pairs, one.questions) for one in releases} == {
        (8 * bytes_out, None, None, None)
    }
    assert not shows_a_secret(crossed, SEED)


def test_on_ray_the_coordinator_is_handed_public_rows_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Private ratings and the secret go to devices; neither they nor the seed are in what the coordinator gets."""
    handed = dict[str, Any]()

    def conducted(work: Any, devices: Any, *_: Any) -> Any:
        handed.update(plan=work.plan, devices=devices, crew=work.device_groups[PRIVATE], secret=work.secret)
        raise KeyboardInterrupt

    monkeypatch.setattr(on_ray, "_await_end", lambda _: None)
    monkeypatch.setattr(on_ray, "ray", SimpleNamespace(put=lambda _: "reference", kill=lambda _: None))
    monkeypatch.setattr(on_ray, "start_host", lambda *_, **__: "a handle")
    monkeypatch.setattr(on_ray, "start_keeper", lambda _: SimpleNamespace(actor="the keeper", end=lambda: None))
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
    with monkeypatch.context() as patch:
        other = OtherLibrary()
        patch.setattr(batches, "iterate", other.iterate)
        patch.setattr(weighing, "iterate", other.iterate)
        patch.setattr(two_tier_worlds, "trial_error", other.trial_error)
        yield


def told(wanted: dict[str, Any]) -> dict[str, Any]:
    """What a run says that must not depend on last bits."""
    result = run(TwoTier.model_validate(wanted), InProcess(1))
    return {name: round(result[name], 9) if name == "rmse" else result[name] for name in SAME}


@pytest.mark.few(1)
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
    """The lowest rank is taken, and none above the next is tried; by the bits themselves it would be either."""
    world, coins = world_of(TwoTier.model_validate(SMALL), TABLE), np.random.default_rng(seed)

    def alike(trial: Trial) -> float:
        return trial.fold.targets.items.size * (1 + NOISE * float(coins.uniform(-1, 1)))

    monkeypatch.setattr(two_tier_worlds, "trial_error", alike)
    fitting, tried = settle(world, InProcess(1))
    assert {rank for rank, _, _ in tried} == {5, 10}
    assert (fitting.rank, fitting.kappa) == min((rank, kappa) for rank, kappa, _ in tried)


def test_a_grid_that_is_too_fine_lets_them(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(announcing, "VECTOR_BITS", 50)
    here = told(FIXED)
    request.getfixturevalue("elsewhere")
    there = told(FIXED)
    assert there["model_digest"] != here["model_digest"]
    assert there["releases_sha256"] != here["releases_sha256"]


SHAPE = "260,500,90000"  # Of a planted table whose public users make several cohorts
VARIES = LAYOUT | {"retries", "restarts"}


@pytest.mark.cluster
def test_ray_gives_the_result_of_this_process_though_actors_die(
    ray_session: OnRay, capfd: pytest.CaptureFixture[str]
) -> None:
    """Public users' completed rows come from several cohorts, behind two workers and, if thorough, behind one.

    A process of public users dies while batches answer. Before and after it, if thorough, one of private devices and
    the coordinator do, which `test_ray` kills by default: each costs two seconds and more of processor.
    """
    flags = {"planted": SHAPE, "public": 200, "private": 30, "rank": 3, "regularisation": 2, "iterations": 2}
    wanted = TwoTier.model_validate({**flags, "mechanism": "pmd", "weight": 0.5, "batch": 2})
    public = world_of(wanted, read_table(wanted)).split.public_rows
    assert len(cut_users(public)) == 3
    victims = ["ray::DeviceHost", "ray::PublicHost", "ray::Coordinator"] if THOROUGH else ["ray::PublicHost"]

    def kill(tally: RunProgress) -> None:
        if victims and 0 < tally.count < 24:
            for one, line in below(psutil.Process()).items():
                if line.startswith(victims[0]):
                    one.kill()
                    del victims[0]
                    return

    def told(session: Backend, mechanism: str = "pmd", progress: Progress = silent) -> dict[str, Any]:
        found = run(
            wanted.model_copy(update={"mechanism": mechanism}), session, watched=lambda _: nullcontext(progress)
        )
        return {name: value for name, value in found.items() if name not in VARIES}

    before, here = set(below(psutil.Process())), told(InProcess(1))
    assert told(ray_session, progress=kill) == here
    assert not victims, "the run was over before its processes were killed"
    assert here["rmse_public_only"] != here["rmse"]
    if THOROUGH:
        assert told(OnRay(1), "none")["rmse_public_only"] == here["rmse_public_only"]
    new = [one for one, words in below(psutil.Process()).items() if one not in before and "Host" in words]
    assert holds_within(20, lambda: not alive(new))
    assert "max_restarts" not in capfd.readouterr().err


DEVICES, MODEL = 40, features()
POISON = Poison(share=0.3, signs=np.where(np.arange(MODEL.items) % 3 == 0, 1.0, -1.0))
MASTER = as_words(SECRET)


def released(poison: Poison | None, *, own_h: bool = False, clip: bool = False) -> Floats2:
    kind = PrivateCohort if poison is None else partial(PoisoningCohort, poison=poison)
    cohort = kind(private(rated(devices=DEVICES)), SECRET, 0, DEVICES, agreement=WILLING, own_h=True)
    asked, book = replace(query(MODEL, "pmc"), own_h=own_h), ReleaseBook(MODEL.items, clip=clip)
    cohort.announce(asked, 0, DEVICES)
    book.absorb(asked, MODEL, *asked.payloads(cohort.answer(asked, MODEL, 0, DEVICES), MODEL))
    return np.concatenate(list(book.blocks()))


def test_those_who_lie_release_one_vector_or_its_opposite_and_the_others_what_they_did() -> None:
    honest, told = released(None), released(POISON)
    lied = (honest != told).any(axis=1)
    assert np.array_equal(lied, np.abs(told @ POISON.signs) > 0.999 * MODEL.common_h * MODEL.items)
    assert lied.sum() == poisoned(POISON, MASTER, DEVICES)
    assert 0 < lied.sum() < DEVICES
    assert not poisoned(Poison(share=0.0, signs=POISON.signs), MASTER, DEVICES)


def test_a_clipped_book_shortens_rows_that_are_louder_than_public_users_and_no_others() -> None:
    loud, clipped = released(POISON, own_h=True), released(POISON, own_h=True, clip=True)
    longest = MODEL.common_h * np.sqrt(MODEL.items)
    lengths = np.linalg.norm(loud, axis=1)
    assert lengths.max() == pytest.approx(LOUD * longest)
    assert np.linalg.norm(clipped, axis=1) == pytest.approx(np.minimum(lengths, longest))
    assert np.array_equal(clipped[lengths < longest], loud[lengths < longest])


def test_a_run_tells_how_many_lied_and_a_few_loud_ones_spoil_what_honest_devices_taught() -> None:
    """A few devices with an own h ten times too large makes features worse than clipped ones do."""
    flags = {"planted": "300,80,9000", "public": 30, "private": 60, "rank": 3, "regularisation": 1, "iterations": 5}

    def told(**more: Any) -> dict[str, Any]:
        return run(TwoTier.model_validate({**flags, "batch": 30, "seed": 1, **more}), InProcess(1))

    loud, clipped = (told(malicious=0.1, own_h=True, clip=clip) for clip in (False, True))
    assert loud["lies"] == clipped["lies"] > 0
    assert loud["attack"] == "poison-features"
    assert loud["guarantee"].startswith("none: a device's own h")
    honest = told()
    assert "lies" not in honest
    assert loud["rmse"] > loud["rmse_public_only"] > clipped["rmse"] > honest["rmse"]
