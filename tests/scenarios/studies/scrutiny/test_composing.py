"""`blindrec compose` and `blindrec.composed`: practices of a year, each way round, and refusals in a line."""

import json
import math
from typing import Any

import pytest
from runs import Command
from scipy import special, stats

from blindrec import composed
from coordinator.protocol.composition import gaussian_distance
from coordinator.protocol.errors import InputError

SETS: dict[str, Any] = {"trust": "shuffled", "items": 9724, "settings": {"padded": 20, "chosen": 7}}
PRACTICES: list[tuple[dict[str, Any], float, float, float]] = [  # options, added up, composed, and how closely
    ({"periods": 12}, 12, 12, 1e-3),
    ({"periods": 52}, 52, 49.153, 1e-3),
    ({"periods": 365}, 365, 244.634, 1e-2),
    ({"epsilon": 16, "periods": 365}, 5840, 5840, 0.5),
    (SETS | {"users": 10_000}, 12, 3.68, 0.02),
    (SETS | {"users": 100_000}, 12, 3.62, 0.02),
    ({"trust": "curator"}, 12, 3.904, 2e-3),
    ({"trust": "two-servers", "periods": 365}, 365, 31.040, 2e-3),
    ({"trust": "two-servers", "rated": 20}, 12, 3.904, 2e-3),
    ({"trust": "curator", "epsilon": 0.264}, 3.168, 1, 2e-3),
]


@pytest.mark.whole
@pytest.mark.parametrize(("options", "added", "horizon", "within"), PRACTICES)
def test_a_year_of_known_practices(options: dict[str, Any], added: float, horizon: float, within: float) -> None:
    year = composed(**({"epsilon": 1} | options))
    assert year.epsilon_added == pytest.approx(added)
    assert year.epsilon_horizon == pytest.approx(horizon, abs=within)
    assert year.unit == "person-history"
    assert year.delta == 1e-6
    if year.trust_model == "shuffled":
        assert year.epsilon_local is not None
        assert year.epsilon_left == pytest.approx(12 * year.epsilon_local)
        assert year.epsilon_left == pytest.approx({10_000: 69, 100_000: 94}[options["users"]], abs=0.5)
    else:
        assert (year.epsilon_left is None) == (year.trust_model != "local")


@pytest.mark.parametrize("trust", ["local", "shuffled", "two-servers", "curator"])
def test_what_each_month_may_have_keeps_the_year(trust: str) -> None:
    """And nearly uses it up."""
    month = composed(epsilon_horizon=1, trust=trust)
    assert 0.995 <= month.epsilon_horizon <= 1
    year = composed(month.epsilon, trust=trust)
    assert year.epsilon_horizon == pytest.approx(1, abs=0.01)


def test_without_delta_epsilons_add_up_and_one_period_is_itself() -> None:
    for trust in ("local", "curator", "two-servers"):
        assert composed(0.1, periods=12, trust=trust, delta=0.0).epsilon_horizon == pytest.approx(1.2)
    for trust in ("local", "shuffled", "two-servers", "curator"):
        alone = composed(1, periods=1, trust=trust)
        assert alone.epsilon_horizon == pytest.approx(1, abs=1e-5)
        assert alone.epsilon_horizon <= 1


