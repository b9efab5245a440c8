"""Whatever is sent to an actor: an error of our own or an answer, nothing charged for what is refused, no crash."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from runs import CHECKED
from thoroughness import THOROUGH, size

CALLS, SEED = size(25_000, 2_000), 16
SUPPORT = Path(__file__).parent / "support"


@pytest.mark.slow
def test_every_method_of_every_actor_refuses_what_it_cannot_use() -> None:
    """In a process of its own, whose compiled code, if all is run, checks bounds that it does not check elsewhere.

    So it fails where it would read foreign memory, and not only where that ends the process. Warnings are errors, too.
    """
    paths = os.pathsep.join([str(SUPPORT), str(SUPPORT.parents[1])])
    done = subprocess.run(
        [sys.executable, "-W", "error", "-X", "faulthandler", SUPPORT / "hostile.py", str(CALLS), str(SEED)],
        env={**os.environ, "PYTHONPATH": paths, **(CHECKED if THOROUGH else {})},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    told = json.loads(done.stdout)
    answered, refused = told["answered"], told["refused"]
    assert sum(answered.values()) + sum(refused.values()) == CALLS
    assert answered.keys() == refused.keys(), "some method answers nothing, or refuses nothing"
    assert min(answered.values()) >= size(10, 1)
    assert min(refused.values()) >= size(300, 15)
