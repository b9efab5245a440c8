"""Two-tier mechanisms as they are found: one name in three rooms, and an epsilon that an exact channel stands for."""

from __future__ import annotations

import ast
import json
import math
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import tiers
from statistical import hoeffding_radius

import actors.second_order
import coordinator.protocol
import coordinator.server.completion
import scenarios.families.two_tier
from actors.second_order import mechanisms as devices
from coordinator.protocol.arrays import Bools, Floats, Floats2
from coordinator.protocol.channels import ExactChannel
from coordinator.protocol.errors import InputError
from coordinator.protocol.second_order import SecondOrderRelease
from coordinator.protocol.second_order_channels import basis_of
from coordinator.protocol.second_order_mechanisms import A_RELEASE, second_order_public_halves
from coordinator.server.completion import mechanisms as server
from scenarios.families.two_tier import two_tier_scenario as config

WITH_EPSILON = [name for name, half in second_order_public_halves().items() if half.takes_epsilon]
MODEL = tiers.features(items=12, rank=2)
HEAVY = {"numba", "scipy", "pandas", "sklearn"}


def test_a_mechanism_is_one_name_in_three_rooms() -> None:
    assert list(second_order_public_halves()) == list(server.second_order_server_halves())
    assert set(second_order_public_halves()) == set(devices.registered())
    orders = [half.order for half in second_order_public_halves().values()]
    assert orders == sorted(set(orders)), "two mechanisms have one place"


def literals(path: Path) -> set[str]:
    nodes = ast.walk(ast.parse(path.read_text()))
    return {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def test_nothing_else_names_one() -> None:
    """By the whole strings of all other files of the two-tier model, but for one default."""
    told = {}
    for package in (
        actors.second_order,
        coordinator.protocol,
        coordinator.server.completion,
        scenarios.families.two_tier,
    ):
        for path in Path(package.__path__[0]).rglob("*.py"):
            if "mechanisms" not in path.parent.name and (named := literals(path) & second_order_public_halves().keys()):
                told[path.name] = named
    assert told == {"two_tier_scenario.py": {config.DEFAULT_MECHANISM}}


def test_reading_a_configuration_loads_no_numerical_library_but_numpy() -> None:
    script = "import sys, json, scenarios.families.two_tier.two_tier_scenario; print(json.dumps(sorted(sys.modules)))"
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not HEAVY & set(json.loads(said.stdout))


@pytest.mark.parametrize("name", second_order_public_halves())
def test_an_epsilon_has_an_exact_channel_that_is_checked(name: str) -> None:
    """A class of the protocol that computes its epsilon: test_channels.py holds all of these to e**epsilon."""
    half = second_order_public_halves()[name]
    if not half.takes_epsilon:
        assert half.channel(tiers.query(MODEL, name), MODEL) is None
        return
    for epsilon in (half.smallest, Fraction(1, 3), Fraction(2), Fraction(half.largest)):
        channel = half.channel(tiers.query(MODEL, name, epsilon=epsilon), MODEL)
        assert channel is not None
        of = type(channel)
        assert of.__module__.startswith("coordinator.protocol")
        assert issubclass(of, ExactChannel)
        assert float(epsilon) * (1 - 2e-6) <= channel.epsilon <= float(epsilon)
        assert channel.log_ratio.within(epsilon)
    for wrong in (half.smallest / 2, Fraction(half.largest) * 2):
        with pytest.raises(InputError, match=f"the coins of {name} can express"):
            tiers.query(MODEL, name, epsilon=wrong)


MANY = 10_000
BASIS = basis_of(MODEL)
FAR = (100 * BASIS[:, 0], -100 * BASIS[:, 0], 100 * BASIS[:, 1])
"""Private vectors as different as there are: opposite, and in another direction."""


def shares(name: str, private: Floats, one: Floats, other: Floats) -> Bools:
    """For every release of devices that all hold ``private``, whether it looks more like ``one`` than ``other``."""
    half, query = second_order_public_halves()[name], tiers.query(MODEL, name)
    residuals = np.tile(private, (MANY, 1))
    payloads = devices.half_of(name).payloads(residuals, query, MODEL, tiers.coins(MANY))
    told = []
    for device, payload in enumerate(payloads):
        release = SecondOrderRelease(query_id=query.id, device=device, mechanism=name, payload=payload)
        if half.moment:
            moment: Floats2 = BASIS.T @ (np.outer(one, one) - np.outer(other, other)) @ BASIS
            told.append(float((release.as_moment(MODEL, query) * moment).sum()))
        else:
            parts = release.as_vector(MODEL, query) * (one - other)
            told.append(float(parts.sum()) if half.epsilon_of == A_RELEASE else float(parts[0]))
    return np.array(told) > 0


def rates(name: str) -> list[tuple[float, float]]:
    """How often devices that hold the one vector, and the other, are taken for the one, at epsilon 1."""
    pairs = ((FAR[0], FAR[1]), (FAR[0], FAR[2]))
    told = [[float(shares(name, own, *pair).mean()) for own in pair] for pair in pairs]
    return [(right, wrong) for right, wrong in told]


def excess(found_out: list[tuple[float, float]], claimed: float) -> float:
    """By how much guesses are better than under the claimed epsilon, less what chance allows; above 0 is an alarm."""
    slack = hoeffding_radius(MANY, false_alarm=1e-7) * (1 + math.exp(claimed))
    return max(right - math.exp(claimed) * wrong for right, wrong in found_out) - slack


@pytest.mark.statistical
@pytest.mark.parametrize("name", WITH_EPSILON)
def test_what_devices_say_tells_no_more_than_epsilon(name: str) -> None:
    """Guesses between vectors that are far apart, 10,000 devices each (Hoeffding); false alarm 1e-6.

    What an epsilon counts for is looked at: the release, or its first coordinate or bit. Twin: a claim of a quarter of
    the epsilon that devices answer under; a bit of a release that lies on either side tells nothing alone.
    """
    found_out = rates(name)
    assert excess(found_out, 1.0) <= 0
    if not server.half_of(name).sided:
        assert excess(found_out, 0.25) > 0
