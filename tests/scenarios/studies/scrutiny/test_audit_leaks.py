"""`audit` finds what is planted in classes that somebody brings, and passes their twins without the leak."""

from __future__ import annotations

import math

import foreign_dishonest as refused
import foreign_leaks as planted
import pytest
from thoroughness import sample

from coordinator.protocol.custom import Mechanism
from scenarios.studies.scrutiny.audit import audit
from scenarios.studies.scrutiny.verdicts import Audit

pytestmark = pytest.mark.statistical
"""A twin fails by false alarm with probability 1e-3 at most, which is the audit's own; seeds are fixed."""

BY = {
    planted.OneCoin: "worst",
    planted.TwoQuestions: "searched",
    planted.FreshNoise: "repeat",
    planted.LowBits: "worst",
    planted.UnusedField: "searched",
    planted.SkewedSet: "worst",
    planted.Overheard: "company",
    planted.Remembered: "rounds",
    planted.Later: "rounds",
    planted.SameNoise: "rounds",
    planted.OneRating: "searched",
    planted.AboutSome: "worst pool=some",
    planted.KeptForSome: "rounds pool=some",
}
"""Which attack sees a leak that it takes few releases to see."""


def audited(mechanism: Mechanism, releases: int) -> Audit:
    return audit(mechanism, releases=releases)


@pytest.mark.parametrize("kind", sample(list(BY), 5))
def test_a_planted_leak_is_found_and_its_twin_passes(kind: type[planted.Plain]) -> None:
    found, twin = (audited(kind(leaks=leaks), 30_000) for leaks in (True, False))
    assert found.measured > 1.1
    assert any(line.startswith(f"attack {BY[kind]} ") for line in found.failures), found.failures
    assert twin.held, twin.failures
    assert 0.5 < twin.measured <= 1


@pytest.mark.parametrize("kind", [planted.LessNoise, planted.StatedLessNoise, planted.BitsWithLessNoise])
def test_a_flip_probability_that_is_off_by_five_percent_is_found(kind: type[planted.Plain]) -> None:
    found = audited(kind(leaks=True), 400_000 if kind is planted.LessNoise else 10_000)
    exact = math.log((1 - 0.95 / (1 + math.e)) / (0.95 / (1 + math.e)))
    if kind is planted.LessNoise:  # whose stated likelihood is honest: only releases tell
        assert found.exact == pytest.approx(1)
        assert 1 < found.measured <= exact
    else:
        assert found.exact == pytest.approx(exact)
        assert any("above" in line for line in found.failures)
        assert any(line.startswith("exact epsilon 1.0695") for line in found.failures)
    assert not found.held
    assert audited(kind(leaks=False), 30_000).held


@pytest.mark.thorough
@pytest.mark.parametrize("items", [1, 5])
def test_a_leak_of_some_items_is_found_from_the_size_on_that_the_audit_states(items: int) -> None:
    """Of each item alone, and of one item in five; a third of that size passes, which the honest audit says."""
    honest = audited(planted.SomeItems(leaks=False, of=items), 30_000)
    assert honest.held
    assert honest.power is not None
    size = next(one.epsilon for one in honest.power.leaks if one.share == 1 / items)
    assert size is not None
    large, small = (audited(planted.SomeItems(excess=(size - 1) * part, of=items), 30_000) for part in (1, 1 / 3))
    assert not large.held
    assert small.held


@pytest.mark.parametrize(("kind", "attack"), [(refused.Later, "rounds"), (refused.SomePool, "searched pool=some")])
def test_what_devices_refuse_in_later_questions_is_measured_past_their_refusal(
    kind: type[Mechanism], attack: str
) -> None:
    """Twins are above: classes that no device refuses. False alarm: 1e-3 each."""
    found = audited(kind(), 6000)
    assert found.exact == pytest.approx(2)
    assert found.failures[0].startswith(f"mechanism {kind.__name__}, method channel")
    assert next(one for one in found.attacks if one.name == attack).measured > 1.1
