"""A keeper that some devices cannot reach."""

from collections.abc import Sequence

from actors.keeper import Keeper, UnreachableError


class Deaf:
    """Does not answer for cohorts that begin below a device; for others it is the keeper.

    Parameters
    ----------
    keeper : Keeper
        Behind it.
    below : int
        The device.
    """

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
