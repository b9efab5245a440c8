"""Exact channels and composition beside those of OpenDP (extra `check`), dp-accounting, pure-ldp, installed apart."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from coordinator.protocol.budget import add
from coordinator.protocol.channels import COIN, flipped_bits, unary_channel
from coordinator.protocol.value_channels import kary_channel
from scenarios.config.run_spec import RunSpec
from scenarios.config.scenario import Scenario

EPSILONS = (Fraction(1, 10), Fraction(1), Fraction(3))
MISSING = "the package {} is not installed; pip install it"


def kept(epsilon: Fraction) -> float:
    """How probably one bit is told as it is."""
    return flipped_bits(1, epsilon).if_one / COIN


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_opendp_says_of_our_flips_what_our_channels_say(epsilon: Fraction) -> None:
    """Randomized response of one bit, and among k values: OpenDP's privacy map at our probabilities."""
    opendp = pytest.importorskip("opendp.prelude", reason=MISSING.format("opendp"))
    opendp.enable_features("contrib")
    measurement = opendp.m.make_randomized_response_bool(prob=kept(epsilon))
    assert measurement.map(1) == pytest.approx(flipped_bits(1, epsilon).epsilon, abs=1e-12)
    channel = kary_channel(epsilon, values=8)
    own = float(max(channel.chances(np.array([3]))))
    several = opendp.m.make_randomized_response(categories=list(range(8)), prob=own)
    assert several.map(1) == pytest.approx(channel.epsilon, abs=1e-12)
    off = opendp.m.make_randomized_response_bool(prob=kept(epsilon) + 0.01)
    assert off.map(1) > flipped_bits(1, epsilon).epsilon + 0.01


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("rounds", [2, 5])
def test_dp_accounting_composes_our_flips_to_what_the_ledger_books(epsilon: Fraction, rounds: int) -> None:
    """Its privacy loss distribution of randomized response, composed with itself, ends at our sum."""
    accounting = pytest.importorskip("dp_accounting", reason=MISSING.format("dp-accounting"))
    flipped = 2 * (1 - kept(epsilon))  # it draws anew where ours flips
    interval = 1e-4
    loss = accounting.pld.privacy_loss_distribution.from_randomized_response(
        flipped, 2, value_discretization_interval=interval
    )
    total: Fraction | None = Fraction(0)
    for _ in range(rounds):
        total = add(total, epsilon)
    assert total is not None
    composed = loss.self_compose(rounds).get_epsilon_for_delta(0.0)
    assert float(total) <= composed + 1e-9
    assert composed <= float(total) + rounds * interval + 1e-9


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_pure_ldp_says_of_frequency_oracles_what_our_channels_say(epsilon: Fraction) -> None:
    """k-ary response, OUE and OLH: P(own value), P(another one) and the buckets; at half of epsilon others."""
    oracles = pytest.importorskip("pure_ldp.frequency_oracles", reason=MISSING.format("pure-ldp"))
    unary, kary = unary_channel(epsilon, values=20), kary_channel(epsilon, values=20)
    buckets = round(math.exp(epsilon)) + 1
    hashed = kary_channel(epsilon, values=buckets)
    ours = {
        "DEClient": (kary.own / COIN, (1 - kary.own / COIN) / 19),
        "UEClient": tuple(float(rate) for rate in unary.rates),
        "LHClient": (hashed.own / COIN, (1 - hashed.own / COIN) / (buckets - 1)),
    }
    more = {"DEClient": {}, "UEClient": {"use_oue": True}, "LHClient": {"use_olh": True}}
    for name, expected in ours.items():
        client, half = (getattr(oracles, name)(float(one), 20, **more[name]) for one in (epsilon, epsilon / 2))
        assert (client.p, client.q) == pytest.approx(expected, abs=1e-12)
        assert half.p / half.q < 0.98 * client.p / client.q
        assert getattr(client, "g", buckets) == buckets
    scenario = Scenario(design="olh", items=20, rated=4, users=100, epsilon=epsilon)
    query = RunSpec(scenario).design.query(round_number=0, public_seed=bytes(16), epsilon=epsilon)
    assert query.parameters["buckets"] == buckets