def test_a_guess_of_the_year_is_right_as_often_as_of_the_worst_laws() -> None:
    """Majorities of bits, and normal laws; shuffled rounds nearly are such."""
    for trust, epsilon, delta in (("local", 1.0, 1e-6), ("curator", 0.1, 0.0)):
        bits, year = stats.binom(12, special.expit(epsilon)), composed(epsilon, trust=trust, delta=delta)
        assert year.right_at_most == pytest.approx(bits.sf(6) + bits.pmf(6) / 2, abs=1e-8)
        assert year.belief_at_most == pytest.approx(special.expit(year.epsilon_horizon), abs=1e-6)
    normal = special.ndtr(gaussian_distance(1, 1e-6) * math.sqrt(12) / 2)
    for rated in (None, 20):
        assert composed(1, trust="two-servers", rated=rated).right_at_most == pytest.approx(normal, abs=1e-6)
    share = special.ndtr(gaussian_distance(1, 1e-6) / 2)
    assert composed(epsilon_horizon=1, trust="curator").right_at_most == pytest.approx(share, abs=1e-6)
    year, month = (composed(1, periods, **SETS) for periods in (12, 1))
    assert year.right_at_most == pytest.approx(
        special.ndtr(gaussian_distance(year.epsilon_horizon, 1e-6) / 2), abs=0.01
    )
    assert month.right_at_most == pytest.approx(special.ndtr(gaussian_distance(1, 1e-6) / 2), abs=0.01)


def test_the_command_prints_a_unit_beside_every_epsilon(blindrec: Command) -> None:
    ended = blindrec("compose", "--epsilon", "1", "--periods", "12", "--trust", "shuffled", "--users", "10000")
    rows = [line for line in ended.out.splitlines() if line.startswith((" one", " all"))]
    assert len(rows) == 5
    assert all("person-period" in row or "person-history" in row for row in rows)
    result = json.loads(blindrec("compose", "--trust", "two-servers", "--json", "-").out)
    keys = ("epsilon", "epsilon_added", "epsilon_horizon", "epsilon_local", "epsilon_left", "delta", "unit", "periods")
    assert [result[key] for key in keys] == [1, 12, pytest.approx(3.904, abs=1e-3), None, None, 1e-6,
                                             "person-history", 12]  # fmt: skip


@pytest.mark.parametrize(("epsilon", "right", "shown"), [("1e-299", 0.5, "1.2e-298"), ("1e200", 1, "1.2e+201")])
def test_no_epsilon_is_too_small_or_too_large(blindrec: Command, epsilon: str, right: float, shown: str) -> None:
    for trust, delta in (("local", 1e-6), ("curator", 1e-6), ("curator", 0.0)):
        assert composed(epsilon, trust=trust, delta=delta).right_at_most == pytest.approx(right, abs=2e-6)
    added = [line for line in blindrec("compose", "--epsilon", epsilon).out.splitlines() if "added up" in line]
    assert shown in added[0]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"periods": 0}, "periods is 0"),
        ({"periods": 1.5}, "periods is 1.5"),
        ({"epsilon": "inf"}, "epsilon is inf"),
        ({"epsilon": -1}, "epsilon is -1"),
        ({"epsilon": "1e400"}, "epsilon is inf"),
        ({"epsilon": "1e-400"}, "epsilon is smaller than any floating-point number"),
        ({"epsilon": 1, "epsilon_horizon": 1}, "give one, the other follows"),
        ({"trust": "nobody"}, "choose one of local, shuffled"),
        ({"delta": 2.0}, "delta is 2"),
        ({"trust": "shuffled", "delta": 0.0}, "delta is 0"),
        ({"trust": "shuffled", "delta": 0.1}, "above 1 / 10000 devices"),
        ({"trust": "shuffled", "design": "maxsense"}, "shuffling hides nobody"),
        ({"trust": "curator", "rated": 0}, "likes of a person is 0"),
        ({"rated": 5}, "rated is 5, but with trust local nothing depends on it"),
        ({"trust": "curator", "items": 50}, "items is 50, but with trust curator nothing depends on it"),
        ({"trust": "two-servers", "design": "set"}, "design is 'set', but with trust two-servers"),
        ({"settings": {"padded": 20}}, "settings is 'padded', but with trust local"),
        ({"own_questions": True}, "own_questions is True, but with trust local"),
        ({"trust": "curator", "rated": 5, "delta": 0}, "rated is 5, but in sums with delta 0"),
    ],
)
def test_what_is_no_number_or_has_no_effect_is_refused_in_a_line(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words) as error:
        composed(**options)
    assert "\n" not in str(error.value)
