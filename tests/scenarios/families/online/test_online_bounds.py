"""Bounds on loss and epsilon: the spec's constants and tables, special cases, and that none contradicts another."""

import math
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from runs import present

from coordinator.protocol.errors import InputError
from coordinator.server.online.recommenders import bounded_names, named_recommenders
from scenarios.families.online.online_bounds import (
    PAPER_SHARE,
    conjecture,
    epsilon_needed,
    epsilon_proved,
    halving_constant,
    loss_bound,
    loss_lower_bound,
    own_lower_bound,
    sim_constants,
    slow_halving_loss,
    strikes_to_die,
    theorem_7,
    theorem_15,
    theorem_p,
    theorem_p_sim,
)


@pytest.mark.parametrize(
    ("rounds", "expected"), [(100, "1.10417"), (1000, "1.17916"), (10**4, "1.22558"), (10**6, "1.27997")]
)
def test_the_sharp_constant(rounds: int, expected: str) -> None:
    assert f"{halving_constant(rounds):.5f}" == expected


def test_the_sharp_constant_tends_to_that_of_halving() -> None:
    found = [halving_constant(10**power) for power in (2, 10, 100, 300)]
    assert found == sorted(found)
    assert 0.99 / math.log(2) < found[-1] < 1 / math.log(2)
    assert halving_constant(10**300, sharp=True) < 1 / math.log(2)


def test_the_table_of_section_8() -> None:
    assert f"{loss_bound('p-rec', 1000, 2, 256, 4, 5, 5):.1f}" == "203.5"
    assert f"{loss_bound('p-rec-lean', 1000, 2, 256, 4, 5, 5):.1f}" == "120.3"
    assert f"{loss_bound('p-rec-sim', 1000, 2, 256, 4):.4f}" == "5.4040"


def test_bounds_by_hand() -> None:
    """N = e P is no whole number, so N = P: only the radius and the hidden coin are left."""
    assert loss_bound("p-rec", 100, 3, 7, 7, 2, 4) == pytest.approx(6 * 4 + 2 / 3)
    assert loss_bound("p-rec-sharp", 100, 2, 7, 7, 2, 4) == pytest.approx(4 * 4 + 1 / 2 + 1)
    assert loss_bound("plurality", 100, 3, 7, 7, 2, 4) == pytest.approx(3 * 4)
    assert loss_bound("random", 100, 4, 7, 7) == 75
    assert loss_bound("p-rec-sim", 100, 3, 8, 4) == pytest.approx(math.log(2) / math.log(6 / 5) + 2 / 3)


def test_where_no_loss_is_proved() -> None:
    for name in ("p-rec-literal", "multiplicative-weights", "dsybil", "naive"):
        assert loss_bound(name, 100, 2, 20, 4, 1, 1) is None
    assert loss_bound("p-rec-sim", 100, 2, 20, 4, 1, 0) is None


def test_all_readings_are_p_rec_sim_without_diversity_and_radius() -> None:
    found = {loss_bound(name, 1000, 2, 64, 4) for name in bounded_names() if name != "p-rec-sharp"}
    assert len(found) == 1


def test_theorem_6() -> None:
    assert loss_lower_bound(1000, 2, 64, 1, 32) == 19
    assert loss_lower_bound(1000, 4, 7, 2, 0) == 0.5  # floor(log2 3.5) = 1
    assert loss_lower_bound(4, 2, 64, 1, 3) == 2  # rounds for one halving only
    assert loss_lower_bound(2, 2, 64, 1, 3) == 1


def test_slow_halving() -> None:
    assert slow_halving_loss("p-rec", 256, 4, 99, 5) == 66
    assert slow_halving_loss("p-rec-lean", 256, 4, 99, 5) == 36
    assert strikes_to_die("p-rec-sim", 3, 3) == 1


@given(
    name=st.sampled_from([*bounded_names(), "random", "plurality"]),
    peers=st.integers(1, 50),
    more=st.integers(0, 5000),
    radius=st.integers(0, 40),
    rounds=st.sampled_from([100, 10**4]),
)
def test_no_upper_bound_is_below_the_lower_one(name: str, peers: int, more: int, radius: int, rounds: int) -> None:
    radius = 0 if name == "p-rec-sim" else radius
    upper = present(loss_bound(name, rounds, 2, peers + more, peers, 3 if radius else 0, radius))
    assert upper >= loss_lower_bound(rounds, 2, peers + more, peers, radius)


