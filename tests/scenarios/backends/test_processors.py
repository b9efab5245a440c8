"""The same answer on every processor: all three families, as several processors' code computes them.

Each other processor is a process of its own, see `benchmarks.last_bits`. It takes some ten seconds of processor time.
"""

import platform

import numpy as np
import pytest
from runs import CHECKED

from benchmarks.last_bits import SMALL, ProcessorResults, ask, crossings, run_cases, variants

# By default golden results hold the digests that other processors found; each process here runs every case
pytestmark = [pytest.mark.slow, pytest.mark.thorough]
OTHERS = [name for name in variants() if name != "this"]
CASES = SMALL
ENOUGH = 1e-4  # Expected crossings in a run; each would change a digest, and so fail a test here


@pytest.fixture(scope="module")
def processors() -> dict[str, ProcessorResults]:
    """The results of each processor."""
    every = variants()
    every["generic kernels"] |= CHECKED  # compiled once for these tests and that of hostile messages
    here = run_cases(CASES)  # in this process, which holds its kernels already
    return {"this": here} | {name: ask(CASES, every[name]) for name in OTHERS}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("processor", OTHERS)
def test_processors_give_the_same_answer(processor: str, case: str, processors: dict[str, ProcessorResults]) -> None:
    assert processors[processor].results[case] == processors["this"].results[case]


@pytest.mark.parametrize("case", [name for name, (family, _) in CASES.items() if family == "two-tier"])
def test_last_bits_hardly_ever_change_a_model(case: str, processors: dict[str, ProcessorResults]) -> None:
    here = processors["this"].models[case]
    assert len(here) > 3
    for name in OTHERS:
        assert crossings(here, processors[name].models[case]) < ENOUGH


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="OpenBLAS knows these processors on x86 only")
def test_these_processors_do_differ_in_last_bits(processors: dict[str, ProcessorResults]) -> None:
    """Else nothing would be compared: without the grid every digest would be another one."""
    first = {name: results.models["pmc"][0] for name, results in processors.items()}
    assert any(not np.array_equal(first["this"], first[name]) for name in OTHERS)
