"""What a shuffler makes of a mechanism's epsilon: figures of the bounds, and whom shuffling cannot hide."""

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mechanisms import StatedLessNoise, likes
from runs import Command, complains

import blindrec
from blindrec import Amplification, amplified, local_epsilon, matrix_channel
from coordinator.protocol.mechanisms import by_query
from coordinator.protocol.value_channels import kary_channel
from scenarios.studies.scrutiny.checks import CHECKS
from scenarios.studies.scrutiny.mechanism_under_test import subjects
from scenarios.studies.scrutiny.verdicts import FAILED

SHUFFLED = ("grr", "oue", "subset", "set")


@pytest.mark.parametrize(
    ("design", "local", "central"),
    [("grr", 4, 0.0685), ("oue", 4, 0.0814), ("any", 4, 0.16977)],
)
def test_central_epsilons_are_those_of_the_formulas(design: str, local: int, central: float) -> None:
    """At 100,000 devices and delta 1e-6; of 100 values where the design has values."""
    result = amplified(design, 100_000, epsilon=local, items=99)
    assert result.epsilon == pytest.approx(central, abs=2e-4)
    assert (result.epsilon_local, result.delta, result.neighbours) == (local, 1e-6, "replace")
    assert result.epsilon_at_least is None or 0 < result.epsilon_at_least <= result.epsilon


def test_the_local_epsilon_keeps_the_central_one_and_no_larger_one_does() -> None:
    result = local_epsilon("grr", 10_000, epsilon=1, items=9)
    assert result.epsilon <= 1
    assert amplified("grr", 10_000, epsilon=result.epsilon_local + 0.003, items=9).epsilon > 1


def test_a_set_names_as_many_values_as_suit_the_central_epsilon() -> None:
    """Of 9,724 items, as many as MovieLens latest-small has, and sets of 50."""
    result = local_epsilon("set", 10_000, epsilon=1, items=9724, rated=100, settings={"padded": 50})
    assert result.settings == {"padded": 50, "chosen": 4}
    assert result.epsilon_local == pytest.approx(5.664, abs=0.02)
    fixed = local_epsilon("set", 1000, epsilon=1, items=99, settings={"chosen": 3})
    assert (fixed.settings, fixed.epsilon <= 1) == ({}, True)


@pytest.mark.parametrize("epsilon", [1, 3])
def test_a_matrix_is_bounded_as_the_mechanism_that_it_is(epsilon: int) -> None:
    """K-ary randomized response as a matrix has the two levels' bound, but for the inputs that nobody else holds."""
    channel = kary_channel(Fraction(epsilon), values=5)
    rows = [channel.chances(np.array([value])) for value in range(5)]
    ours = amplified(matrix_channel(rows, None), 1000)
    theirs = amplified("grr", 1000, epsilon=epsilon, items=4, rated=1)
    assert ours.bound == "finite channel"
    assert ours.epsilon == pytest.approx(theirs.epsilon, rel=1e-3)
    assert ours.epsilon_local == pytest.approx(epsilon)


class KnowsAddresses(StatedLessNoise):
    """It sketches, or counts, otherwise at other addresses."""

    counts: bool = False

    def sketch(self, question: blindrec.Question, ratings: Any, coins: Any) -> Any:
        return likes(ratings, 0) if self.counts else ratings.devices % 2

    def count(self, question: blindrec.Question, released: Any, devices: Any) -> Any:
        weights = devices % 3 if self.counts else None
        return np.bincount(released, weights, minlength=question.outputs).astype(np.int64)


def test_a_custom_mechanism_is_amplified_by_its_own_channel() -> None:
    """One bit, whose central epsilon at 1,000 devices is between what bits give away and the two levels' bound."""
    mechanism = StatedLessNoise(leaks=False)
    result = amplified(mechanism, 1000, epsilon=1)
    assert (result.design, result.bound) == ("StatedLessNoise", "finite channel")
    assert 0.12661 <= result.epsilon <= 0.1488
    assert local_epsilon(mechanism, 1000, epsilon=result.epsilon).epsilon_local == pytest.approx(1, abs=0.002)


@pytest.mark.parametrize(("counts", "method"), [(False, "sketch"), (True, "count")])
def test_a_custom_mechanism_that_knows_addresses_is_refused(counts: bool, method: str) -> None:
    with complains(f"method {method}, round 0: it depends on addresses"):
        amplified(KnowsAddresses(leaks=False, counts=counts), 1000, epsilon=1)


class KnowsBlocks(StatedLessNoise):
    """It sketches, or counts, by the place of a device in its block, or by the block's size."""

    by: str = "place"

    def sketch(self, question: blindrec.Question, ratings: Any, coins: Any) -> Any:
        devices = ratings.devices.size
        return {
            "place": np.arange(devices) % 2,
            "size": np.full(devices, int(devices > 200)),
            "others": np.full(devices, int(ratings.likes.mean() < 0.5)),
        }.get(self.by, likes(ratings, 0))

    def count(self, question: blindrec.Question, released: Any, devices: Any) -> Any:
        weights = np.arange(devices.size) % 3 if self.by == "count" else None
        return np.bincount(released, weights, minlength=question.outputs).astype(np.int64)


@pytest.mark.few(1)
@pytest.mark.whole
@pytest.mark.parametrize("by", ["place", "size", "others", "count"])
def test_a_custom_mechanism_that_knows_blocks_is_refused(by: str) -> None:
    """A device says the same wherever its runs put it: nothing but ratings and coins may decide."""
    with complains("round 0: it depends on a device's place in a block"):
        amplified(KnowsBlocks(leaks=False, by=by), 1000, epsilon=1)
    if by != "count":
        (check,) = (one for one in CHECKS if one.name == "layouts")
        assert check.of(subjects(KnowsBlocks(leaks=False, by=by))[0]).verdict == FAILED


def test_every_design_is_amplified_or_refused() -> None:
    """A mechanism that says nothing is a new one: it must say whether its question follows from an address."""
    private = {name: half for name, half in by_query().items() if half.randomizes and not half.shares}
    by_address = {name for name, half in private.items() if half.by_address}
    assert by_address >= {"maxsense", "multi-maxsense", "sign", "anchor", "pair-signs", "olh", "hadamard"}
    assert set(private) - by_address == {*SHUFFLED, "pairs", "rappor"}


def test_channels_are_refused_that_have_no_epsilon_or_another_one() -> None:
    channel = matrix_channel([[0.6, 0.4], [0.4, 0.6]], None)
    with complains("has its own"):
        amplified(channel, 1000, epsilon=1)
    with complains("one epsilon"):
        local_epsilon(channel, 1000)  # type: ignore[arg-type] # as a script without types may call it
    with complains("has no epsilon"):
        amplified(matrix_channel([[1, 0], [0.4, 0.6]], None), 1000)


def test_the_command_says_what_is_left_if_the_shuffler_lies(blindrec: Command, tmp_path: Path) -> None:
    ended = blindrec("amplify", "subset", "--users", "10000", "--epsilon", "2", "--json", tmp_path / "one.json")
    assert (ended.code, ended.err) == (0, "")
    record = json.loads((tmp_path / "one.json").read_text(encoding="utf-8"))
    assert set(record) == {*Amplification.__dataclass_fields__, "provenance"}
    assert f"{record['epsilon_local']:.4f}" in ended.out
    assert "if the shuffler tells" in ended.out
    assert ("the shuffler is all there is" in " ".join(ended.out.split())) == (record["epsilon_local"] > 5)
