"""Decoders of scores: k-means on a line, and numerical libraries on one thread."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from fractions import Fraction
from itertools import combinations, pairwise

import numpy as np
import pytest
import reference
import worlds
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import World
from statistical import variance_fits
from thoroughness import examples

from actors.device import Cohort
from coordinator.protocol.arrays import Floats
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.errors import InputError
from coordinator.server.decoding.line import DECODERS, decode, kmeans_on_line
from coordinator.server.statistics.scores import ScoreStatistic
from coordinator.server.statistics.scores import aggregate_scores as aggregate


def statistic_of(world: World, sensing: float, epsilon: Epsilon, devices: int, round_number: int = 0) -> ScoreStatistic:
    query = worlds.maxsense_query(items=world.items, sensing=sensing, epsilon=epsilon, round_number=round_number)
    cohort = Cohort(worlds.block_ratings(world), world.secret, 0, devices, None)
    return aggregate(query, cohort.answer(query, 0, devices))


@pytest.mark.parametrize("decoder", ["centred", "paper"])
@pytest.mark.parametrize("like", [((0.9, 0.1),), ((0.05, 0.95, 0.5),), ((0.9, 0.1), (0.7, 0.3))])
def test_planted_clusters_come_back_without_noise(decoder: str, like: tuple[tuple[float, ...], ...]) -> None:
    """The true clusters, numbered by falling like rate; the items far apart for the number of devices."""
    shares = [1 / len(like)] * len(like)
    world = worlds.world(items=60, rated=20, like=like, shares=shares)
    model = decode(statistic_of(world, 1 / 20, None, 150_000), sensing=1 / 20, clusters=len(like[0]), decoder=decoder)
    rates = np.mean(like, axis=0)
    place = np.argsort(np.argsort(-rates))
    assert model.cluster.tolist() == [place[cluster] for cluster in world.clusters]
    assert model.clusters == len(like[0])
    assert (model.score.shape, model.error.shape) == ((60,), (60,))


def test_cluster_zero_has_the_highest_mean_even_where_noise_rules() -> None:
    world = worlds.world(items=40, rated=10)
    model = decode(statistic_of(world, 0.1, Fraction(1, 10), 500), sensing=0.1, clusters=4, decoder="centred")
    means = [model.score[model.cluster == cluster].mean() for cluster in range(4)]
    assert means == sorted(means, reverse=True)


@settings(max_examples=examples(30))
@given(bits=st.lists(st.integers(0, 1), min_size=2, max_size=25), silent=st.sets(st.integers(0, 24)))
def test_scores_are_the_papers_sums_message_by_message(bits: list[int], silent: set[int]) -> None:
    """``sum H S`` and ``sum H (S - mean S)`` over the devices that answered, in exact fractions."""
    query = worlds.maxsense_query(items=6, sensing=0.5)
    silent = {k for k in silent if k < len(bits)}
    statistic = aggregate(query, worlds.release_of(query, bits, silent=sorted(silent)))
    sets = worlds.sensing_sets(query, range(len(bits)))
    heard = [k for k in range(len(bits)) if k not in silent]
    mean = Fraction(sum(bits[k] for k in heard), max(len(heard), 1))
    paper = [sum(bits[k] for k in heard if item in sets[k]) for item in range(6)]
    centred = [float(sum((bits[k] - mean for k in heard if item in sets[k]), start=Fraction(0))) for item in range(6)]
    assert DECODERS["paper"](statistic, 0.5)[0].tolist() == paper
    assert DECODERS["centred"](statistic, 0.5)[0].tolist() == pytest.approx(centred)


def test_standard_errors_are_the_documented_formulas() -> None:
    zeros = np.zeros(3, np.int64)
    statistic = ScoreStatistic(sensed=zeros, scores=zeros, devices=1000, answered=900, refused=100, ones=225)
    variance = 900 * 0.2 * 0.8 * 0.25
    assert DECODERS["paper"](statistic, 0.2)[1] == pytest.approx(variance**0.5)
    assert DECODERS["centred"](statistic, 0.2)[1] == pytest.approx((variance * 0.75) ** 0.5)
    assert [decoder(worlds.empty_statistic(3), 0.2)[1] for decoder in DECODERS.values()] == [0, 0]


def scatter(decoder: str) -> tuple[Floats, float]:
    """Deviations of scores from the mean over items in 30 runs, and the standard error that the decoder states.

    A rated item is one of fifty: its share in the answer, which the standard error leaves out, is below 1 %.
    """
    world = worlds.world(items=400, rated=8, like=((0.5,),))
    found, errors = [], []
    for round_number in range(30):
        statistic = statistic_of(world, 1 / 8, Fraction(1), 3_000, round_number)
        score, error = DECODERS[decoder](statistic, 1 / 8)
        found.append((score - score.mean()) * (400 / 399) ** 0.5)
        errors.append(error)
    return np.array(found), float(np.mean(errors))


@pytest.mark.statistical
@pytest.mark.parametrize("decoder", ["centred", "paper"])
def test_scores_scatter_by_their_standard_error(decoder: str) -> None:
    """12,000 scores of items that are all alike, around their mean; chi-square, false alarm 1e-6.

    At 12,000 the variance may stray by 6.3 %. Twins: a standard error wrong by 5 % is refused both ways, and so is
    that of the other decoder (the factor 1 - q).
    """
    found, error = scatter(decoder)
    assert variance_fits(found, error**2)
    assert not variance_fits(found, (error * 1.05) ** 2)
    assert not variance_fits(found, (error * 0.95) ** 2)
    other = scatter("paper" if decoder == "centred" else "centred")[1]
    assert not variance_fits(found, other**2)


@settings(max_examples=examples(30))
@given(data=st.data(), clusters=st.integers(2, 5))
def test_groups_far_apart_are_found_and_numbered_from_the_top(data: st.DataObject, clusters: int) -> None:
    labels = [*range(clusters), *data.draw(st.lists(st.integers(0, clusters - 1), max_size=20))]
    offsets = data.draw(st.lists(st.floats(0, 1), min_size=len(labels), max_size=len(labels)))
    scores = np.array([offset - 100.0 * label for label, offset in zip(labels, offsets, strict=True)])
    found = kmeans_on_line(scores, clusters)
    assert found.tolist() == labels
    assert found.dtype == np.int32


@given(scores=st.lists(st.sampled_from([0.0, 1.0, 5.0]), min_size=2, max_size=12), clusters=st.integers(2, 8))
@settings(max_examples=examples(30))
def test_fewer_distinct_scores_are_fewer_clusters(scores: list[float], clusters: int) -> None:
    found = kmeans_on_line(np.array(scores), clusters)
    highest_first = sorted(set(scores), reverse=True)
    if len(highest_first) <= clusters:
        assert found.tolist() == [highest_first.index(score) for score in scores]


@given(
    scores=st.lists(st.integers(-1000, 1000), min_size=3, max_size=10),
    clusters=st.integers(2, 4),
    offset=st.sampled_from([0.0, 1e9]),
)
@settings(max_examples=examples(60))
def test_no_other_clusters_have_fewer_squares(scores: list[int], clusters: int, offset: float) -> None:
    """Against every way of cutting the sorted scores; of two equally good ways either is found."""
    numbers = np.array(scores, float)
    rising, many = np.sort(numbers), min(clusters, np.unique(numbers).size)
    ways = [np.split(rising, cuts) for cuts in combinations(range(1, rising.size), many - 1)]
    least = min(sum(part.var() * part.size for part in way) for way in ways)
    found = kmeans_on_line(numbers + offset, clusters)
    own = [numbers[found == label] for label in range(found.max() + 1)]
    assert len(own) == many
    assert sum(part.var() * part.size for part in own) == pytest.approx(least, abs=1e-6)
    assert all(below.max() <= above.min() for above, below in pairwise(own))


@pytest.mark.parametrize("far", [1e3, 1e7])
def test_a_score_far_out_hides_no_cluster(far: float) -> None:
    scores = np.array([0.0, 1, 2, 10, 11, 12, 20, 21, far])
    assert kmeans_on_line(scores, 4).tolist() == [3, 3, 3, 2, 2, 2, 1, 1, 0]


def test_scores_that_squares_forget_are_refused() -> None:
    with pytest.raises(InputError, match="from 0 to 1e\\+14 lie too far apart for 4 clusters"):
        kmeans_on_line(np.array([0.0, 1, 2, 10, 11, 12, 20, 21, 1e14]), 4)


@pytest.mark.parametrize("broken", [math.nan, math.inf])
def test_scores_that_are_no_number_are_refused(broken: float) -> None:
    with pytest.raises(InputError, match="1 of 3 scores"):
        kmeans_on_line(np.array([0.0, broken, 1.0]), 2)


def test_equal_statistics_decode_equally() -> None:
    world = worlds.world(items=30, rated=10, secret=reference.derive(5, "devices"))
    statistic = statistic_of(world, 0.1, Fraction(1), 2_000)
    one, two = (decode(statistic, sensing=0.1, clusters=3, decoder="centred") for _ in range(2))
    np.testing.assert_array_equal(one.cluster, two.cluster)
    np.testing.assert_array_equal(one.score, two.score)


def test_an_unknown_decoder_is_refused_by_name() -> None:
    with pytest.raises(InputError, match=r"^decoder 'best' is unknown; choose one of centred, paper$"):
        decode(worlds.empty_statistic(5), sensing=0.5, clusters=2, decoder="best")


@pytest.mark.parametrize("clusters", [-1, 0, 1, 6])
def test_impossible_numbers_of_clusters_are_refused_by_name(clusters: int) -> None:
    with pytest.raises(InputError, match=rf"^clusters is {clusters}; .*5$"):
        decode(worlds.empty_statistic(5), sensing=0.5, clusters=clusters, decoder="paper")


def test_nobody_answered_is_one_cluster_and_no_error() -> None:
    model = decode(worlds.empty_statistic(5), sensing=0.5, clusters=2, decoder="centred")
    assert model.cluster.tolist() == [0] * 5
    assert model.score.tolist() == model.error.tolist() == [0] * 5


PROGRAM = """
import json, sys
import numpy as np
from threadpoolctl import threadpool_info
from coordinator.server.decoding.threads import k_means, one_thread

with one_thread():
    late = "sklearn" not in sys.modules
from sklearn.cluster import KMeans

fit, seen = KMeans.fit, []

def watched(self, *points, **others):
    seen.extend(pool["num_threads"] for pool in threadpool_info())
    return fit(self, *points, **others)

KMeans.fit = watched
labels = k_means(np.array([[0.0], [0.1], [5.0]]), 2, starts=1).labels_
print(json.dumps([late, len(seen), max(seen), labels.tolist()]))
"""


def test_k_means_runs_on_one_thread_whenever_its_library_was_loaded() -> None:
    said = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    late, pools, threads, labels = json.loads(said.stdout)
    assert late
    assert pools >= 2, "BLAS and OpenMP"
    assert threads == 1
    assert labels[0] == labels[1] != labels[2]
