"""Views behind a shuffler and of two servers: exact laws, planted leaks with their twins, and what commands say."""

import json
import math
from copy import copy
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import mechanisms
import numpy as np
import pytest
from mechanisms import unchecked
from runs import Command
from scipy.stats import binom

from actors.device import Cohort
from actors.seeds import Coins
from coordinator.aggregators.gathering import ShareRoute, ShareServer
from coordinator.aggregators.seed_server import SeedServer
from coordinator.aggregators.word_server import WordServer
from coordinator.protocol.agreement import Agreement
from coordinator.protocol.amplification import BitsExactly, KnownOthers, LevelsFromBelow, kary_levels, shuffled_delta
from coordinator.protocol.arrays import Bits, Counts, Ints, Words, Words2
from coordinator.protocol.errors import InputError
from coordinator.protocol.hashing import device_streams
from coordinator.protocol.mechanisms.totals import Totals
from coordinator.protocol.messages import Query, Release, pack
from coordinator.protocol.noise import NoiseLaw, discrete_laplace, polya_share, skellam_share
from coordinator.protocol.shared_vector import SharedVector
from coordinator.protocol.shares import WORDS_SERVER, ShareRoll
from coordinator.protocol.trust import ShuffledRound
from coordinator.protocol.trust_models import SHUFFLED
from coordinator.protocol.value_channels import kary_channel
from coordinator.shuffler import Shuffler
from scenarios.config.mechanism_settings import mechanism_kind
from scenarios.studies.scrutiny import servers_view, shuffler_view
from scenarios.studies.scrutiny.attacks import at_least, attack_view
from scenarios.studies.scrutiny.audit import audit, design_names
from scenarios.studies.scrutiny.mechanism_under_test import PUBLIC, Size, small_run, subject_of
from scenarios.studies.scrutiny.servers_view import NoiseLogs, ServersView, exact_epsilon, farthest_inputs, server_of
from scenarios.studies.scrutiny.verdicts import Audit


# Servers and devices that leak in sums of shares, beside those of runs, which do not.
class Noiseless(WordServer):
    """It publishes its sum without noise of its own."""

    def _noise(self, half: SharedVector, query: Query, roll: ShareRoll) -> Counts:
        return np.zeros(half.width(query), np.uint32)


def without_noise(
    side: str, secret: bytes, permit: bytes, route: ShareRoute, agreement: Agreement | None
) -> ShareServer[Any]:
    if side == WORDS_SERVER:
        return Noiseless(secret, permit, route, agreement)
    return server_of(side, secret, permit, route, agreement)


def one_seed(
    side: str, secret: bytes, permit: bytes, route: ShareRoute, agreement: Agreement | None
) -> ShareServer[Any]:
    return server_of(side, bytes(16), permit, route, agreement)


def opening_few(
    side: str, secret: bytes, permit: bytes, route: ShareRoute, agreement: Agreement | None
) -> ShareServer[Any]:
    kind: type[ShareServer[Any]] = WordServer if side == WORDS_SERVER else SeedServer

    class Hasty(kind):  # type: ignore[misc, valid-type] # one of two
        def _require(self, query: Query) -> SharedVector:
            half: SharedVector = copy(super()._require(query))
            vars(half)["require_enough"] = lambda *_: None
            return half

    return Hasty(secret, permit, route, agreement)


