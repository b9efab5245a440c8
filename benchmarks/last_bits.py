"""Whether all three families give the same answer with other processors' code, and how often last bits would matter.

``python -m benchmarks.last_bits`` runs each case normally, with OpenBLAS's code for two other processors, without the
instructions that numpy and the C library choose at run time, and with kernels compiled for any processor. It prints
whether digests are the same. For two-tier models it prints how often last bits would change one: the sum, over all
entries of all announced models of a run, of the difference between two processors over the grid's step.
"""

import importlib
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from typing import Annotated, Any
from unittest import mock

import numpy as np
import typer

from coordinator.protocol.arrays import Floats2
from coordinator.protocol.coins import step_of
from coordinator.server.completion.batches import VECTOR_BITS
from scenarios.backends.selection import InProcess
from scenarios.config.scenario import Scenario
from scenarios.families.main.main_columns import record
from scenarios.families.main.run import run
from scenarios.families.online.online_report import record as online_record
from scenarios.families.online.online_run import run_online
from scenarios.families.online.online_scenario import OnlineScenario
from scenarios.families.two_tier.two_tier_run import follow
from scenarios.families.two_tier.two_tier_scenario import TwoTier
from scenarios.families.two_tier.two_tier_seed import plan_of, read_table, score_of, settle, world_of

Case = tuple[str, dict[str, Any]]  # Family and scenario
ADAPTIVE = {"design": "sign", "policy": "eliminate"}
ANCHOR = {"items": 48, "rated": 24, "design": "anchor", "epsilon": "3"}
WEAK = {"like": [[0.9, 0.25], [0.2, 0.7]], "learner": "tables"}
SMALL: dict[str, Case] = {
    "one round": ("run", {"items": 60, "rated": 12, "users": 20_000, "design": "sign"}),
    "adaptive": ("run", {"items": 60, "rated": 12, "users": 300_000, **ADAPTIVE}),
    "pairwise": (
        "run",
        {"items": 60, "rated": 60, "users": 2_000, "design": "pairwise", "like": [[0.9, 0.1], [0.1, 0.9]]},
    ),
    "mirrored anchors": ("run", {**ANCHOR, "users": 20_000, "like": [[0.9, 0.1], [0.1, 0.9]]}),
    "anchors by tables": ("run", {**ANCHOR, "users": 100_000, **WEAK}),
    "pmc": ("two-tier", {"planted": [400, 150, 20_000], "private": 120, "rank": 8, "regularisation": 2, "seed": 3}),
    "laplace, weighted, validated": (
        "two-tier",
        {"planted": [150, 60, 4_000], "private": 50, "mechanism": "laplace", "epsilon": "5", "norm": "weighted"},
    ),
    "exact": (
        "two-tier",
        {"planted": [150, 60, 4_000], "private": 50, "mechanism": "exact", "rank": 5, "regularisation": 1},
    ),
    "p-rec": ("online", {"rounds": 200}),
}
"""Cases of some seconds together."""
DOCS: dict[str, Case] = {
    "adaptive": ("run", {"items": 200, "rated": 20, "users": 2_000_000, **ADAPTIVE}),
    "pmc": ("two-tier", {"planted": [5_000, 1_000, 500_000], "rank": 10, "regularisation": 0.7}),
    "pmc, weighted": (
        "two-tier",
        {"planted": [5_000, 1_000, 500_000], "rank": 10, "regularisation": 2, "norm": "weighted"},
    ),
    "pmc, many items": ("two-tier", {"planted": [2_000, 10_677, 1_000_000], "rank": 20, "regularisation": 1}),
    "pmc, subspace": ("two-tier", {"planted": [3_000, 700, 300_000], "public": 1_200, "rank": 10, "regularisation": 2}),
    "p-rec": ("online", {"rounds": 10_000}),
}
"""Cases as README and docs run them."""


def variants() -> dict[str, dict[str, str]]:
    """Return environment variables that make this machine compute like other processors, by the processors' names.

    A library that does not know a setting, for instance on another architecture, ignores it.
    """
    return {
        "this": {},
        "Haswell": {"OPENBLAS_CORETYPE": "Haswell"},
        "Nehalem": {"OPENBLAS_CORETYPE": "Nehalem"},
        "no dispatch": {
            "NPY_DISABLE_CPU_FEATURES": " ".join(_dispatched()),
            "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-AVX512F,-AVX",
        },
        "generic kernels": {"NUMBA_CPU_NAME": "generic"},
    }


