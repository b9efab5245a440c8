"""Kick-out rules: how many strikes a voter survives.

A voter that votes for a disliked recommendation gets an R-strike; one that votes for another object than a liked
recommendation gets a D-strike. Source: p-REC's UpdateCreditAndWeight; the readings are those of the spec's section 2.
"""

from __future__ import annotations

from typing import NamedTuple

NO_LIMIT = 2**31 - 1


class Rule(NamedTuple):
    """A voter survives while it has at most ``radius_strikes``, ``diversity_strikes`` and ``strikes`` in all."""

    radius_strikes: int
    diversity_strikes: int
    strikes: int


def total(diversity: int, radius: int) -> Rule:
    """Return Rule B of the spec, what `p-rec` uses: ``b <= 2R`` and ``a + b <= 2 (D + R)``."""
    return Rule(2 * radius, NO_LIMIT, 2 * (diversity + radius))


def wide(diversity: int, radius: int) -> Rule:
    """Return Rule A of the spec: ``b <= 2R`` and ``a <= 2 (D + R)``."""
    return Rule(2 * radius, 2 * (diversity + radius), NO_LIMIT)


def literal(diversity: int, radius: int) -> Rule:
    """Return the paper's words taken literally: ``b <= 2R`` and ``a <= 2D``. It kicks peers out where R > D."""
    return Rule(2 * radius, 2 * diversity, NO_LIMIT)


def lean(diversity: int, radius: int) -> Rule:
    """Return the rule without doubling, ours: ``b <= R`` and ``a + b <= D + R``."""
    return Rule(radius, NO_LIMIT, diversity + radius)


def strict(diversity: int, radius: int) -> Rule:  # noqa: ARG001 (a rule like the others)
    """Return p-REC_sim's rule: the first strike kills."""
    return Rule(0, 0, 0)


def everybody(diversity: int, radius: int) -> Rule:  # noqa: ARG001 (a rule like the others)
    """Return the rule of recommenders that kick nobody out."""
    return Rule(NO_LIMIT, NO_LIMIT, NO_LIMIT)
