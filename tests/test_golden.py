"""Golden results hold while modules move: ids and digests exactly, floats to 1e-6, in this process and on Ray."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from golden.cases import CASES
from golden.comparing import as_text, differences, kept
from golden.inside import share
from golden.making import NAMES, PATH, golden, wrong

if TYPE_CHECKING:
    from scenarios.backends.on_ray import OnRay


# By default these are left out: each of the three flags of pairs has each of its values in other cases, a plan of a
# file's block model is "plan" and "data, block model", and every check of a mechanism is held by `test_conformance`
VARIED = {"plan, ratings", "check, pairs, a setting", "check, grr"} | {f"pairwise, {words}" for words in (
    "rated-equal, private, paper", "rated-equal, public, centred", "rated-equal, public, paper",
    "equal, private, centred", "equal, private, paper", "equal, public, centred",
    "positive, private, centred", "positive, public, paper",
)}  # fmt: skip
assert set(NAMES) >= VARIED


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.thorough] * (name in VARIED)) for name in NAMES]
)
def test_golden(name: str, tmp_path: Path) -> None:
    assert not wrong(name, tmp_path)


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("devices, ")])
def test_devices_sketched_by_pieces_say_the_same(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.device.PIECE", 8)
    assert not wrong(name, tmp_path)


@pytest.mark.thorough  # ten seconds of processor each; by default test_ray holds Ray to the same results, and the above
@pytest.mark.cluster
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.on_ray])
def test_golden_on_ray(name: str, tmp_path: Path, ray_session: OnRay, monkeypatch: pytest.MonkeyPatch) -> None:
    share(type(ray_session)(1), monkeypatch)  # four processes a run and not six; two workers are another test's
    assert not wrong(name, tmp_path, "ray")


def test_the_file_holds_all_cases_and_no_other() -> None:
    assert sorted(golden()) == sorted(NAMES)
    assert as_text(golden()) + "\n" == PATH.read_text(encoding="utf-8")


def test_what_differs_is_told_by_its_place() -> None:
    want = {"a": {"digest": "00ff", "x": [1.0, 2.0]}, "count": 3, "none": None, "on": True}
    near = {"a": {"digest": "00ff", "x": [1.0 + 5e-7, 2.0]}, "count": 3, "none": None, "on": True, "new": 1}
    assert not list(differences(want, near))
    far = {"a": {"digest": "00fe", "x": [1.0 + 2e-6, 2.0]}, "count": 3.0, "on": 1}
    assert list(differences(want, far)) == [
        "a.digest: want '00ff', got '00fe'",
        "a.x[0]: want 1.0, got 1.000002",
        "count: want 3, got 3.0",
        "none: want None, got no such key",
        "on: want True, got 1",
    ]
    assert list(differences([1, 2], [1], "rows")) == ["rows: want [1, 2], got [1]"]


def test_time_and_layout_are_left_out() -> None:
    told = {"seconds": 1.0, "rows": [{"workers": 2, "loss": float("inf")}], "share": 0.123456789012}
    assert kept(told) == {"rows": [{"loss": "inf"}], "share": 0.123456789}


def test_every_kernel_was_compiled_once() -> None:
    # A second version, for a written 0 or for arrays in Ray's store, costs every first run as much again. What the
    # cases above compile, or load, is known here; a kernel that others call counts where nothing was compiled before.
    modules = [
        module for name, module in sys.modules.items() if name.split(".")[0] in {"actors", "coordinator", "scenarios"}
    ]
    kernels = {one for module in modules for one in vars(module).values() if hasattr(one, "py_func")}
    assert any(one.signatures for one in kernels)
    assert not [(one.py_func.__qualname__, one.signatures) for one in kernels if len(one.signatures) > 1]
