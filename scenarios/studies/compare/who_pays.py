"""Who pays for privacy: what lists are worth to groups of people, with intervals that hold at once."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from rich.console import Console

from scenarios.show.tables import ratio, remark, short, show_table
from scenarios.studies.compare.differences import METRICS, Difference, Group, at_once, is_beside_popularity
from scenarios.studies.compare.scoring import GroupScores, ListScores

COLUMNS = (*METRICS, "to_popularity", "hit_rate_to_popularity")
_NAMES = ("trust_model", "mechanism", "features", "epsilon", "users", "public")


def who_pays(
    by: Sequence[str], rows: Sequence[Mapping[str, Any]], groups: Sequence[Group], plain: Mapping[int, ListScores]
) -> list[dict[str, Any]]:
    """Return a line for each row of the result and each group of people.

    ``rows`` names them, and ``groups`` has their measurements in all splits. Of each thing by which people are grouped
    all intervals of a column hold at once, as `scenarios.studies.compare.differences.at_once` has it.
    """
    lines = []
    for grouping in by:
        cells = [cell for row, of in zip(rows, groups, strict=True) for cell in _cells(grouping, row, of, plain)]
        for column in COLUMNS:
            there = [(line, numbers[column]) for line, numbers in cells if column in numbers]
            names = (column, f"{column}_low", f"{column}_high")
            for line, _ in cells:
                line.update(dict.fromkeys(names))
            ends = at_once([apart for _, apart in there]).tolist() if there else []
            for (line, _), three in zip(there, ends, strict=True):
                line.update(zip(names, three, strict=True))
        lines += [line for line, _ in cells]
    return lines


def _cells(
    by: str, row: Mapping[str, Any], of: Group, plain: Mapping[int, ListScores]
) -> Iterator[tuple[dict[str, Any], dict[str, Difference]]]:
    """Yield a line for each group of people whom every split evaluates, and its numbers by column."""
    for index, first in enumerate(of[0][2].groups[by]):
        splits = [scores.groups[by][index] for *_, scores in of]
        if not all(split.people for split in splits):
            continue
        numbers = {metric: _apart(splits, metric) for metric in METRICS}
        others = [_popular(key.seed, scores, plain, by, index) for key, _, scores in of]
        same = [other for other, split in zip(others, splits, strict=True) if other and other.people == split.people]
        if is_beside_popularity(of) and len(same) == len(splits):
            numbers |= dict(zip(COLUMNS[2:], (_apart(splits, metric, same) for metric in METRICS), strict=True))
        people = float(np.mean([split.people for split in splits]))
        yield {"by": by, "group": first.group, **{name: row[name] for name in _NAMES}, "people": people}, numbers


def _apart(splits: Sequence[GroupScores], metric: str, others: Sequence[GroupScores] | None = None) -> Difference:
    """Return a group's numbers in all splits, or their differences from those of others."""
    values = np.array([split.numbers[metric] for split in splits])
    if others is not None:
        values = values - np.array([other.numbers[metric] for other in others])
    return Difference(values[:, 0], values[:, 1:])


def _popular(seed: int, scores: ListScores, plain: Mapping[int, ListScores], by: str, index: int) -> GroupScores | None:
    """Return what popularity is worth to the same group, among a row's own people where these are but some."""
    if scores.popular_groups is not None:
        return scores.popular_groups[by][index]
    return plain[seed].groups[by][index] if seed in plain and plain[seed].groups else None


def best_for_groups(lines: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return sentences that say of each group which row is worth most to it beyond popularity, where one is."""
    sentences = []
    for by, group in dict.fromkeys((line["by"], line["group"]) for line in lines):
        group_lines = [line for line in lines if (line["by"], line["group"]) == (by, group)]
        private = [
            line for line in group_lines if line["epsilon"] not in {None, "inf"} and line["to_popularity"] is not None
        ]
        if not private:
            continue
        best = max(private, key=lambda line: float(line["to_popularity"]))
        gain = f"{best['to_popularity']:+.3f} [{best['to_popularity_low']:+.3f}, {best['to_popularity_high']:+.3f}]"
        sentences.append(
            f"{by}, {group}: best of the rows with an epsilon is {best['trust_model']}: {best['mechanism']} at epsilon "
            f"{_epsilon(best)} with {short(best['users'])} people, {gain} beside popularity among the same people"
        )
    return sentences


def _epsilon(line: Mapping[str, Any]) -> str:
    return "" if line["epsilon"] is None else f"{line['epsilon']}".removesuffix(".0")


def show_who_pays(console: Console, lines: Sequence[Mapping[str, Any]], name: Callable[..., str]) -> None:
    """Print NDCG of each group: a table for each thing that people are grouped by, a line for each row."""
    for by in dict.fromkeys(line["by"] for line in lines):
        axis_lines = [line for line in lines if line["by"] == by]
        groups = list(dict.fromkeys(line["group"] for line in axis_lines))
        table: dict[tuple[str, ...], dict[str, str]] = {}
        for line in axis_lines:
            public = line["public"]
            people = short(line["users"] if public is None else round(public * line["users"]))
            row = (f"{line['trust_model']}: {name(line)}", _epsilon(line), people)
            reach = (line["ndcg_high"] - line["ndcg_low"]) / 2
            table.setdefault(row, {})[line["group"]] = f"{ratio(line['ndcg']).lstrip('0')}±{f'{reach:.3f}'[1:]}"
        rows = [[*row, *(cells.get(group, "") for group in groups)] for row, cells in table.items()]
        columns = ("mechanism", "epsilon", "people", *groups)
        show_table(console, columns, rows, title=f"who pays: NDCG by {by}", words=("mechanism",), names=3)
    remark(console, "who pays: the intervals of one table hold at once")
