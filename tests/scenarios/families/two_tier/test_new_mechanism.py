"""A two-tier mechanism that is new: a file in its room, no other edit, and all of the model knows it.

Here Warner's randomized response on the sign of every residual, without PMC's common flip.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

WARNER = """
import numpy as np

from coordinator.protocol.channels import bit_channel
from coordinator.protocol.second_order import A_BIT, HALF, Signs


class Warner(Signs):
    name, order = "warner", 35
    guarantee = "epsilon for one sign, m times epsilon for all"
    takes_epsilon, epsilon_of = True, A_BIT
    weight = HALF
    swept, attacked = ("3",), ("3",)

    def channel(self, query, features):
        return bit_channel(query.epsilon)

    def randomize(self, vectors, query, features, coins):
        flipped = coins.places(vectors.shape[1]) < self.channel(query, features).threshold
        return np.packbits((vectors > 0) ^ flipped, axis=1)

    def heights(self, payloads, query, features):
        return features.common_h


MECHANISMS = (Warner(),)
"""
USED = """
import json, sys
from unittest.mock import MagicMock

trees = ("sklearn", "sklearn.ensemble", "sklearn.linear_model")  # they grow in an attack alone, and load for seconds
sys.modules.update(dict.fromkeys(trees, MagicMock()))
from coordinator.protocol import second_order
second_order.__path__.append(sys.argv[1])

from coordinator.protocol.errors import InputError
from scenarios.backends.selection import InProcess
from scenarios.families.two_tier.attack import ATTACKED
from scenarios.families.two_tier.two_tier_scenario import TwoTier
from scenarios.families.two_tier.two_tier_seed import run
from scenarios.studies.sweep.two_tier_sweep import CURVES

flags = {"planted": "120,60,4000", "public": "20", "private": 12, "rank": 3, "regularisation": 2.0}
told = {"found": list(second_order.two_tier_mechanisms())}
told |= {"help": TwoTier.model_fields["epsilon"].description}
told |= {"swept": CURVES, "attacked": [[name, str(epsilon)] for name, epsilon in ATTACKED]}
told["result"] = run(TwoTier.model_validate({**flags, "mechanism": "warner", "epsilon": "3"}), InProcess(1))
try:
    TwoTier(**{**flags, "mechanism": "warner", "epsilon": "31"})
except InputError as error:
    told["refused"] = str(error)
print(json.dumps(told))
"""


@pytest.mark.thorough  # five seconds; `tests/test_fourth_party.py` holds the like of a mechanism by default
def test_a_file_is_a_mechanism(tmp_path: Path) -> None:
    (tmp_path / "warner.py").write_text(WARNER)
    command = [sys.executable, "-c", USED, str(tmp_path)]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
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
