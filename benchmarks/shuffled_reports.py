"""How many people it takes if each sends several reports behind a shuffler, by the law of the set mechanism.

``python -m benchmarks.shuffled_reports`` prints a table for measured.json: people for the noise at which a list is just
worth 95 % of popularity, all messages together, and what is left of a person if the shuffler lies. The reports of a
device are one plan, composed as a whole. Every further report takes fewer people and saves less than the one before: in
the end only the sample of people is noisy.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import lru_cache

from benchmarks.pages import table
from coordinator.protocol.amplification import SetDesign
from coordinator.protocol.shuffled_plan import SharedRound, shuffled_plan
from coordinator.protocol.value_channels import subset_channel

ITEMS, LIKES = 9724, 20  # Of MovieLens latest-small, and likes w that sets are padded or cut to
SHARE = 0.1  # Share of people who like the tenth item
NOISE = 0.234  # Standard error of its estimate, relative to that share, at which a list is just worth 95 %
DELTA = 1e-6
REPORTS, EPSILONS = (1, 2, 3, 6, 12, 25, 52, 104), (0.5, 1.0, 4.0)
SAVED = 0.1  # Twice the reports are not worth their messages where they save a smaller share of the people
_CLOSE = 0.005  # Numbers of people are told apart to this share of them


@lru_cache(maxsize=1 << 10)
def plan_design(reports: int, people: int, epsilon: float) -> SetDesign:
    """Return how the set mechanism is run in each of so many reports that together keep epsilon [nats]."""
    shared_round = SharedRound(people, Fraction(1, reports))
    histories = frozenset([(shared_round,) * reports])
    return shuffled_plan(histories, items=ITEMS, padded=LIKES, epsilon=Fraction(epsilon), delta=DELTA)[shared_round]


def relative_noise(reports: int, people: int, epsilon: float) -> float:
    """Return the standard error of the tenth item's share, relative to it: of the reports, and of who is asked."""
    design = plan_design(reports, people, epsilon)
    channel = subset_channel(design.local_epsilon, values=ITEMS + LIKES, padded=LIKES, subset_size=design.subset_size)
    named, other = map(float, channel.rates)
    coins = SHARE * named * (1 - named) + (1 - SHARE) * other * (1 - other)
    variance = coins / (named - other) ** 2 / reports + SHARE * (1 - SHARE)
    return math.sqrt(variance / people) / SHARE


def people_needed(reports: int, epsilon: float) -> int:
    """Return how many people have just so much noise."""
    low, high = math.log(100), math.log(100_000)
    while high - low > _CLOSE:
        middle = (low + high) / 2
        enough = relative_noise(reports, round(math.exp(middle)), epsilon) <= NOISE
        low, high = (low, middle) if enough else (middle, high)
    return round(math.exp(high))


def best_reports(epsilon: float, needed: Callable[[int, float], int] = people_needed) -> int:
    """Return the number of reports of which twice as many would save less than a tenth of the people."""
    reports = 1
    while needed(2 * reports, epsilon) < (1 - SAVED) * needed(reports, epsilon):
        reports *= 2
    return reports


def rows(reports: Sequence[int] = REPORTS, epsilons: Sequence[float] = EPSILONS) -> Iterator[list[str]]:
    """Yield a row for each number of reports: people, messages and what is left, of every epsilon."""
    for count in reports:
        cells = [str(count)]
        for epsilon in epsilons:
            people = people_needed(count, epsilon)
            left = float(count * plan_design(count, people, epsilon).local_epsilon)
            cells.append(f"{people:,}; {count * people:,}; {left:.0f}")
        yield cells


def main() -> None:
    """Print the table."""
    heads = [f"epsilon {epsilon:g}: people; messages; left if the shuffler lies" for epsilon in EPSILONS]
    print(table(["reports of a device", *heads], rows()))
    best = ", ".join(f"{best_reports(epsilon)} at epsilon {epsilon:g}" for epsilon in EPSILONS)
    print(f"\nTwice as many save less than {100 * SAVED:g} % from here on: {best}")


if __name__ == "__main__":
    main()
