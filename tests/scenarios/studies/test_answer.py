"""The answer: its sentences in every case, bounds that are never points, and risks that are never rounded down."""

import io
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from rich.console import Console
from runs import BEST, answer, curve, worth
from scipy import special, stats

from coordinator.protocol.trust_models import CURATOR, LOCAL, SHUFFLED, TWO_SERVERS
from scenarios.studies.answer import (
    VOLUNTEERS,
    Answer,
    Curve,
    MeasuredWorth,
    people_needed,
    people_text,
    right_at_most,
    share_text,
    show_answer,
    times_text,
)

LOW = curve(LOCAL, {1000: 0.05, 10_000: 0.1, 50_000: 0.16, 100_000: 0.19})
CASES: dict[str, tuple[list[Curve], str, str]] = {
    "nobody": (
        [curve(LOCAL, {100: 0.1, 1000: 0.19})],
        "enough",
        (
            "Trusting nobody is enough to keep 90 % of your best list's worth: 95 % [95, 95] with your 1,000 people, "
            "at epsilon 1."
        ),
    ),
    "shuffler": (
        [LOW, curve(SHUFFLED, {100: 0.1, 1000: 0.19}, device=6.57)],
        "enough",
        (
            "Trusting a shuffler is enough to keep 90 % of your best list's worth: 95 % [95, 95] with your 1,000 "
            "people, at epsilon 1. If the shuffler tells, each device's own noise is left: a guess is right up to 999 "
            "of 1,000 times. Trusting nobody misses it with 25 % [25, 25], and would take 79k [79k, 79k] people."
        ),
    ),
    "curator, and two servers may do": (
        [LOW, curve(TWO_SERVERS, {1000: worth(0.179, 0.01)}), curve(CURATOR, {100: 0.1, 1000: 0.19})],
        "enough",
        (
            "Trusting a curator is enough to keep 90 % of your best list's worth: 95 % [95, 95] with your 1,000 "
            "people, at epsilon 1. If the curator lies, every rating lies open. Trusting one of 2 servers (89 % [84, "
            "94]) may do; more splits (--seeds) would tell. Trusting nobody misses it with 25 % [25, 25], and would "
            "take 79k [79k, 79k] people."
        ),
    ),
    "straddles": (
        [curve(CURATOR, {1000: worth(0.181, 0.01)})],
        "undecided",
        (
            "Undecided: at epsilon 1 no rung surely reaches 90 % of your best list's worth with your 1,000 people. "
            "Trusting a curator (90 % [85, 96]) may do; more splits (--seeds) would tell."
        ),
    ),
    "too few": (
        [LOW, curve(CURATOR, {1000: 0.16, 2000: 0.17, 4000: 0.19})],
        "too few people",
        (
            "Your 1,000 people are too few for 90 % of your best list's worth at epsilon 1: the best of the "
            "table has 80 % [80, 80], with a curator. Trusting a curator would take 2.8k [2.8k, 2.8k] people. Trusting "
            "nobody would take 79k [79k, 79k] people."
        ),
    ),
    "out of reach": (
        [curve(LOCAL, {1000: 0.05, 10_000: 0.06})],
        "out of reach",
        (
            "No rung reaches 90 % of your best list's worth at epsilon 1 with up to 10k people: with yours "
            "the best of the table has 25 % [25, 25], with nobody. Ask for less (--worth), for a larger "
            "epsilon, or for volunteers."
        ),
    ),
    "some without a guarantee": (
        [curve(LOCAL, {100: 0.1, 1000: 0.19}), curve(CURATOR, {1000: 0.2}, unguaranteed=[1000])],
        "enough",
        (
            "Trusting nobody is enough to keep 90 % of your best list's worth: 95 % [95, 95] with your 1,000 people, "
            "at epsilon 1. No guarantee with so many people, since delta exceeds 1 / people: curator."
        ),
    ),
    "none with a guarantee": (
        [curve(CURATOR, {1000: 0.2}, unguaranteed=[1000]), curve(VOLUNTEERS, {1000: 0.19}, epsilon=None)],
        "no guarantee",
        "With your 1,000 people nothing is promised: delta exceeds 1 / people. Give a smaller --delta.",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_advice_is_the_least_trust_whose_whole_interval_reaches_the_target(name: str) -> None:
    curves, case, text = CASES[name]
    advice = answer(*curves).by_epsilon[0].advice
    assert (advice.case, " ".join([advice.headline, advice.beside]).strip()) == (case, text)


def test_volunteers_are_never_advised() -> None:
    made = answer(curve(VOLUNTEERS, {1000: 0.2}, epsilon=None), curve(LOCAL, {1000: 0.05, 10_000: 0.06}))
    (at,) = made.by_epsilon
    assert at.advice.case == "out of reach"
    assert {rung.key: rung.reaches for rung in at.rungs} == {LOCAL: "no", VOLUNTEERS: "yes"}


def test_a_curve_ends_where_its_leader_has_no_guarantee_any_more() -> None:
    gaussian = curve(CURATOR, {1000: 0.18, 10_000: 0.19, 100_000: 0.2}, mechanism="Gaussian", unguaranteed=[100_000])
    laplace = curve(CURATOR, {1000: 0.1, 10_000: 0.12, 100_000: 0.13}, mechanism="Laplace")
    made = answer(gaussian, laplace, share=0.97)
    leading = [(cell.mechanism, cell.people) for cell in made.cells if cell.leads]
    assert leading == [("Gaussian", 1000), ("Gaussian", 10_000)]
    assert 100_000 not in {cell.people for cell in made.cells if cell.mechanism == "Gaussian"}
    assert made.left_out == ("curator, Gaussian: from 100,000 people on",)
    needed = made.by_epsilon[0].rungs[0].needed
    assert needed is not None
    assert people_text(needed) == "> 10k"


def test_shares_are_paired_by_split_and_sample() -> None:
    together = BEST * np.array([[0.5], [1.0], [1.5]])
    (cell,) = answer(curve(CURATOR, {1000: 0.95 * together}), best=together).cells
    assert cell.share.value == pytest.approx(cell.share.low) == pytest.approx(0.95)  # unpaired: .45 to 1.45
    assert cell.worth.high - cell.worth.low > 0.4


@pytest.mark.parametrize(
    ("by_people", "text"),
    [
        ({1000: 0.19, 2000: 0.2}, "< 1k"),
        ({1000: worth(0.181, 0.01), 2000: worth(0.19, 0.001)}, "< 2k"),
        ({1000: worth(0.181, 0.01)}, "not known"),
        ({1000: 0.1, 2000: worth(0.17, 0.001)}, "> 2k"),
        ({1000: 0.1, 2000: worth(0.17, 0.02)}, "> 1k"),
        ({1000: worth(0.17, 0.02)}, "not known"),
        ({1000: 0.1, 4000: 0.2}, "1k to 4k"),
        ({1000: 0.1, 2000: 0.2}, "1.7k [1.7k, 1.7k]"),
    ],
)
def test_what_is_not_bracketed_is_a_bound_that_the_whole_interval_leaves(
    by_people: Mapping[int, Any], text: str
) -> None:
    curves = {people: worth(value) if isinstance(value, float) else value for people, value in by_people.items()}
    assert people_text(people_needed(curves, BEST, 0.9, 0.0)) == text


@given(share=st.floats(0.0, 1.5), target=st.floats(0.05, 1.2))
def test_a_printed_share_stands_on_its_side_of_the_target(share: float, target: float) -> None:
    text = share_text(MeasuredWorth(value=share, low=share, high=share), target)
    shown = float(text.split(" %")[0])
    assert abs(shown - 100 * share) <= 0.501
    assert (shown >= 100 * target - 1e-9) == (share >= target) or abs(share - target) < 1e-12


@given(epsilon=st.floats(1e-3, 800), delta=st.floats(0, 1), askings=st.integers(1, 20))
def test_the_risk_is_rounded_up_and_never_down(epsilon: float, delta: float, askings: int) -> None:
    right = right_at_most(epsilon, delta, askings=askings)
    bits = stats.binom(askings, special.expit(-epsilon))  # that are wrong, where delta has not told all
    wrong = float(bits.sf(askings / 2) + bits.pmf(askings / 2) / 2)
    exact = 1 - (1 - delta) ** askings * wrong
    assert exact - 1e-15 <= right <= min(1.0, exact + 1e-8)
    text = times_text(right)
    if text != "always":
        times, of = (int(part.replace(",", "")) for part in text.split(" of "))
        assert right <= times / of < right + 1 / of + 1e-12


def test_risks_of_the_specification() -> None:
    assert [times_text(right_at_most(epsilon)) for epsilon in (0.25, 1, 4, 6.57)] == [
        "57 of 100",
        "74 of 100",
        "99 of 100",
        "999 of 1,000",
    ]
    assert times_text(right_at_most(None)) == "always"
    # From one history to another are two steps where neighbours add or remove a person
    assert right_at_most(1, 1e-3, neighbours="add-remove") == pytest.approx(
        right_at_most(2, (1 + math.e) * 1e-3), abs=1e-15
    )


def test_the_table_fits_and_says_what_lies_do() -> None:
    curves = [
        curve(CURATOR, {100: 0.1, 1000: worth(0.19, 0.002)}, mechanism="pairs with EASE"),
        curve(TWO_SERVERS, {1000: worth(0.179, 0.01)}, mechanism="popularity (Gaussian)"),
        curve(SHUFFLED, {1000: 0.15, 10_000: 0.19}, mechanism="set (few likes) + features", device=6.57),
        LOW,
        curve(VOLUNTEERS, {1000: 0.18}, epsilon=None, mechanism="EASE"),
    ]
    console = Console(width=100, record=True, file=io.StringIO())
    show_answer(console, answer(*curves), "All cells: --details")
    lines = console.export_text().splitlines()
    table = lines[: next(n for n, line in enumerate(lines) if line.startswith("With "))]
    assert len(table) <= 15
    assert max(map(len, lines)) <= 100
    text = "\n".join(lines)
    for part in ("both: always", "999 of 1,000", "nobody could", "74 of 100", "1k to 10k", "1 % volunteers"):
        assert part in text
    assert lines[-1] == "All cells: --details"


def test_an_answer_is_read_again_as_it_was_written_and_nothing_else_is() -> None:
    made = answer(LOW, curve(SHUFFLED, {100: 0.1, 1000: 0.19}, device=6.57))
    assert Answer.model_validate_json(made.model_dump_json()) == made
    for change in ({"share": math.nan}, {"people": "many"}, {"script": "<script>"}, {"of": "worst"}):
        with pytest.raises(ValidationError):
            Answer.model_validate({**made.model_dump(), **change})