@pytest.mark.parametrize(
    ("numbers", "match"),
    [
        ((1, 2, 4, 2, 0, 0), "rounds is 1"),
        ((9, 1, 4, 2, 0, 0), "objects is 1"),
        ((9, 2, 4, 0, 0, 0), "peers is 0"),
        ((9, 2, 4, 5, 0, 0), "voters is 4, fewer than peers 5"),
        ((9, 2, 4, 2, -1, 0), "diversity is -1"),
    ],
)
def test_numbers_that_cannot_be(numbers: tuple[int, int, int, int, int, int], match: str) -> None:
    for name in named_recommenders():
        with pytest.raises(InputError, match=match):
            loss_bound(name, *numbers)


SMALL = st.integers(0, 40)


@given(d=SMALL, r=SMALL, rounds=st.integers(2, 10**9), peers=st.integers(1, 99))
def test_theorem_p_for_two_objects(d: int, r: int, rounds: int, peers: int) -> None:
    unit = 4 * math.log(rounds) / peers
    for name in ("p-rec", "p-rec-wide"):
        assert theorem_p(name, rounds, 2, peers, d, r) == pytest.approx(unit * (6 * (d + r) + 4 * r + 4))
    lean = theorem_p("p-rec-lean", rounds, 2, peers, d, r)
    assert lean == pytest.approx(unit * (4 * (d + r) + 2 * r + 4))
    assert theorem_p("p-rec-sharp", rounds, 2, peers, d, r) == pytest.approx(lean / 2)


@given(d=SMALL, r=SMALL, m=st.integers(3, 9), peers=st.integers(1, 99))
def test_theorem_p_for_more_objects(d: int, r: int, m: int, peers: int) -> None:
    unit, both = 2 * m * math.log(1000) / peers, d + r
    ruled = (2 * m - 1) * (3 * r + 1) + 8 * both + 2 * r + 4
    assert theorem_p("p-rec", 1000, m, peers, d, r) == pytest.approx(unit * ruled)
    lean = (2 * m - 1) * (2 * r + 1) + 2 * (2 * both + 1) + (both + 1) + (r + 1)
    assert theorem_p("p-rec-lean", 1000, m, peers, d, r) == pytest.approx(unit * lean)
    wide = (2 * m - 1) * (3 * r + 1) + 2 * (3 * both + 1) + (2 * both + 1) + 2 * (2 * r + 1)
    assert theorem_p("p-rec-wide", 1000, m, peers, d, r) == pytest.approx(unit * wide)


def test_knowing_the_voters_sharpens_it() -> None:
    """P = 40, N = 640, T = 10^6, D = R = 8, and three objects."""
    for name, plain, refined in (("p-rec", 528, 511.5), ("p-rec-lean", 336, 327.5)):
        unit = math.log(10**6) / 40
        assert theorem_p(name, 10**6, 2, 40, 8, 8) == pytest.approx(plain * unit)
        assert epsilon_proved(name, 10**6, 2, 640, 40, 8, 8) == pytest.approx(refined * unit)
    unit = 6 * math.log(1000) / 10
    refined = theorem_p("p-rec", 1000, 3, 10, 1, 1, voters=40)
    assert refined == pytest.approx(unit * (5 * (3 * 0.75 + 1) + 2 * (5 * 0.75 + 2) + 5 + 3))


@pytest.mark.parametrize(
    ("rounds", "expected"),
    [
        (100, ("1.02379", "0.76862", "1.05837", "4.2335")),
        (10**4, ("1.13910", "0.87732", "1.19462", "4.7785")),
        (10**6, ("1.16908", "0.91097", "1.24600", "4.9840")),
    ],
)
def test_the_table_of_theorem_p_sim(rounds: int, expected: tuple[str, str, str, str]) -> None:
    found = sim_constants(rounds)
    assert tuple(f"{found[name]:.5f}" for name in ("K_a", "K_b", "K_+")) == expected[:3]
    assert f"{found['C_T']:.4f}" == expected[3]


def test_limits_of_theorem_p_sim() -> None:
    found = sim_constants(10**300)
    assert found["K_+"] == pytest.approx(45 / 32, abs=0.01)
    assert found["K_-"] == pytest.approx(5 / 4, abs=0.01)
    assert 5.59 < found["C_T"] < 5.625
    assert 3.72 < sim_constants(10**300, sharp=True)["C_T"] < 3.75


def test_the_least_is_given_where_d_and_r_are_0() -> None:
    for name in bounded_names():
        sharp = name == "p-rec-sharp"
        assert epsilon_proved(name, 100, 2, 800, 20) == theorem_p_sim(100, 20, sharp=sharp)
        assert theorem_p_sim(100, 20, sharp=sharp) < theorem_p(name, 100, 2, 20)
        if not sharp:
            assert epsilon_proved(name, 100, 3, 800, 20) == theorem_p("p-rec", 100, 3, 20, voters=800)


