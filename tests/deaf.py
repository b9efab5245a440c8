"""A keeper that some devices cannot reach, and threads that get in each other's way."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from actors.keeper import Keeper, UnreachableError


class Deaf:
    """Does not answer for cohorts that begin below a device; for others it is the keeper behind it."""

    def __init__(self, keeper: Keeper, below: int = 1 << 40) -> None:
        self._keeper, self.below = keeper, below

    def read(self, first: int, stop: int, since: int = 0) -> tuple[int, list[str]]:
        """As `Keeper.read`."""
        return self.book(first, stop, since, ())

    def book(self, first: int, stop: int, known: int, lines: Sequence[str]) -> tuple[int, list[str]]:
        """As `Keeper.book`."""
        if first < self.below:
            raise UnreachableError("it does not answer")
        return self._keeper.book(first, stop, known, lines)


@contextmanager
def hasty_threads() -> Iterator[None]:
    """Let threads take turns as often as they can."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(usual)
