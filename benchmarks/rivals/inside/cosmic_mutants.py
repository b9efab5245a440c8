"""A seeded sample of the mutants that Cosmic Ray's operators make of modules; with its own Python."""

from __future__ import annotations

import ast
import hashlib
import json
import random
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names

LEFT_OUT = re.compile(
    r"(?<!Is)(?<!IsNot)_(Is|IsNot)$|_Is_Eq$|_IsNot_NotEq$"  # tell only which equal objects Python shares
    r"|(Add|Sub|Mul|Div|FloorDiv|Mod|Pow)_(RShift|LShift|BitOr|BitAnd|BitXor)$"  # die of their types, mostly
)
"""Names of operators that say too little about tests."""
SAME_LINES = re.compile(
    r"\s*(@(compiled|inlined|borrowing|cache|functools|lru_cache|overload|override|abstractmethod)\b"
    r"|if TYPE_CHECKING|def )"
)
"""Lines whose mutants compute the same but slower, are for the type checker only, or differ in how they are called."""
DATACLASS = re.compile(r"\s*@dataclass\(")
"""Such a line can be removed, but its options are left alone: few of them change what is computed."""
Places = dict[tuple[Any, ...], list[tuple[str, int]]]
"""Operators and occurrences by the place where they change the same thing to something else."""


def hints(source: str) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Yield from where to where type hints go, which nothing evaluates: lines from 1, columns from 0."""
    for node in ast.walk(ast.parse(source)):
        for annotation in (getattr(node, "annotation", None), getattr(node, "returns", None)):
            if isinstance(annotation, ast.expr):
                yield (
                    (annotation.lineno, annotation.col_offset),
                    (annotation.end_lineno or 0, annotation.end_col_offset or 0),
                )


def places(module: str, source: str) -> Places:
    """Return all places of a module where an operator applies."""
    groups: Places = {}
    tree, lines, unread = get_ast(source), source.splitlines(), list(hints(source))
    for name in operator_names():
        operator = get_operator(name)
        if operator.arguments() or LEFT_OUT.search(name):
            continue
        spots = (spot for node in ast_nodes(tree) for spot in operator().mutation_positions(node))
        for occurrence, (start, _) in enumerate(spots):
            line, options = lines[start[0] - 1], "Decorator" not in name
            if SAME_LINES.match(line) or (DATACLASS.match(line) and options):
                continue
            if not any(first <= start < last for first, last in unread):
                groups.setdefault((module, *start, name.split("_")[0]), []).append((name, occurrence))
    return groups


def parses(source: str) -> bool:
    """Return whether a mutant is Python."""
    try:
        ast.parse(source)
    except SyntaxError:
        return False
    return True


def main(job: dict[str, Any]) -> dict[str, Any]:
    """Return how many places there are, and mutants of a sample of them, which begins like any larger one.

    Where in the sample a place stands follows from the seed and its line alone, whatever else changes in the code.
    """
    sources = {module: Path(module).read_text(encoding="utf-8") for module in job["modules"]}
    groups = {spot: ways for module, source in sources.items() for spot, ways in places(module, source).items()}

    def rank(spot: tuple[Any, ...]) -> bytes:
        module, line, *rest = spot
        text = sources[module].splitlines()[line - 1]
        return hashlib.sha256(repr((job["seed"], module, text, *rest)).encode()).digest()

    mutants: list[dict[str, Any]] = []
    for spot in sorted(groups, key=lambda spot: (rank(spot), spot))[: 2 * job["sample"]]:
        (module, line, *_), (name, occurrence) = spot, random.Random(rank(spot)).choice(groups[spot])
        source = mutate_code(sources[module], get_operator(name)(), occurrence)
        if parses(source) and len(mutants) < job["sample"]:
            mutants.append({"module": module, "line": line, "operator": name.partition("/")[2], "source": source})
    return {"places": len(groups), "mutants": mutants}


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