def test_where_no_epsilon_is_proved() -> None:
    for name in ("plurality", "multiplicative-weights", "dsybil", "p-rec-literal"):
        assert epsilon_proved(name, 100, 2, 20, 4, 1, 1) is None
    assert epsilon_proved("p-rec-sim", 100, 2, 20, 4, 1, 0) is None
    assert epsilon_proved("random", 100, 2, 20, 4) == 0
    assert epsilon_proved("naive", 100, 2, 20, 4, epsilon=0.5) == 0.5


def divergence(p: float, q: float) -> float:
    return p * math.log(p / q) + (1 - p) * math.log((1 - p) / (1 - q))


def test_theorem_7() -> None:
    assert theorem_7(1000, 2, 20, 10, 5) == pytest.approx(math.log(100) / 10)
    assert theorem_7(1000, 2, 20, 10, 600) == 0


def test_what_is_needed_is_the_larger_of_both_theorems() -> None:
    """At T = 1,000 and a loss of 1 Theorem 7's is larger; with D + R = 250 and a loss of 14 Theorem 15's."""
    assert (
        epsilon_needed(1000, 2, 20, 10, 3, 4, 1) == theorem_7(1000, 2, 20, 10, 1) > theorem_15(1000, 2, 20, 10, 3, 4, 1)
    )
    wide = (1000, 2, 20, 1, 250, 0)
    assert epsilon_needed(*wide, 14.49) == max(theorem_7(*wide[:4], 14.49), theorem_15(*wide, 14.49))
    assert epsilon_needed(10**6, 2, 20, 1, 2000, 0, 10**6 / 69) == pytest.approx(0.0061 * 2000)
    assert epsilon_needed(1000, 2, 19, 10, 0, 0, 1) is None
    assert epsilon_needed(1000, 2, 20, 10, 0, 0, None) is None


def test_the_papers_thresholds() -> None:
    assert pytest.approx(3 / 32 * divergence(3 / 4, 1 / 2) / 2, abs=5e-5) == PAPER_SHARE
    assert theorem_15(1000, 2, 20, 10, 3, 4, 14) == pytest.approx(0.0061 * 7 / 10)
    assert theorem_15(1000, 2, 20, 10, 3, 4, 15) == 0
    assert theorem_15(20, 2, 20, 10, 3, 4, 0.1) == pytest.approx(0.0061 * 5 / 10)  # D + R above T/4: as for T/4
    assert theorem_15(3, 2, 20, 10, 3, 4, 0.01) == 0
    assert theorem_15(1000, 2, 20, 10, 0, 0, 14) == 0


def test_the_specs_example_of_the_conjecture() -> None:
    """T = 10^9, D = 32, R = 8, P = 64 with the lean rule: 0.33 against 233; the spec's N is taken to be 4P."""
    loss = present(loss_bound("p-rec-lean", 10**9, 2, 256, 64, 32, 8))
    assert f"{conjecture(10**9, 2, 256, 64, 32, 8, loss):.2f}" == "0.33"


def test_the_conjecture_is_vacuous_for_few_rounds_and_counts_a_small_loss_as_more() -> None:
    assert conjecture(1000, 2, 20, 10, 3, 4, 30) == 0
    assert conjecture(10**6, 2, 20, 10, 0, 0, 5) == 0
    floor = 0.03 * 7 * math.log(10**6)
    assert conjecture(10**6, 2, 20, 10, 3, 4, floor / 2) == conjecture(10**6, 2, 20, 10, 3, 4, floor)


def test_p_recs_own() -> None:
    assert own_lower_bound(8, 2, 6, 3, 2, 1) == pytest.approx(3 * math.log(15) / 6)
    assert own_lower_bound(1000, 3, 20, 10, 2, 1) == pytest.approx(3 * math.log(2998) / 20)
    assert own_lower_bound(8, 2, 6, 3, 8, 1) == own_lower_bound(8, 2, 6, 3, 8, 0)


@given(
    name=st.sampled_from(["p-rec", "p-rec-lean", "p-rec-sharp", "p-rec-wide"]),
    rounds=st.sampled_from([200, 10**4, 10**8]),
    peers=st.integers(1, 60),
    ratio=st.integers(2, 50),
    d=st.integers(0, 20),
    r=st.integers(0, 20),
)
def test_no_lower_bound_is_above_the_proved_epsilon(
    name: str, rounds: int, peers: int, ratio: int, d: int, r: int
) -> None:
    size = (rounds, 2, ratio * peers, peers, d, r)
    proved, loss = present(epsilon_proved(name, *size)), present(loss_bound(name, *size))
    assert own_lower_bound(*size) <= proved
    assert max(theorem_15(*size, loss), conjecture(*size, loss)) <= proved
    assert theorem_7(*size[:4], loss) <= proved


