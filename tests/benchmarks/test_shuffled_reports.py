"""People that several reports of each take behind a shuffler, beside the prototype's."""

import pytest

from benchmarks.shuffled_reports import NOISE, best_reports, relative_noise


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("reports", "epsilon", "people", "tolerance"),
    [
        (12, 1.0, 2016, 0.01),
        (52, 1.0, 1575, 0.01),
        (12, 4.0, 935, 0.015),
        # Of a single report the prototype's are fewer, as no size of reports has them with our certified epsilon
        (1, 1.0, 5650, 0.03),
        (1, 4.0, 4193, 0.01),
    ],
)
def test_people_for_the_noise_of_95_per_cent_are_the_prototypes(
    reports: int, epsilon: float, people: int, tolerance: float
) -> None:
    """Fewer than so many have more noise, by the tolerance, and more than so many less."""
    fewer, more = (round(people * (1 + way * tolerance)) for way in (-1, 1))
    assert relative_noise(reports, fewer, epsilon) > NOISE > relative_noise(reports, more, epsilon)


def test_reports_are_doubled_as_long_as_that_saves_a_tenth() -> None:
    assert best_reports(1.0, lambda reports, _: round(1000 * (1 + 9 / reports))) == 64
    assert best_reports(1.0, lambda *_: 1000) == 1
