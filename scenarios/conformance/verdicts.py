"""What a check of a mechanism found: held, failed with a counter-example, or not checked with the reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

HELD, FAILED, UNCHECKED = "held", "failed", "not checked"


class Failed(Exception):  # noqa: N818 (a verdict, which a check raises as soon as it knows)
    """A check found a counter-example; its text is one line."""


class Unchecked(Exception):  # noqa: N818 (a verdict)
    """A check does not apply, or cannot be made; its text is the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One check of one mechanism.

    Attributes
    ----------
    mechanism : str
        Its name, with its settings where they are not the default.
    check, meaning : str
        The check's name, and what it makes sure of.
    verdict : {"held", "failed", "not checked"}
        What came of it.
    told : str
        What was found: figures, the counter-example, or why nothing was checked; one line.
    """

    mechanism: str
    check: str
    meaning: str
    verdict: str
    told: str

    def as_json(self) -> dict[str, str]:
        """Return the row by the names of its columns."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class Conformance:
    """All that was checked of one mechanism.

    Attributes
    ----------
    rows : tuple of Row
        One a check and a setting, in the order of the checks.
    """

    rows: tuple[Row, ...]

    @property
    def held(self) -> bool:
        """Whether nothing failed."""
        return not self.failures

    @property
    def failures(self) -> list[Row]:
        """The rows that failed."""
        return [row for row in self.rows if row.verdict == FAILED]

    def frame(self) -> pd.DataFrame:
        """Return the rows as a table of pandas."""
        import pandas as pd  # noqa: PLC0415 (loaded by whoever wants a table)

        return pd.DataFrame([row.as_json() for row in self.rows])

    def as_json(self) -> dict[str, Any]:
        """Return what `blindrec check --json` tells."""
        return {"held": self.held, "rows": [row.as_json() for row in self.rows]}

    def __repr__(self) -> str:
        names = ", ".join(dict.fromkeys(row.mechanism for row in self.rows))
        counts = {kind: sum(row.verdict == kind for row in self.rows) for kind in (HELD, FAILED, UNCHECKED)}
        return f"<{names}: {', '.join(f'{count} {kind}' for kind, count in counts.items() if count)}>"
