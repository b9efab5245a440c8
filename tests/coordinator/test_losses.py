"""Each error of Ray has a fate, and versions of libraries that nobody has tried are refused in a line."""

import re
import tomllib
from contextlib import nullcontext
from pathlib import Path

import pytest
import ray
from runs import Command, line_of, refused

from benchmarks.reference_pages import errors_page
from coordinator.protocol import losses
from coordinator.protocol.errors import InputError, LostError
from coordinator.protocol.losses import ENDS, FATES, LOST, TESTED, require_tested
from coordinator.server.fleet import calls as retrying
from scenarios.backends.on_ray import OnRay

ROOT = Path(__file__).parents[2]
KINDS = {
    name: kind
    for name, kind in vars(ray.exceptions).items()
    if isinstance(kind, type) and issubclass(kind, BaseException) and kind.__module__ == "ray.exceptions"
}
MEMORY = "3 worker(s) were killed due to low memory. 6 of 8 GB used. OOM kill reason: " + "much more. " * 99


def test_every_error_of_ray_has_a_fate() -> None:
    """And one that is derived from a lost one is lost, because it is caught as such."""
    assert set(KINDS) == set(FATES)
    for name, kind in KINDS.items():
        above = {FATES[one.__name__] for one in kind.__mro__ if one.__name__ in FATES}
        assert LOST not in above or FATES[name] == LOST
        assert ENDS not in above or FATES[name] == ENDS


def test_the_page_says_the_same() -> None:
    rows = re.findall(r"^\| (lost|ends|waits|inside|fault) \|([^|]*)\|", errors_page(), re.MULTILINE)
    told = {name: fate for fate, names in rows for name in re.findall(r"`(\w+)`", names)}
    assert told == FATES


@pytest.mark.parametrize("name", [name for name, fate in FATES.items() if fate in (LOST, ENDS) and name in KINDS])
def test_what_is_lost_is_asked_again_and_ends_in_a_line(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordinator.server.fleet.panel.FIRST_PAUSE", 0)
    kind, attempts = KINDS[name], []

    class Raised(kind):  # type: ignore[valid-type, misc] # constructors differ
        def __init__(self) -> None:
            Exception.__init__(self, MEMORY)

        __str__ = Exception.__str__

    Raised.__name__ = name

    def attempt() -> None:
        attempts.append(1)
        raise Raised

    with pytest.raises(LostError) as error, retrying.in_a_line():
        retrying.with_retries(attempt, "devices cannot be reached")
    line = str(error.value)
    assert len(attempts) == (8 if FATES[name] == LOST else 1)
    assert len(line) < 400
    assert "\n" not in line
    assert f"({name}: " in line
    assert line.endswith(", then resume")
    assert ("lower workers" in line and "6 of 8 GB used" in line) == (name == losses.MEMORY)


def test_parts_of_a_sweep_that_are_lost_are_measured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordinator.server.fleet.panel.FIRST_PAUSE", 0)
    calls: list[int] = []

    class Task:
        def __init__(self, most: int) -> None:
            self.most = most

        def remote(self, argument: int) -> tuple[int, int]:
            calls.append(argument)
            return argument, len(calls)

    def got(reference: tuple[int, int]) -> int:
        argument, number = reference
        if argument == 1 and number < task.most:
            raise ray.exceptions.OutOfMemoryError(MEMORY)  # type: ignore[no-untyped-call] # Ray gives it no types
        return 10 * argument

    task = Task(5)
    monkeypatch.setattr("scenarios.backends.on_ray.ray.remote", lambda **_: lambda _: task)
    monkeypatch.setattr("scenarios.backends.on_ray.ray.wait", lambda flying, **_: (flying[:1], flying[1:]))
    monkeypatch.setattr("scenarios.backends.on_ray.result_of", got)
    monkeypatch.setattr("scenarios.backends.on_ray.sent", dict)  # frames of other tests would start Ray
    assert sorted(OnRay(2).each(abs, [0, 1, 2])) == [(0, 0), (1, 10), (2, 20)]
    assert calls.count(1) > 1
    task.most = 10**6
    with pytest.raises(LostError, match=r"part 1 of 3 was lost, 8 times \(OutOfMemoryError: 3 worker"):
        list(OnRay(2).each(abs, [0, 1, 2]))


def test_pins_are_what_is_tested() -> None:
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8").split()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for name, (oldest, newest) in TESTED.items():
        assert f"{name}=={newest}" in pins
        supported = f"{name}=={newest}" if oldest == newest else f"{name}>={oldest},<={newest}"
        assert [one.replace("[default]", "") for one in project if one.startswith(name)] == [supported]
        assert oldest == newest or f'"{name}[default]=={oldest}"' in makefile  # of `make test-oldest`


def test_a_version_that_nobody_has_tried_is_refused_in_a_line(
    blindrec: Command, nobody_asks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of numba by the command; Ray's module looks when it is imported, by the same function."""
    monkeypatch.setattr("coordinator.protocol.losses.version", lambda _: "9.9.9")
    require_tested.cache_clear()
    command = ["run", "--users", 100, "--items", 20, "--rated", 5, "--backend", "inprocess"]
    lines = [refused(blindrec, *command), line_of(lambda: require_tested.__wrapped__("ray"))]
    for (name, versions), line in zip({"numba": "0.68.1", "ray": "2.57.0 to 2.60.0"}.items(), lines, strict=True):
        assert line.startswith(f"{name} is 9.9.9, blindrec was tested with {versions} and uses what")
        assert f"=={TESTED[name][1]}" in line


@pytest.mark.parametrize(
    ("installed", "fine"),
    [("2.56.0", False), ("2.57.0", True), ("2.59.0", True), ("2.60.0", True), ("2.60.1", False), ("3.0.0.dev0", False)],
)
def test_versions_in_the_range_are_taken(installed: str, fine: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordinator.protocol.losses.version", lambda _: installed)
    with nullcontext() if fine else pytest.raises(InputError, match=f"ray is {installed}, blindrec was tested"):
        require_tested.__wrapped__("ray")
