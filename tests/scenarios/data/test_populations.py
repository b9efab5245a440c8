"""Populations: exact sizes, one seed one world, and files with fewer, as many or more users than the file."""

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from runs import complains, of_file, planted_ratings, present, small, write_movielens

from actors.ratings import StoredRatings
from coordinator.protocol.arrays import Words
from coordinator.protocol.errors import InputError
from scenarios.config.resolve import block_of, exact_sizes, resolve
from scenarios.data.populations import Population, populate

USERS, ITEMS, EACH = 30, 16, 6
NO_SECRET: Words = np.zeros(2, np.uint64)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write_movielens(tmp_path / "ratings.csv", planted_ratings(users=USERS, items=ITEMS, each=EACH))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6).filter(any), st.integers(0, 10**6))
def test_sizes_are_whole_sum_up_and_lie_within_one_of_their_shares(weights: list[float], total: int) -> None:
    shares = np.array(weights) / sum(weights)
    sizes = exact_sizes(shares, total)
    assert sizes.sum() == total
    assert np.abs(sizes - shares * total).max() < 1 + 1e-9


def test_sizes_by_hand() -> None:
    assert exact_sizes(np.array([0.5, 0.3, 0.2]), 7).tolist() == [4, 2, 1]
    assert exact_sizes(np.array([1 / 3, 1 / 3, 1 / 3]), 100).tolist() == [34, 33, 33]
    assert exact_sizes(np.array([0.29, 0.71]), 100).tolist() == [29, 71]


def test_the_true_clusters_have_exact_sizes_in_a_random_order() -> None:
    scenario = small(items=50, like="0.9,0.5,0.1", cluster_shares="0.5,0.3,0.2")
    truth = present(populate(scenario).truth)
    assert np.bincount(truth).tolist() == block_of(scenario).cluster_sizes.tolist() == [25, 15, 10]
    assert (np.diff(truth) != 0).sum() > 15


def test_shares_are_equal_unless_given() -> None:
    assert block_of(small(like="1,0;0,1;1,1")).class_shares.tolist() == pytest.approx([1 / 3] * 3)
    assert block_of(small(like="1,0;0,1", class_shares="0.25,0.75")).class_shares.tolist() == [0.25, 0.75]
    assert block_of(small(items=41)).cluster_sizes.tolist() == [21, 20]


@pytest.mark.parametrize("wrong", [{"cluster_shares": "1,0"}, {"cluster_shares": "0.999,0.001"}])
def test_a_cluster_without_items_is_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(InputError, match=r"^cluster_shares is \(.*cluster 1 of 2.*none of 40 items"):
        populate(small(**wrong))


def stored(population: Population) -> StoredRatings:
    assert isinstance(population.ratings, StoredRatings)
    return population.ratings


def test_one_seed_is_one_world_and_another_seed_another() -> None:
    first, again, other = (np.asarray(populate(small(seed=seed)).truth).tolist() for seed in (5, 5, 6))
    assert first == again != other


def test_a_population_shows_no_data(file: Path) -> None:
    shown = repr(populate(small())) + repr(populate(of_file(file)))
    assert "array" not in shown
    assert "[" not in shown.replace("truth", "")


def test_as_many_users_are_all_of_the_file_in_its_order(file: Path) -> None:
    population = populate(of_file(file))
    assert stored(population).user.tolist() == list(range(USERS))
    assert (population.copies_max, population.person_epsilon()) == (1, Fraction(1))
    filled = population.scenario
    assert (filled.items, filled.users, filled.clusters) == (ITEMS, USERS, 2)
    assert population.truth is None
    assert population.item_labels.tolist() == [str(item + 1) for item in range(ITEMS)]


def test_fewer_users_are_different_people(file: Path) -> None:
    population = populate(of_file(file, users=20))
    people = stored(population).user
    assert len(set(people.tolist())) == people.size == 20
    assert (population.copies_max, population.person_epsilon()) == (1, Fraction(1))
    again, other = (stored(populate(of_file(file, users=20, seed=seed))).user for seed in (0, 1))
    assert people.tolist() == again.tolist() != other.tolist()


def test_more_users_are_drawn_with_replacement_and_a_person_pays_for_every_copy(file: Path) -> None:
    population = populate(of_file(file, users=1000, epsilon=Fraction(1, 3)))
    copies = np.bincount(stored(population).user, minlength=USERS)
    assert copies.sum() == stored(population).users == 1000
    assert copies.min() > 0
    assert population.copies_max == copies.max() > 1000 / USERS
    assert population.person_epsilon() == Fraction(int(copies.max()), 3)
    assert populate(of_file(file, users=1000, epsilon="inf")).person_epsilon() is None


def test_the_first_devices_stand_for_every_person_once(file: Path) -> None:
    """Advice is scored on them, so that nobody counts twice and everybody drawn counts."""
    for users in (12, 45, 1000):
        population = populate(of_file(file, users=users))
        user = stored(population).user
        first = user[: population.people]
        assert np.unique(first).size == first.size == np.unique(user).size


def test_every_copy_holds_its_persons_ratings(file: Path) -> None:
    population = populate(of_file(file, users=100))
    split = present(population.split)
    told, liked = population.ratings.rated(NO_SECRET, 0, 100), split.train.valued(split.likes)
    for device, person in enumerate(stored(population).user.tolist()):
        own, his = told.block(device, device + 1), liked.block(person, person + 1)
        assert own.items.tolist() == his.items.tolist()
        assert own.values.tolist() == his.values.tolist()


@pytest.mark.parametrize("held_out", [0, 1, 2])
def test_held_out_likes_are_not_among_the_devices_ratings(held_out: int, file: Path) -> None:
    population = populate(of_file(file, held_out=held_out))
    split = present(population.split)
    told = population.ratings.rated(NO_SECRET, 0, USERS)
    for user in range(USERS):
        rated, held = (set(rows.block(user, user + 1).items.tolist()) for rows in (told, split.holdout))
        assert not rated & held
        assert len(rated | held) == EACH
    assert (split.holdout.items.size > 0) == (held_out > 0)


def test_rated_is_the_median_of_what_is_left_unless_given(file: Path) -> None:
    assert populate(of_file(file, held_out=0)).scenario.rated == EACH
    assert populate(of_file(file, held_out=1)).scenario.rated == EACH - 1
    assert populate(of_file(file, rated=3)).scenario.rated == 3


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"rated": ITEMS + 1}, ["rated", "17", "16"]),
        ({"theta": 5.5}, ["theta", "5.5", "5"]),
        ({"clusters": ITEMS + 1}, ["clusters", "17", "16"]),
        ({"columns": ("user", "movieId", "rating")}, ["user", "userId"]),
    ],
)
def test_what_the_file_contradicts_is_refused(wrong: dict[str, object], words: list[str], file: Path) -> None:
    with complains(*words):
        resolve(populate(of_file(file, **wrong)).scenario)


def test_public_coins_deal_devices_to_groups(file: Path) -> None:
    """All of a file's users in an order that is not the file's; where users are drawn, that is so anyway."""

    def users_of(**changes: object) -> list[int]:
        users: list[int] = stored(populate(of_file(file, **changes))).user.tolist()
        return users

    plain, one, other = users_of(design="set"), users_of(design="pairs"), users_of(design="pairs", seed=1)
    assert plain == sorted(one) == sorted(other) == list(range(USERS))
    assert plain != one != other != plain
    for users in (USERS // 2, 4 * USERS):
        drawn = users_of(users=users, design="set")
        assert drawn == users_of(users=users, design="pairs") != sorted(drawn)