class RepeatingCoins(Coins):
    """Two devices have one seed."""

    def share_keys(self) -> Words2:
        keys = super().share_keys()
        keys[1::2] = keys[: len(keys) // 2 * 2 : 2]
        return keys


class SeedTwice(Cohort):
    """Its devices use seeds of their shares twice."""

    def _coins(self, query: Query, first: int, stop: int) -> Coins:
        return RepeatingCoins(*super()._coins(query, first, stop))


class Collecting:
    """It takes what the shuffler of runs takes, and remembers who sent it."""

    def __init__(self, query: Query, agreement: Agreement) -> None:
        self.query, self.agreement = query, agreement
        self.addresses, self.rows = list[int](), list[Bits]()
        self.asked = 0

    def take(self, release: Release) -> None:
        release.require(self.query)
        self.add(release)

    def add(self, release: Release) -> None:
        self.asked += release.count
        answered = np.flatnonzero(release.answered_mask())
        self.addresses += (release.first + answered).tolist()
        self.rows += list(release.unpacked()[answered])

    def order(self) -> Ints:
        """Places of reports in ascending order, as the honest shuffler hands them on."""
        return np.array(sorted(range(len(self.rows)), key=lambda place: self.rows[place].tolist()), np.int64)

    def round(self, order: Ints, *, width: int, checked: bool = True, **more: Any) -> ShuffledRound:
        if len(self.rows) < self.agreement.reports(self.asked):
            return self.of(None)
        rows = [np.pad(self.rows[place], (0, width - self.rows[place].size)) for place in order.tolist()]
        values: dict[str, Any] = {
            "query_id": self.query.id,
            "first": 0,
            "count": len(rows),
            "width": width,
            "refused": 0,
        }
        values |= {"bits": pack(np.array(rows, np.uint8)), "answered": None, "pairs": None} | more
        return self.of(Release(**values) if checked else unchecked(Release, **values), checked=checked)

    def of(self, release: Release | None, *, checked: bool = True) -> ShuffledRound:
        numbers = {"devices": self.asked, "refused": 0, "answered": len(self.rows)}
        values: dict[str, Any] = {"query_id": self.query.id, **numbers, "release": release}
        return ShuffledRound(**values) if checked else unchecked(ShuffledRound, **values)


class Ordered(Collecting):
    """Reports leave in the order in which they came."""

    def close(self) -> ShuffledRound:
        return self.round(np.arange(len(self.rows)), width=self.query.bits)


class Numbered(Collecting):
    """Reports are sorted, and each has its device's number beside it."""

    def close(self) -> ShuffledRound:
        order = self.order()
        pairs = np.array([[self.addresses[place], -1] for place in order.tolist()], "<i4")
        return self.round(order, width=self.query.bits, checked=False, pairs=pairs.tobytes())


class CountingAbsentees(Shuffler):
    """It counts devices that were asked as if they had answered."""

    def __init__(self, query: Query, agreement: Agreement) -> None:
        agreement = replace(agreement, withhold=False)
        super().__init__(agreement.stamped(query), agreement)


class TwoLengths(Collecting):
    """It takes reports that are longer than others, and hands them on as they are."""

    def take(self, release: Release) -> None:
        self.add(release)

    def close(self) -> ShuffledRound:
        return self.round(self.order(), width=max(row.size for row in self.rows))


ROUNDS: dict[str, Any] = {"trust": "shuffled", "users": 100, "epsilon_local": 2, "delta": 1e-2, "releases": 50_000}
DEVICES: dict[str, Any] = {"settings": {"noise": "devices"}, "users": 7}


@pytest.fixture(autouse=True)
def _few_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers_view, "FEWEST_ROUNDS", 400)
    monkeypatch.setattr(shuffler_view, "FEWEST_ROUNDS", 500)


def query_of(delta: float, size: Size, **settings: Any) -> Query:
    run = small_run(mechanism_kind("totals"), settings, size, Fraction(1), delta=delta)
    return run.design.query(round_number=0, public_seed=PUBLIC, epsilon=Fraction(1))


def of_servers(*, users: int = 4, releases: int = 2000, **options: Any) -> Audit:
    """An audit of few rounds, of devices that have one like of three items, without an agreement that would refuse."""
    view = ServersView("totals", users=users, delta=0.0, items=3, rated=1, agreed=False, **options)
    return attack_view(view, releases=releases, confidence=0.999)


class Leak(NamedTuple):
    """A leak that is planted, the attack that finds it, and its score."""

    planted: dict[str, Any]
    attack: str
    by: str = ""
    rounds: int = 500  # behind a shuffler, at least


LEAKS = {
    "order": Leak({"shuffler": Ordered, **ROUNDS}, "multiset", "order"),
    "number": Leak({"shuffler": Numbered, **ROUNDS}, "multiset", "number or length"),
    "absentees": Leak({"shuffler": CountingAbsentees, **ROUNDS}, "short rounds", rounds=1500),
    "lengths": Leak({"shuffler": TwoLengths, **ROUNDS}, "lengths", "number or length"),
    "one server's noise missing": Leak({"servers": without_noise}, "seeds"),
    "both servers' noise from one seed": Leak({"servers": one_seed}, "words"),
    "a seed used twice": Leak({"devices": SeedTwice}, "words"),
    "half of the devices gone": Leak({"servers": opening_few, **DEVICES, "releases": 20_000}, "short rounds"),
}


