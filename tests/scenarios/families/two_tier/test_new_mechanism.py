"""A two-tier mechanism that is new: a file in each of the three rooms, no other edit, and all of the model knows it.

Here Warner's randomized response on the sign of every residual, without PMC's common flip.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

PUBLIC = """
from coordinator.protocol.channels import bit_channel
from coordinator.protocol.second_order_mechanisms import Signs
from coordinator.protocol.second_order_mechanisms import A_BIT


class Warner(Signs):
    name = "warner"
    order = 35
    guarantee = "epsilon for one sign, m times epsilon for all"
    takes_epsilon = True
    epsilon_of = A_BIT

    def height(self, payload, features, query):
        return features.common_h

    def channel(self, query, features):
        return bit_channel(query.epsilon)


PUBLIC = (Warner(),)
"""
DEVICE = """
from actors.second_order.mechanisms import SecondOrderDevice, packed
from coordinator.protocol.second_order_mechanisms import public_part_of


class Warner(SecondOrderDevice):
    names = ("warner",)

    def payloads(self, residuals, query, features, coins):
        threshold = public_part_of("warner").channel(query, features).threshold
        return packed((residuals > 0) ^ (coins.places(residuals.shape[1]) < threshold))


DEVICE = (Warner(),)
"""
SERVER = """
from coordinator.server.completion.mechanisms import HALF, SecondOrderServer

SERVER = (SecondOrderServer(name="warner", weight=HALF, swept=("3",), attacked=("3",)),)
"""
ROOMS = {
    "coordinator.protocol.second_order_mechanisms": PUBLIC,
    "actors.second_order.mechanisms": DEVICE,
    "coordinator.server.completion.mechanisms": SERVER,
}
USED = """
import importlib, json, sys
from unittest.mock import MagicMock

trees = ("sklearn", "sklearn.ensemble", "sklearn.linear_model")  # they grow in an attack alone, and load for seconds
sys.modules.update(dict.fromkeys(trees, MagicMock()))
for room in sys.argv[2].split(","):
    importlib.import_module(room).__path__.append(f"{sys.argv[1]}/{room}")

from coordinator.protocol.errors import InputError
from coordinator.protocol.second_order_mechanisms import second_order_public_halves
from scenarios.backends.selection import InProcess
from scenarios.families.two_tier.attack import ATTACKED
from scenarios.families.two_tier.two_tier_scenario import TwoTier
from scenarios.families.two_tier.two_tier_seed import run
from scenarios.studies.sweep.two_tier_sweep import CURVES

flags = {"planted": "120,60,4000", "public": "20", "private": 12, "rank": 3, "regularisation": 2.0}
told = {"found": list(second_order_public_halves()), "help": TwoTier.model_fields["epsilon"].description}
told |= {"swept": CURVES, "attacked": [[name, str(epsilon)] for name, epsilon in ATTACKED]}
told["result"] = run(TwoTier.model_validate({**flags, "mechanism": "warner", "epsilon": "3"}), InProcess(1))
try:
    TwoTier(**{**flags, "mechanism": "warner", "epsilon": "31"})
except InputError as error:
    told["refused"] = str(error)
print(json.dumps(told))
"""


def used(folder: Path, rooms: dict[str, str]) -> subprocess.CompletedProcess[str]:
    for room, source in ROOMS.items():
        (folder / room).mkdir()
        if room in rooms:
            (folder / room / "warner.py").write_text(source)
    command = [sys.executable, "-c", USED, str(folder), ",".join(ROOMS)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.thorough  # five seconds; `tests/test_fourth_party.py` holds the like of a mechanism by default
def test_three_files_are_a_mechanism(tmp_path: Path) -> None:
    said = used(tmp_path, ROOMS)
    assert said.returncode == 0, said.stderr
    told = json.loads(said.stdout)
    place = told["found"].index("warner")
    assert told["found"][place - 1 : place + 2] == ["pmc-rr", "warner", "laplace"]
    assert "pmc-rr (a bit), warner (a bit), laplace (a coordinate), sslp" in told["help"]
    assert "warner:3" in told["swept"]
    assert ["warner", "3"] in told["attacked"]
    result = told["result"]
    assert (result["mechanism"], result["epsilon"], result["answered"], result["weight"]) == ("warner", 3, 12, 0.5)
    assert result["guarantee"] == "epsilon for one sign, m times epsilon for all"
    assert "the coins of warner can express 1e-12 to 30" in told["refused"]


@pytest.mark.thorough
@pytest.mark.parametrize("left_out", list(ROOMS)[1:])
def test_a_half_that_is_missing_is_told(left_out: str, tmp_path: Path) -> None:
    said = used(tmp_path, {room: source for room, source in ROOMS.items() if room != left_out})
    assert said.returncode != 0
    assert f"{left_out} has no half of 'warner'" in said.stderr.splitlines()[-1]