def _dispatched() -> list[str]:
    """Return the processor's features for which numpy holds code beyond its baseline, and that this machine has."""
    numpy = importlib.import_module("numpy._core._multiarray_umath")  # there is no public name for it
    return [name for name in numpy.__cpu_dispatch__ if numpy.__cpu_features__.get(name)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessorResults:
    """The results of the cases on one processor."""

    results: dict[str, dict[str, Any]]  # Digests and rounded scores, by case
    models: dict[str, list[Floats2]] = field(repr=False)  # V before it was rounded to the grid, by two-tier case


def run_case(case: Case, models: list[Floats2]) -> dict[str, Any]:
    """Run one case in this process; ``models`` receives V of each model before it is announced."""
    family, values = case
    session = InProcess(1)
    if family == "run":
        result = record(run(Scenario.model_validate(values), session))
        return {name: result[name] for name in ("releases_sha256", "rounds", "asked", "accuracy")}
    if family == "online":
        result = online_record(run_online(OnlineScenario.model_validate(values), session))
        return {"recommendations_sha256": result["recommendations_sha256"], "loss": round(result["loss"], 9)}
    scenario = TwoTier.model_validate(values)
    world = world_of(scenario, read_table(scenario))

    fitting, _ = settle(world, session)
    course = follow(plan_of(world, fitting, every=1), session).outcome
    models += [features.vectors for _, features in course.models]
    return {
        "announced": [digest.hex()[:16] for digest in course.announced],
        "releases_sha256": course.releases_sha256,
        "model": course.features.digest.hex()[:16],
        "rank": fitting.rank,
        "weight": course.weight,
        "rmse": round(score_of(world, session, course.models[-1][1]), 9),
    }


def run_cases(cases: Mapping[str, Case]) -> ProcessorResults:
    """Run cases in this process."""
    models: dict[str, list[Floats2]] = {name: [] for name in cases}
    results = {name: run_case(case, models[name]) for name, case in cases.items()}
    return ProcessorResults(results=results, models=models)


def ask(cases: Mapping[str, Case], environment: Mapping[str, str]) -> ProcessorResults:
    """Run cases in a process of their own, with one thread for each library."""
    threads = {f"{name}_NUM_THREADS": "1" for name in ("OPENBLAS", "OMP", "NUMBA")}
    with (
        mock.patch.dict(os.environ, {**threads, **environment}),
        ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process,
    ):
        return process.submit(run_cases, cases).result()


def crossings(ours: Sequence[Floats2], theirs: Sequence[Floats2]) -> float:
    """Return the expected number of entries that two processors round differently: the sum of differences over steps.

    The expectation is over the numbers' places between two points of the grid. Both must have the same number of
    models.
    """
    total = 0.0
    for numbers, other in zip(map(_aligned, ours), map(_aligned, theirs), strict=True):
        total += float(np.abs(numbers - other).sum()) / step_of(float(np.abs(numbers).max()), VECTOR_BITS)
    return total


def _aligned(vectors: Floats2) -> Floats2:
    """Return columns in the order and with the signs of an announced model, not rounded."""
    ordered = vectors[:, np.argsort(-np.square(vectors).sum(axis=0), kind="stable")]
    leads = np.take_along_axis(ordered, np.abs(ordered).argmax(axis=0)[None], axis=0)
    aligned: Floats2 = ordered * np.where(leads < 0, -1.0, 1.0)
    return aligned


def main(
    size: Annotated[str, typer.Option(help="Cases: small, or docs as README and docs run them.")] = "docs",
) -> None:
    """Compare the answers that all three families give on several processors."""
    cases = {"small": SMALL, "docs": DOCS}[size]
    results = {name: ask(cases, environment) for name, environment in variants().items()}
    here = results.pop("this")
    print(f"{'case':30} {'processor':16} {'same':5} {'crossings a run':>16}")
    for case, result in here.results.items():
        for name, there in results.items():
            expected = f"{crossings(here.models[case], there.models[case]):.1e}" if here.models[case] else ""
            print(f"{case:30} {name:16} {'yes' if there.results[case] == result else 'NO':5} {expected:>16}")


if __name__ == "__main__":
    typer.run(main)
