"""A user's script is type-checked by the public face alone: mypy, which `make check` runs, reads what is here."""

from __future__ import annotations

from pathlib import Path
from typing import assert_type

from matplotlib.axes import Axes

import blindrec
from scenarios.from_python import RunResult



def script() -> None:
    """What a user writes. It is never run; a type that is another one is an error of mypy."""
    scenario = blindrec.Scenario(design="sign", items=40, like=[0.9, 0.1], epsilon=1, vectors=4)
    result = blindrec.run(scenario, blindrec.Ray(workers=2), repeat=3, out="runs/first")
    _table, axes = result.frame("items"), result.plot()
    _plan = blindrec.plan(items=40, like=[[0.9, 0.1], [0.2, 0.8]], epsilon=1)
    _swept = blindrec.sweep({"grid": [{"items": [10, 20]}]}, seeds=3)
    _policy: blindrec.Policy
    assert_type(result, RunResult)
    assert_type(axes, Axes)
    assert_type(blindrec.errors.InputError("no"), blindrec.errors.InputError)
    assert_type(blindrec.__version__, str)


def wrong() -> None:
    """What a user must not write. It is never run; an error that mypy no longer finds makes its comment one."""
    blindrec.run(40)  # type: ignore[arg-type]
    blindrec.run(blindrec.Scenario()).frame("rows")  # type: ignore[arg-type]
    blindrec.Scenario(items="forty")  # type: ignore[arg-type]
    blindrec.Runn()  # type: ignore[attr-defined]


def test_every_package_says_that_it_is_typed() -> None:
    """Where one is installed, and does not, all that it gives is Any."""
    for package in ("actors", "blindrec", "coordinator", "scenarios"):
        assert (ROOT / package / "py.typed").is_file()
