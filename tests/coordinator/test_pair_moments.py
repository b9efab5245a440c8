"""Moments of pairwise statistics against enumeration of tiny worlds."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations, product

import numpy as np
import pytest
from scipy.stats import poisson

from coordinator.protocol.arrays import Floats
from coordinator.protocol.errors import InputError
from coordinator.protocol.mechanisms.pairwise import AGREEMENTS
from coordinator.server.moments.blocks import BlockParameters
from coordinator.server.moments.pairs import curator_signal, nearest_root, pair_agreement, pair_signal

SIZES = np.array([2, 3])
CLUSTER = (0, 0, 1, 1, 1)


def parameters(rated: int) -> BlockParameters:
    like = np.array([[0.9, 0.3], [0.2, 0.6]])
    return BlockParameters(rated=rated, like=like, class_shares=np.array([0.25, 0.75]), cluster_sizes=SIZES)


def worlds_of_one_user(model: BlockParameters) -> Iterator[tuple[float, dict[int, int]]]:
    """Every (probability, ratings) of one user."""
    subsets = list(combinations(range(5), model.rated))
    for share, row in zip(model.class_shares.tolist(), model.like.tolist(), strict=True):
        for subset in subsets:
            for values in product((0, 1), repeat=model.rated):
                chance = share / len(subsets)
                for item, value in zip(subset, values, strict=True):
                    chance *= row[CLUSTER[item]] if value else 1 - row[CLUSTER[item]]
                yield chance, dict(zip(subset, values, strict=True))


def agreement_bit(name: str, first: int | None, second: int | None) -> bool:
    return {
        "rated-equal": first is not None and first == second,
        "equal": bool(first) == bool(second),
        "positive": bool(first) and bool(second),
    }[name]


def enumerated(model: BlockParameters, name: str, epsilon: float, *, public: bool) -> Floats:
    """P(S = 1 | pair) by clusters, every user, pair and flip counted."""
    asked, ones = np.zeros((2, 2)), np.zeros((2, 2))
    keep = 1 / (1 + math.exp(-epsilon))
    for chance, ratings in worlds_of_one_user(model):
        pairs = list(combinations(sorted(ratings) if public else range(5), 2))
        for one, other in pairs:
            bit = agreement_bit(name, ratings.get(one), ratings.get(other))
            for cell in {(CLUSTER[one], CLUSTER[other]), (CLUSTER[other], CLUSTER[one])}:
                asked[cell] += chance / len(pairs)
                ones[cell] += chance / len(pairs) * (keep if bit else 1 - keep)
    if public:  # over the devices every pair is asked about equally often: 1, 6 and 3 of 10 pairs
        assert asked.ravel().tolist() == pytest.approx([0.1, 0.6, 0.6, 0.3])
    return np.asarray(ones / asked)


@pytest.mark.parametrize("public", [False, True])
@pytest.mark.parametrize("name", AGREEMENTS)
@pytest.mark.parametrize("rated", [2, 4, 5])
def test_agreement_is_that_of_every_world(name: str, rated: int, *, public: bool) -> None:
    model = parameters(rated)
    found = pair_agreement(model, agreement=name, epsilon=1.5, rated_public=public)
    assert found == pytest.approx(enumerated(model, name, 1.5, public=public), abs=1e-12)


def test_public_items_make_two_agreements_one() -> None:
    model = parameters(3)
    public = [pair_agreement(model, agreement=name, epsilon=1, rated_public=True) for name in AGREEMENTS]
    assert public[0] == pytest.approx(public[1])
    assert not np.allclose(public[0], pair_agreement(model, agreement=AGREEMENTS[0], epsilon=1))


def test_one_rated_item_makes_no_public_pair() -> None:
    assert pair_agreement(parameters(1), agreement="equal", epsilon=1).shape == (2, 2)
    with pytest.raises(InputError, match="rated = 1"):
        pair_agreement(parameters(1), agreement="equal", epsilon=1, rated_public=True)


@pytest.mark.parametrize("decoder", ["paper", "centred"])
def test_pair_entries_have_the_cumulants_of_a_poisson_number_of_answers(decoder: str) -> None:
    """Exact distribution of (agreed, disagreed): two independent Poisson counts, summed over up to 60 each."""
    rates = np.array([[0.7, 0.4], [0.4, 0.55]])
    users, each, counts = 30, 3.0, np.arange(60)
    centre = (rates[0, 0] + 6 * rates[0, 1] + 3 * rates[1, 1]) / 10 if decoder == "centred" else 0.0
    signal = pair_signal(rates, SIZES, users=users, decoder=decoder)
    for cell in ((0, 0), (0, 1), (1, 1)):
        chance = poisson.pmf(counts, each * rates[cell])[:, None] * poisson.pmf(counts, each * (1 - rates[cell]))
        value = counts[:, None] * (1 - centre) - counts * centre
        mean = float((chance * value).sum())
        central = [float((chance * (value - mean) ** k).sum()) for k in (2, 3)]
        found = [part[cell] for part in (signal.means, signal.variances, signal.thirds)]
        assert found == pytest.approx([mean, *central], abs=1e-9)
    assert not signal.shared.any()


def test_curator_totals_have_the_moments_of_every_world() -> None:
    """Means, variances, thirds of an entry and covariances along a row, of one user and then of seven."""
    model, scale = parameters(4), 0.5
    values, chances = [], []
    for likely, ratings in worlds_of_one_user(model):
        sign = np.array([2 * ratings[item] - 1 if item in ratings else 0 for item in range(5)])
        values.append(np.outer(sign, sign))
        chances.append(likely)
    chance, entries = np.array(chances), np.array(values, dtype=np.float64)
    mean = np.einsum("c,cij->ij", chance, entries)
    spread = entries - mean
    alike = pair_agreement(model, agreement="equal", epsilon=math.inf, rated_public=True)
    found = curator_signal(alike, SIZES, users=7, rated=4, scale=scale)
    places = {0: (0, 1), 1: (2, 3, 4)}
    for (own, other), expected in np.ndenumerate(found.means):
        i, j = places[own][0], places[other][-1]
        assert expected == pytest.approx(7 * mean[i, j])
        assert found.variances[own, other] == pytest.approx(7 * (chance @ spread[:, i, j] ** 2) + 2 * scale**2)
        assert found.thirds[own, other] == pytest.approx(7 * (chance @ spread[:, i, j] ** 3))
    i, j, k = 2, 3, 4
    assert found.shared[1, 1, 1] == pytest.approx(7 * (chance @ (spread[:, i, j] * spread[:, i, k])))
    assert found.shared[1, 0, 1] == pytest.approx(7 * (chance @ (spread[:, i, 0] * spread[:, i, k])))
    assert found.shared[0, 1, 1] == pytest.approx(7 * (chance @ (spread[:, 0, j] * spread[:, 0, k])))


def test_root_of_a_covariance() -> None:
    matrix = np.array([[2.0, 1.0], [1.0, 3.0]])
    assert nearest_root(matrix) @ nearest_root(matrix) == pytest.approx(matrix)
    assert nearest_root(np.diag([4.0, -1e-18])) == pytest.approx(np.diag([2.0, 0.0]))


@pytest.mark.parametrize(
    ("rates", "users", "decoder", "says"),
    [
        (np.ones((2, 2)), 0, "paper", "users = 0"),
        (np.ones((2, 2)), 5, "best", "'best'"),
        (np.ones((3, 3)), 5, "centred", "2 clusters"),
    ],
)
def test_impossible_signals_are_refused(rates: Floats, users: int, decoder: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        pair_signal(rates, SIZES, users=users, decoder=decoder)


@pytest.mark.parametrize(("rated", "scale"), [(1, 1.0), (6, 1.0), (4, -1.0), (4, math.nan)])
def test_impossible_curators_are_refused(rated: int, scale: float) -> None:
    with pytest.raises(InputError, match="scale"):
        curator_signal(np.ones((2, 2)), SIZES, users=5, rated=rated, scale=scale)
