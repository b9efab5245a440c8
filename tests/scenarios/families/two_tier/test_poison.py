"""Liars among the private devices of two tiers: they poison item features, and clipped norms hold them back."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from tiers import SECRET, WILLING, features, private, query, rated

from actors.lying.crowds import LOUD, Poison, PoisoningCohort, poisoned
from actors.second_order.cohort import PrivateCohort
from coordinator.protocol.arrays import Floats2
from coordinator.protocol.coins import as_words
from coordinator.protocol.errors import InputError
from coordinator.server.completion.fitting import ReleaseBook
from scenarios.backends.selection import InProcess
from scenarios.families.two_tier.two_tier_scenario import TwoTier
from scenarios.families.two_tier.two_tier_seed import run

DEVICES, MODEL = 40, features()
POISON = Poison(share=0.3, signs=np.where(np.arange(MODEL.items) % 3 == 0, 1.0, -1.0))
MASTER = as_words(SECRET)


def released(poison: Poison | None, *, own_h: bool = False, clip: bool = False) -> Floats2:
    """Return the rows that the server makes of the releases of all devices."""
    kind = (
        partial(PrivateCohort, consent=WILLING)
        if poison is None
        else partial(PoisoningCohort, consent=WILLING, poison=poison)
    )
    cohort = kind(private(rated(devices=DEVICES)), SECRET, 0, DEVICES)
    asked, book = replace(query(MODEL, "pmc"), own_h=own_h), ReleaseBook(MODEL.items, clip=clip)
    cohort.pin(asked.model, 0, DEVICES)
    book.absorb(asked, MODEL, cohort.answer(asked, MODEL, 0, DEVICES))
    return np.concatenate(list(book.blocks()))


def test_those_who_lie_release_one_vector_or_its_opposite_and_the_others_what_they_did() -> None:
    honest, told = released(None), released(POISON)
    lied = (honest != told).any(axis=1)
    assert np.array_equal(lied, np.abs(told @ POISON.signs) > 0.999 * MODEL.common_h * MODEL.items)
    assert lied.sum() == poisoned(POISON, MASTER, DEVICES)
    assert 0 < lied.sum() < DEVICES
    assert not poisoned(Poison(share=0.0, signs=POISON.signs), MASTER, DEVICES)


def test_a_clipped_book_shortens_rows_that_are_louder_than_public_users_and_no_others() -> None:
    loud, clipped = released(POISON, own_h=True), released(POISON, own_h=True, clip=True)
    longest = MODEL.common_h * np.sqrt(MODEL.items)
    lengths = np.linalg.norm(loud, axis=1)
    assert lengths.max() == pytest.approx(LOUD * longest)
    assert np.linalg.norm(clipped, axis=1) == pytest.approx(np.minimum(lengths, longest))
    assert np.array_equal(clipped[lengths < longest], loud[lengths < longest])


def test_a_run_tells_how_many_lied_and_a_few_loud_ones_spoil_what_honest_devices_taught() -> None:
    """A few devices with an own h ten times too large makes features worse than clipped ones do."""
    flags = {"planted": "300,80,9000", "public": 30, "private": 60, "rank": 3, "regularisation": 1, "iterations": 5}

    def told(**more: Any) -> dict[str, Any]:
        return run(TwoTier.model_validate({**flags, "batch": 30, "seed": 1, **more}), InProcess(1))

    loud, clipped = (told(malicious=0.1, own_h=True, clip=clip) for clip in (False, True))
    assert loud["lies"] == clipped["lies"] > 0
    assert loud["attack"] == "poison-features"
    assert loud["guarantee"].startswith("none: a device's own h")
    honest = told()
    assert "lies" not in honest
    assert loud["rmse"] > loud["rmse_public_only"] > clipped["rmse"] > honest["rmse"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"attack": "poison-features"}, "nobody lies; give --malicious too"),
        ({"malicious": 0.1, "mechanism": "none"}, "no device answers with none"),
        ({"own_h": True, "mechanism": "laplace"}, "own_h is True, which is about pmc and pmc-rr"),
        ({"clip": True}, "one size without own_h"),
        ({"malicious": 0.1, "attack": "promote:3"}, "poison-features"),
    ],
)
def test_what_no_run_can_do_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises((InputError, ValueError), match=words):
        TwoTier.model_validate({"planted": "60,60,2000", **given})