def audited(options: dict[str, Any]) -> Audit:
    return audit("grr", **options) if "trust" in options else of_servers(**options)


@pytest.mark.few(2)
@pytest.mark.statistical
@pytest.mark.parametrize(  # behind a shuffler rounds that are short are found by default
    "name", [pytest.param(one, marks=[pytest.mark.thorough] * one.startswith("half")) for one in LEAKS]
)
def test_a_leak_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its twins are below."""
    leak = LEAKS[name]
    monkeypatch.setattr(shuffler_view, "FEWEST_ROUNDS", leak.rounds)
    result = audited(leak.planted)
    start = f"attack {leak.attack}, by {leak.by}"
    assert any(line.startswith(start) for line in result.failures), (result, result.attacks)


@pytest.mark.few(2)
@pytest.mark.statistical
@pytest.mark.parametrize(
    ("options", "rounds"), [(ROUNDS, 500), (ROUNDS, 1500), ({}, 0), (DEVICES | {"releases": 5000}, 0)]
)
def test_shuffler_servers_and_devices_of_runs_pass_where_leaks_are_found(
    options: dict[str, Any], rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They fail with probability 1e-3 at most; short rounds, which are not opened, show nothing."""
    monkeypatch.setattr(shuffler_view, "FEWEST_ROUNDS", rounds)
    twin = audited(options)
    assert twin.held, twin.failures
    assert {one.measured for one in twin.attacks if one.name in ("short rounds", "lengths")} <= {0.0}
    assert "trust" in options or twin.exact == 1


@pytest.mark.few(1)
@pytest.mark.parametrize(("delta", "claim", "exact"), [(1e-3, 0.5262, 0.4304), (1e-2, 0.3065, 0.2254)])
def test_claim_and_exact_epsilon_of_bits_are_those_of_the_formulas(delta: float, claim: float, exact: float) -> None:
    """Of 200 devices under epsilon 2; how many rounds are attacked does not matter."""
    mechanism = mechanisms.StatedLessNoise(leaks=False)
    result = audit(mechanism, trust="shuffled", epsilon_local=2, delta=delta, releases=4000)
    assert result.claimed == pytest.approx(claim, abs=2e-4)
    assert result.exact == pytest.approx(exact, abs=2e-4)
    names = ("epsilon_local", "delta", "amplified_for", "held")
    assert [result[name] for name in names] == [2, delta, 200, True]


def test_known_others_are_bits_exactly_and_two_levels_from_below() -> None:
    flip = 1 / (1 + math.exp(1))
    rows = [[1 - flip, flip], [flip, 1 - flip]]
    for epsilon in (0.1, 0.3):
        bits = shuffled_delta(BitsExactly(), epsilon=epsilon, local_epsilon=1.0, devices=100)
        ours = shuffled_delta(KnownOthers([rows[1], rows[0], rows[0]]), epsilon=epsilon, local_epsilon=1.0, devices=100)
        assert ours == pytest.approx(bits, rel=1e-3)
        assert ours >= bits * (1 - 1e-6)
    channel = kary_channel(Fraction(2), values=5)
    chances = [channel.chances(np.array([value])) for value in range(3)]
    known = KnownOthers(chances).delta(0.4, 2.0, 50)
    assert known == pytest.approx(LevelsFromBelow(kary_levels(5)).delta(0.4, 2.0, 50), rel=1e-3)


@pytest.mark.statistical
def test_a_sound_mechanism_is_measured_below_its_claim_and_above_nothing() -> None:
    """A bound fails with probability 1e-3 at most; at 20 devices two in five of what is given away are measured."""
    result = audit("grr", trust="shuffled", users=20, epsilon_local=3, delta=1e-2, releases=50_000)
    assert result.held, result.failures
    assert result.exact is not None
    assert 0.4 * result.exact < result.measured <= result.exact <= result["epsilon"]
    assert next(one for one in result.attacks if one.name == "multiset").measured == result.measured


class PublicCoins(Coins):
    """Questions follow from devices' addresses, where devices should draw them."""

    def streams(self, query: Query) -> Words:
        return device_streams(query.key, self.first, self.devices)


