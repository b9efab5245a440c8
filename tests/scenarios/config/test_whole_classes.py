"""A custom class can say all that a built-in mechanism says: their class bodies run alike under another name."""

import importlib
import inspect
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import blindrec as face
from coordinator.protocol.custom import MechanismError
from coordinator.protocol.errors import InputError
from coordinator.protocol.mechanism import Mechanism, Sketch
from coordinator.protocol.mechanisms import maxsense, rappor, sets, sign, totals
from coordinator.protocol.messages import Query
from scenarios.backends.selection import InProcess
from scenarios.config.scenario import Scenario
from scenarios.studies.compare.comparison_settings import Comparison
from scenarios.studies.compare.row import RowRequest
from scenarios.studies.compare.run_row import RunRow
from scenarios.studies.compare.worlds import world_of

BODIES = (
    *((sign, "Sign"), (maxsense, "MaxSense"), (maxsense, "MultiMaxSense"), (rappor, "Rappor"), (sets, "Set")),
    (totals, "Totals"),
)
HEADER = """
import {module} as theirs
globals().update({{name: value for name, value in vars(theirs).items() if not name.startswith("__")}})
from blindrec import Mechanism as Base
"""


@pytest.fixture
def bodies(importable: Path) -> ModuleType:
    """A module of users' classes: each has the body of a built-in mechanism, and `blindrec.Mechanism` as its base."""
    for module, name in BODIES:
        source = inspect.getsource(getattr(module, name))
        head, _, body = source.partition("\n")
        base = head.partition("(")[2].rstrip("):")
        head = f"class My{name}({'Base' if base == 'Mechanism' else f'{base}, Base'}):"
        built_in = f'name = "{getattr(module, name).name}"'
        assert built_in in body
        body = body.replace(built_in, f'name = "my-{getattr(module, name).name}"').replace("__class__", f"My{name}")
        text = HEADER.format(module=module.__name__) + f"{head}\n{body}"
        (importable / f"my_{name.lower()}.py").write_text(text, encoding="utf-8")
    (importable / "my_bodies.py").write_text(
        "\n".join(f"from my_{name.lower()} import My{name}" for _, name in BODIES), encoding="utf-8"
    )
    return importlib.import_module("my_bodies")


@pytest.fixture
def nameless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Private coins are keyed by a query's id; here it does not tell mechanisms' names, so that coins are the same."""
    of_all: Callable[[Query], bytes] = Query.id.fget  # type: ignore[attr-defined] # a property
    monkeypatch.setattr(Query, "id", property(lambda query: of_all(replace(query, design="any"))))


SAID = (
    *("accuracy", "accuracy_predicted", "epsilon_local", "rounds", "answered", "bits_per_device", "centroids"),
    *("neighbours", "delta", "trusted", "noise_deviation", "top_50"),
)
RUNS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("Sign", {"policy": "eliminate", "epsilon": 2}),  # rounds about pools, whose ratings are counted from centres
    ("Sign", {"trust": "shuffled", "own_questions": True}),  # devices draw their questions; the channel has two levels
    ("MultiMaxSense", {"questions": "auto", "epsilon": 4}),  # a setting that is left open, and epsilon is split
    ("Rappor", {}),
    ("Set", {"trust": "shuffled"}),  # sizes follow from the central epsilon
    ("Totals", {"most_likes": 3}),  # two servers add up shares; the noise is the base's
)
MORE: tuple[tuple[str, dict[str, Any]], ...] = (
    ("Sign", {"vectors": 4}),  # draws of its own
    ("MaxSense", {"policy": "fixed", "rounds": 2, "decoder": "posterior"}),
    ("Totals", {"noise": "devices", "neighbours": "add-remove"}),
)
CASES = [
    pytest.param(name, flags, id=f"{name}-{'-'.join(flags)}", marks=[pytest.mark.thorough] * ((name, flags) in MORE))
    for name, flags in (*RUNS, *MORE)
]


@pytest.mark.usefixtures("nameless")
@pytest.mark.parametrize(("name", "settings"), CASES)
def test_a_built_ins_body_is_a_users_class(bodies: ModuleType, name: str, settings: dict[str, Any]) -> None:
    world: dict[str, Any] = {"items": 16, "rated": 6, "users": 600, "epsilon": 1} | settings
    kind: type[Mechanism] = getattr(bodies, f"My{name}")
    built_in = kind.name.removeprefix("my-")
    results = [
        face.run(Scenario(**world, design=design), InProcess(1), progress=False)
        for design in (built_in, f"my_bodies:My{name}")
    ]
    said = (*SAID, "guarantee") if kind.shares else SAID  # a channel's promise says how it was checked
    theirs, users = ({key: result.get(key) for key in said} for result in results)
    assert theirs == users
    assert theirs["answered"] == 600


@pytest.mark.parametrize("name", ["Sign", "MaxSense", "Set", "Totals"])
def test_a_row_of_a_comparison_is_drawn_from_a_class_own_law(bodies: ModuleType, tmp_path: Path, name: str) -> None:
    kind: type[Mechanism] = getattr(bodies, f"My{name}")
    ratings = tmp_path / "ratings.csv"
    coins = np.random.default_rng(20261129)
    rows = [f"{user},{item},{coins.integers(1, 6)}" for user in range(40) for item in coins.permutation(12)[:5]]
    ratings.write_text("\n".join(["userId,movieId,rating", *rows]), encoding="utf-8")
    settings = Comparison(ratings=ratings, like_from=4)
    world = world_of(settings, 0)

    def scores(design: Any) -> np.ndarray[Any, Any]:
        row = RunRow(mechanism=name, design=design, trust_model=kind.trust, approximate=True)
        request = RowRequest(settings=settings, epsilon=Fraction(1), users=100_000, seed=3)
        return row.sampled(world, request).model.score

    assert scores(kind.name.removeprefix("my-")).tolist() == scores(kind()).tolist()


def test_what_a_class_says_of_trust_is_refused(bodies: ModuleType) -> None:
    for base, trust in ((bodies.MySign, "curator"), (bodies.MySign, "two-servers"), (bodies.MyTotals, "local")):
        kind = type("Curated", (base,), {"trust": trust, "__module__": bodies.__name__})
        with pytest.raises(InputError, match="declares a trust model that a custom class cannot have"):
            Scenario(design=kind())


def test_a_vector_with_a_word_named_twice_is_refused(bodies: ModuleType) -> None:
    def sketch(_: Any, __: Query, ratings: Any, coins: Any) -> Sketch:
        return Sketch(np.zeros((coins.devices, 2), np.int32))

    kind = type("Doubled", (bodies.MyTotals,), {"sketch": sketch, "__module__": bodies.__name__})
    with pytest.raises(MechanismError, match="method sketch, round 0: a device names a word twice"):
        face.run(Scenario(items=16, rated=6, users=64, design=kind()), InProcess(1), progress=False)