def lower_bounds(rounds: int, voters: int, peers: int, diversity: int, radius: int, loss: float) -> dict[str, float]:
    """Return every lower bound of a promise to these clients and voters, for two objects; 0 where there is none."""
    size, both = (rounds, 2, voters, peers), (diversity, radius)
    return {
        "loss_lower_bound": loss_lower_bound(*size, radius),
        "slow_halving_loss": slow_halving_loss("p-rec", voters, peers, *both),
        "theorem_7": theorem_7(*size, loss),
        "theorem_15": theorem_15(*size, *both, loss),
        "epsilon_needed": epsilon_needed(*size, *both, loss) or 0.0,
        "conjecture": conjecture(*size, *both, loss),
        "own_lower_bound": own_lower_bound(*size, *both),
    }


def upper_bounds(rounds: int, voters: int, peers: int, diversity: int, radius: int) -> dict[str, float]:
    """Return what is proved of every recommender for two objects."""
    size = (rounds, 2, voters, peers, diversity, radius)
    of = {name: (loss_bound(name, *size), epsilon_proved(name, *size, epsilon=1.0)) for name in named_recommenders()}
    return {f"{name} {row}": value for name, two in of.items() for row, value in enumerate(two) if value is not None}


ROUNDS = [2, 3, 20, 100, 1000, 10**4, 10**9]


@given(
    rounds=st.tuples(st.sampled_from(ROUNDS), st.sampled_from(ROUNDS)).map(sorted),
    peers=st.tuples(st.integers(1, 20), st.integers(1, 20)).map(sorted),
    more=st.tuples(st.integers(0, 300), st.integers(0, 300)).map(sorted),
    diversity=st.tuples(st.integers(0, 3000), st.integers(0, 3000)).map(sorted),
    radius=st.tuples(st.integers(0, 300), st.integers(0, 300)).map(sorted),
    loss=st.tuples(st.floats(1e-3, 200), st.floats(1e-3, 200)).map(sorted),
)
@example([1000, 1000], [4, 4], [0, 0], [100, 150], [120, 120], [5.0, 5.0])
@example([10**4, 10**4], [4, 4], [0, 0], [2500, 2600], [0, 0], [30.0, 30.0])
@example([10**4, 10**4], [4, 4], [0, 0], [300, 2600], [0, 0], [30.0, 30.0])
def test_a_wider_promise_needs_no_less(
    rounds: list[int],
    peers: list[int],
    more: list[int],
    diversity: list[int],
    radius: list[int],
    loss: list[float],
) -> None:
    """More rounds, voters, diversity or radius, fewer peers and less loss: no bound falls."""
    voters = [2 * peers[1] + extra for extra in more]
    narrow = (rounds[0], voters[0], peers[1], diversity[0], radius[0])
    wide = (rounds[1], voters[1], peers[0], diversity[1], radius[1])
    least, most = lower_bounds(*narrow, loss[1]), lower_bounds(*wide, loss[0])
    proved, of_wide = upper_bounds(*narrow), upper_bounds(*wide)
    for name, value in least.items():
        assert value <= most[name] * (1 + 1e-9), name
    for name, value in proved.items():
        assert name not in of_wide or value <= of_wide[name] * (1 + 1e-9), name


REFUSED: dict[str, Callable[[], object]] = {
    "random kicks nobody out": lambda: slow_halving_loss("random", 256, 4),
    "p-rec-sharp weighs two objects": lambda: loss_bound("p-rec-sharp", 100, 3, 8, 4),
    "rounds is 4 and objects 5: Theorem P needs T >= m": lambda: epsilon_proved("p-rec", 4, 5, 20, 4, 1, 1),
    "Theorem P bounds": lambda: theorem_p("dsybil", 100, 2, 4),
    "fewer than peers": lambda: epsilon_proved("p-rec", 100, 2, 3, 4, 1, 1),
    "voters is 19 and peers 10": lambda: theorem_7(1000, 2, 19, 10, 5),
    "loss is 0": lambda: theorem_15(1000, 2, 20, 10, 1, 1, 0),
}


@pytest.mark.parametrize("words", REFUSED)
def test_bounds_that_nothing_proves_are_refused(words: str) -> None:
    with pytest.raises(InputError, match=words):
        REFUSED[words]()
