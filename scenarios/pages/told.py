"""What a page tells of one subject, before it is HTML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from scenarios.pages.promise import Believed, Promise
from scenarios.pages.values import Grid

Lines = Sequence[tuple[str, Markup]]
"""Words and values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What a page tells of a subject."""

    headline: Sequence[Markup]  # Sentences for who reads nothing else
    trust: Markup  # Who is trusted
    asked: Lines  # What was asked, and of whom; what was spent of which budget; everything else that the record says
    budget: Lines = ()
    rest: Lines = ()
    promises: Sequence[Promise]
    believed: Sequence[Believed] = ()  # The epsilons, and what they mean
    whole: bool = True  # Whether these epsilons are of a person's whole data
    people: Markup  # Cells of the summary: how many people, the main number, and what stands beside it
    result: Markup
    beside: Markup
    grids: Sequence[Grid] = ()  # Results
    warnings: Sequence[Markup] = ()  # What everybody must see, and what only readers of the details must
    remarks: Sequence[Markup] = ()
