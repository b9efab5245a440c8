"""Exact channels and composition beside those of OpenDP (extra `check`) and of dp-accounting, installed apart."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from coordinator.protocol.budget import add
from coordinator.protocol.channels import COIN, flipped_bits, kary_channel

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
