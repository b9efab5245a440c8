"""A file by its own periods: who is there when, what sets hold, whose lists are scored, and what is refused."""

from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coordinator.protocol.errors import InputError
from scenarios.studies.years.file_periods import FilePeriods, file_periods
from scenarios.studies.years.years_settings import Years

Rated = tuple[int, int, float, str]  # Person, item, rating, date


def write(path: Path, ratings: list[Rated]) -> Path:
    lines = ["userId,movieId,rating,timestamp"]
    for person, item, rating, day in ratings:
        seconds = int(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp())
        lines.append(f"{person},{item},{rating},{seconds}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


RATINGS: list[Rated] = [
    (1, 1, 5, "2019-12-30"),
    (1, 2, 5, "2020-01-03"),
    (1, 3, 1, "2020-02-01"),
    (1, 4, 5, "2020-03-31"),
    (2, 1, 4, "2020-02-10"),
    (2, 2, 5, "2020-02-11"),
    (2, 4, 4, "2020-03-01"),
    (3, 4, 5, "2020-03-02"),
    (3, 1, 2, "2020-03-03"),
]


def read(path: Path, **values: Any) -> FilePeriods:
    given = {"ratings": path, "like_from": 4, "likes": 1, "period": "month", **values}
    return file_periods(Years(**given), given.get("draws", 1))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write(tmp_path / "ratings.csv", RATINGS)


def test_months_count_from_1_and_who_came_before_is_there_from_the_first(file: Path) -> None:
    three = read(file, periods=3)
    assert three.labels == ("2020-01", "2020-02", "2020-03")
    assert three.arrivals.tolist() == [1, 2, 3]
    np.testing.assert_allclose(three.present, np.array([[1, 1, 1], [0, 1, 1], [0, 0, 1]]) / 3)
    assert three.new_items(2)[0].tolist() == [False, False, True, False]
    assert read(file).labels == ("2019-12", "2020-01", "2020-02", "2020-03")
    assert read(file, period="quarter").labels == ("2019 Q4", "2020 Q1")
    assert read(file, period="year", periods=2).labels == ("2019", "2020")
    assert read(file, period="60d").periods == 2


def test_sets_hold_random_likes_so_far(file: Path) -> None:
    three = read(file, periods=3)
    every = ((1, Fraction(1)), (2, Fraction(1)))
    np.testing.assert_allclose(three.shares(1, every[:1])[0], [1 / 2, 1 / 2, 0, 0])
    np.testing.assert_allclose(three.shares(2, every)[0], [1 / 2, 1 / 2, 0, 0])
    # Of the second ones half answer, so that the first count twice
    half = ((1, Fraction(1)), (2, Fraction(1, 2)))
    np.testing.assert_allclose(three.shares(3, half)[0], [1 / 3, 1 / 3, 0, 1 / 3])


def test_lists_leave_out_what_was_rated_before_and_are_held_against_the_next_period(file: Path) -> None:
    three = read(file, periods=3)
    assert [three.evaluated(period)[0] for period in (1, 2)] == [1, 3]
    # After January only the second one likes something: items 1 and 2, in February, of which it knows neither
    assert three.ndcg(np.array([[4.0, 3.0, 2.0, 1.0]]), 1)[0, 0] == pytest.approx(1)
    worst = (1 / np.log2(4) + 1 / np.log2(5)) / (1 + 1 / np.log2(3))
    assert three.ndcg(np.array([[1.0, 2.0, 3.0, 4.0]]), 1)[0, 0] == pytest.approx(worst)
    # After February all like item 4. The first has rated all others, so that it is at the top of its list; the second
    # has item 3 left before it, the third all three
    scores = np.array([[4.0, 3.0, 2.0, 1.0]])
    expected = (1 + 1 / np.log2(3) + 1 / np.log2(5)) / 3
    assert three.ndcg(scores, 2)[0, 0] == pytest.approx(expected)


def test_counters_count_the_first_likes_of_everybody_once(file: Path) -> None:
    """Person 1 likes items 1, 2 and 4, person 2 items 1, 2 and 4, person 3 item 4, in this order; two of each count."""
    three = read(file, periods=3, likes=2)
    shares = [three.new_likes(period)[0] * 3 for period in (1, 2, 3)]
    np.testing.assert_allclose(shares, [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 0, 1]])


def test_popularity_is_of_all_likes_so_far_or_of_late_ones(file: Path) -> None:
    three = read(file, periods=3)
    assert three.popularity(0, None, 0).shape == (2, 1, 21)
    np.testing.assert_allclose(three.popularity(0, None, 0), three.discounted(1.0))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"periods": 5}, "the file has 4 by month; lower --periods"),
        ({"period": "year", "periods": 3}, "the file has 2 by year"),
        ({"period": "10d"}, "nobody likes anything in period"),
        ({"like_from": 5.5}, "nobody likes anything in period 2020-01"),
    ],
)
def test_periods_that_the_file_does_not_have_are_refused(file: Path, values: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        read(file, **values)


def test_a_file_without_times_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rated.csv"
    path.write_text("user,item,rating\n1,1,5\n1,2,3\n", encoding="utf-8")
    with pytest.raises(InputError, match="no column of times"):
        read(path, columns=("user", "item", "rating"))
