"""Which numbers of people are measured: those of ``--scale``, or as many as bracket the target on each rung."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from coordinator.protocol.trust_models import LOCAL
from scenarios.studies.compare.comparison_settings import TRUST_MODELS, Comparison
from scenarios.studies.compare.row import BY_PEOPLE, Row
from scenarios.studies.compare.scoring import CompareKey, CompareMeasurement
from scenarios.studies.crossing import next_users, refined

FEWEST, MOST = 50, 10**10
"""People among whom a target is sought without ``--scale``: with fewer, hardly anybody would have a like held out."""
CHANCE = "chance"
Done = Mapping[CompareKey, CompareMeasurement]


def epsilons_of(settings: Comparison) -> list[str]:
    """Return the epsilons as keys of units have them."""
    return ["inf" if epsilon is None else str(epsilon) for epsilon in settings.epsilon]


def target_height(settings: Comparison, people: int, rows: Sequence[Row], done: Done) -> float | None:
    """Return the NDCG that the target asks for, or None as long as lists without privacy are not measured."""
    plain = [row.mechanism for row in rows if row.trust_model == "none" and row.mechanism != CHANCE]
    if settings.of == "popularity":
        plain = [name for name in plain if name == "popularity"]
    worths = [_means(settings, done, ("none", name, ""), people) for name in plain]
    if not worths or any(worth is None for worth in worths):
        return None
    every = [worth for worth in worths if worth]
    if not every:
        return None
    return settings.worth * (every[0][0] if settings.of == "popularity" else max(map(max, every)))


def _means(settings: Comparison, done: Done, row: tuple[str, str, str], users: int) -> list[float] | None:
    """Return a row's NDCG without public features, and with them if it has these, and none where it cannot be.

    None until all splits are done.
    """
    seeds = range(settings.seed, settings.seed + settings.seeds)
    units = [done.get(CompareKey(*row, users, "", seed)) for seed in seeds]
    if not all(units):
        return None
    scores = [[scores.ndcg for scores in unit.scores] for unit in units if unit]
    if not all(scores):
        return []
    return np.mean(scores, axis=0).tolist()  # type: ignore[no-any-return]


class RungScales:
    """The numbers of people that a rung is measured with at an epsilon."""

    def __init__(
        self, settings: Comparison, people: int, rows: Sequence[Row], epsilon: str, height: float, done: Done
    ) -> None:
        self.settings, self.people, self.rows, self.epsilon = settings, people, rows, epsilon
        self.height, self._done = height, done

    def means(self, row: Row, users: int) -> list[float] | None:
        """Return a row's mean NDCG in its variants; None until it is measured."""
        return _means(self.settings, self._done, (row.trust_model, row.mechanism, self.epsilon), users)

    def leader(self, rows: Sequence[Row], users: int) -> tuple[float, Row] | None:
        """Return the best of some rows with so many people; None until all that can be are measured."""
        worths = [(self.means(row, users), row) for row in rows if row.reaches(users, self.settings)]
        if not worths or any(worth is None for worth, _ in worths):
            return None
        return max(((max(worth), row) for worth, row in worths if worth), key=lambda pair: pair[0], default=None)

    def units(self) -> Iterator[tuple[Row, int, bool]]:
        """Yield rows, numbers of people, and whether sums are drawn from a law."""
        users = sorted(self.settings.grid(self.people) if self.settings.scale else self.decades())
        yield from ((row, number, False) for number in users for row in self.rows)
        searches = [self.located, self.of_each_row] if self.settings.scale else [self.located]
        for search in searches:
            yield from ((row, n, row.reaches(self.settings.devices + 1, self.settings)) for row, n in search(users))

    def decades(self) -> list[int]:
        """Return numbers of people in steps of ten from those there are, until some reach the target and some not."""
        visited: dict[int, float] = {}
        users: int | None = self.settings.users_at(self.people, 1.0)
        while users is not None and (best := self.leader(self.rows, users)) is not None:
            visited[users] = best[0]
            users = self._beyond(visited)
        return [*visited, *([] if users is None else [users])]

    def _beyond(self, visited: Mapping[int, float]) -> int | None:
        reaching = [worth >= self.height for worth in visited.values()]
        if any(reaching) and not all(reaching):
            return None
        power = len(visited) if not any(reaching) else -len(visited)
        users = self.settings.users_at(self.people, 10.0**power)
        can = any(row.reaches(users, self.settings) for row in self.rows)
        return users if FEWEST <= users <= MOST and can else None

    def located(self, users: Sequence[int]) -> Iterator[tuple[Row, int]]:
        """Yield rows and numbers of people that bracket the target of the rung's best rows within a factor of two."""
        best = {number: leader for number in users if (leader := self.leader(self.rows, number)) is not None}
        if len(best) < len(users):
            return
        while (
            number := next_users({at: worth for at, (worth, _) in best.items()}, self.height, self.people)
        ) is not None:
            below = max((at for at in best if at < number), default=None)
            above = min((at for at in best if at > number), default=None)
            beside = dict.fromkeys(best[at][1].mechanism for at in (below, above) if at is not None)
            rows = [row for row in self.rows if row.mechanism in beside and row.reaches(number, self.settings)]
            yield from ((row, number) for row in rows)
            if not rows or (leader := self.leader(rows, number)) is None:
                return
            best[number] = leader

    def of_each_row(self, users: Sequence[int]) -> Iterator[tuple[Row, int]]:
        """Yield the same of every row for itself; for a share of popularity some numbers beyond the grid, too.

        Those are of rows that trust nobody, whose numbers are the largest; sums are drawn from laws in a tenth of a
        second.
        """
        beyond = self.settings.of == "popularity"
        for row in self.rows:
            numbers = [number for number in users if row.reaches(number, self.settings)]
            means = {number: self.means(row, number) for number in numbers}
            if not numbers or any(worth is None for worth in means.values()):
                continue
            for variant in range(len(means[numbers[0]] or ())):
                worth = self._worth(row, variant)
                grid = [*numbers, *(self._beside(row, numbers, worth) if beyond and row.trust_model == LOCAL else ())]
                yield from ((row, number) for number in grid[len(numbers) :])
                if worth[grid[-1]] is not None:
                    yield from ((row, number) for number in refined(grid, worth, self.height, self.people))

    def _beside(self, row: Row, numbers: Sequence[int], worth: Mapping[int, float | None]) -> Iterator[int]:
        """Yield numbers of people in steps of ten beyond a grid that lies on one side of the target, up to the last."""
        reaches = [(worth[number] or 0) >= self.height for number in numbers]
        if any(reaches) and not all(reaches):
            return
        users = min(numbers) if all(reaches) else max(numbers)
        while True:
            users = round(users / 10) if all(reaches) else 10 * users
            users += users % self.people == 0  # as beside other numbers: grids have the multiples
            if not (FEWEST <= users <= MOST and row.reaches(users, self.settings)):
                return
            yield users
            if worth[users] is None or ((worth[users] or 0) >= self.height) != all(reaches):
                return

    def _worth(self, row: Row, variant: int) -> Mapping[int, float | None]:
        measured: dict[int, float | None] = defaultdict(lambda: None)
        for key in self._done:
            if key[:3] == (row.trust_model, row.mechanism, self.epsilon) and (means := self.means(row, key.users)):
                measured[key.users] = means[variant]
        return measured


def further_units(settings: Comparison, people: int, rows: Sequence[Row], done: Done) -> dict[CompareKey, bool]:
    """Return the units that follow from those that are done, and whether their sums are drawn from a law.

    Without ``--scale`` they are steps of ten until the target is bracketed; then those that locate the number of
    people for it, on each rung and, with ``--scale``, of each row.
    """
    height, further = target_height(settings, people, rows, done), dict[CompareKey, bool]()
    if height is None:
        return further
    seeds = range(settings.seed, settings.seed + settings.seeds)
    asking = [row for row in rows if row.asks == BY_PEOPLE and row.trust_model in TRUST_MODELS]
    for model in dict.fromkeys(row.trust_model for row in asking):
        of_model = [row for row in asking if row.trust_model == model]
        for epsilon in (name for name in epsilons_of(settings) if settings.scale or name != "inf"):
            rung = RungScales(settings, people, of_model, epsilon, height, done)
            for row, users, by_law in rung.units():
                if row.reaches(users, settings):
                    keys = (CompareKey(model, row.mechanism, epsilon, users, "", seed) for seed in seeds)
                    further.update((key, by_law) for key in keys if key not in further)
    return further