@pytest.mark.statistical
def test_own_questions_pass_and_those_by_address_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin's false alarm is 1e-3; where questions follow from addresses, they name the victim's report."""
    options: dict[str, Any] = ROUNDS | {"own_questions": True, "releases": 10_000}
    twin = audit("maxsense", **options)
    assert twin.held, twin.failures
    assert (twin["bound"], twin["own_questions"]) == ("two levels", True)
    assert 0 < twin["epsilon_at_least"] < twin["epsilon"] < twin["epsilon_local"]
    monkeypatch.setattr(shuffler_view, "Coins", PublicCoins)
    leak = audit("maxsense", **options)
    assert any("by question of its address" in line for line in leak.failures), (leak, leak.attacks)


def test_a_bound_with_delta_holds_as_often_as_it_says() -> None:
    """Of 400 games whose (P - delta) / Q is 1, 40 may be above it with a doubt of 10 %; the twin leaves delta out.

    More than 70 come with probability below 1e-5, by the binomial law.
    """
    assert binom.sf(70, 400, 0.1) < 1e-5
    coins, plays, delta = np.random.default_rng(0), 4000, 0.05
    hits, misses = coins.binomial(plays, 0.5 * 0.15, 400), coins.binomial(plays, 0.5 * 0.1, 400)
    above = [int((at_least(hits, misses, plays, 0.1, one) > 0).sum()) for one in (delta, 0.0)]
    assert above[0] <= 70 < above[1]


def test_every_design_that_a_shuffler_can_hide_is_audited() -> None:
    assert design_names("shuffled") == ["grr", "oue", "subset", "set", "rappor"]
    assert {"maxsense", "sign"} <= set(design_names("shuffled", own_questions=True))


@pytest.mark.parametrize("delta", [0.0, 1e-3])
@pytest.mark.parametrize("noise", ["servers", "devices"])
@pytest.mark.parametrize(("neighbours", "changes"), [("replace", 6), ("add-remove", 3)])
def test_the_exact_epsilon_is_of_the_farthest_inputs(delta: float, noise: str, neighbours: str, changes: int) -> None:
    """It is the claimed one, but for the public grid of deviations; of fewer coordinates it is smaller."""
    size, half = Size(items=6, rated=3, users=20), Totals()
    query = query_of(delta, size, noise=noise, neighbours=neighbours)
    assert farthest_inputs(query, half, size).changes == changes
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
    assert NoiseLogs(law, 6).of(values) == pytest.approx(NoiseLogs(dose, 1).of(values), abs=1e-6)


@pytest.mark.statistical
def test_the_command_says_claim_law_and_measurement_and_ends_with_code_two_if_more_leaks(
    blindrec: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two servers; golden results hold what an audit behind a shuffler says, and leaks above are found there."""
    flags = [
        "audit",
        "--trust",
        "two-servers",
        "--design",
        "totals",
        "--users",
        "3",
        "--releases",
        "1500",
        "--items",
        "4",
        "--rated",
        "2",
    ]
    ended = blindrec(*flags, "--json", tmp_path / "one.json")
    assert (ended.code, ended.err) == (0, "")
    record = json.loads((tmp_path / "one.json").read_text(encoding="utf-8"))
    assert "if both collude, every rating lies open" in ended.words
    assert all(f"{record[name]:.4f}" in ended.words for name in ("epsilon", "epsilon_at_least"))
    monkeypatch.setattr("coordinator.aggregators.gathering.ShareServer._noise", Noiseless._noise)
    ended = blindrec(*flags)
    assert ended.code == 2
    assert "attack words, by sum, measured at least" in ended.words


def test_a_shuffled_round_refuses_to_name_devices() -> None:
    """What a leaking shuffler hands on unchecked, the message itself refuses."""
    query = subject_of(mechanism_kind("grr"), {}).query(Size(items=5, rated=3, users=200), Fraction(1))
    collecting = Numbered(query, Agreement(trust=SHUFFLED))
    collecting.rows.append(np.zeros(query.bits, np.uint8))
    collecting.addresses.append(3)
    collecting.asked = 1
    assert collecting.close().release is not None
    with pytest.raises(InputError, match="says who answered"):
        collecting.round(np.array([0]), width=query.bits, pairs=bytes(8))
