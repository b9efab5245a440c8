"""Who stands between devices and server: the terms of a shuffler, and what it hands on of a round."""

import math
from dataclasses import dataclass, field

from coordinator.protocol import checked
from coordinator.protocol.checked import MOST_DEVICES, Checked
from coordinator.protocol.errors import InputError
from coordinator.protocol.messages import ID_BYTES, Query, Release

LOCAL, SHUFFLED, TWO_SERVERS = "local", "shuffled", "two-servers"
"""Trust models of a run: nobody is trusted; a shuffler hides who sent what; one of two servers keeps its share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shuffling(Checked):
    """How many reports a shuffler needs in every round, and what it does where there are fewer.

    Attributes
    ----------
    reports : int
        Reports that a round needs, so that the devices' local epsilon keeps the central one that they were promised.
    share : float
        Share of the asked devices whose reports it needs, where rounds are promised each by their own size.
    withhold : bool
        Whether a round with fewer reports stays with the shuffler, so that nobody learns from it; else it is handed on,
        and its central epsilon is larger.

    Raises
    ------
    InputError
        If the number is out of range.
    """

    reports: int
    withhold: bool = True
    share: float = 0.0

    def least(self, devices: int) -> int:
        """Return how many reports a round needs that so many devices were asked."""
        return max(self.reports, math.floor(devices * self.share))

    def check(self) -> None:
        """Refuse terms without a whole number of reports; see `Checked.check`."""
        checked.require_real("share of the reports", self.share, 0.0)
        checked.require_whole("reports of a round", self.reports, 1, MOST_DEVICES)
        if type(self.withhold) is not bool:
            raise InputError(f"withhold is {self.withhold!r}; say True or False")


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoServers(Checked):
    """What two servers that add up shares agree to before anything is asked.

    Attributes
    ----------
    delta : float
        The largest chance that a promise about published sums fails, which neither goes beyond.

    Raises
    ------
    InputError
        If it is no chance.
    """

    delta: float

    def check(self) -> None:
        """Refuse a delta that is no chance; see `Checked.check`."""
        checked.require_real("delta", self.delta, 0.0, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShuffledRound(Checked):
    """What a shuffler hands on of a round: the reports in ascending order, which says nothing of who sent them.

    Attributes
    ----------
    query_id : bytes
        Which query the reports answer.
    devices, refused, answered : int
        Devices that were asked, those that refused, and those that reported; all are public.
    release : Release or None
        The reports of those that answered, as one block from address 0 on; None where the round is withheld.

    Raises
    ------
    InputError
        If a field is of another type, or the numbers do not fit each other.
    """

    query_id: bytes
    devices: int
    refused: int
    answered: int
    release: Release | None = field(repr=False)

    def check(self) -> None:
        """Refuse a round whose parts do not fit each other; see `Checked.check`."""
        checked.require_bytes("query id", self.query_id, ID_BYTES)
        checked.require_whole("asked devices", self.devices, 0, MOST_DEVICES)
        checked.require_whole("refusing devices", self.refused, 0, self.devices)
        checked.require_whole("answering devices", self.answered, 0, self.devices - self.refused)
        if self.release is None:
            return
        release = Release.valid(self.release)
        if release.query_id != self.query_id or (release.first, release.count) != (0, self.answered):
            raise InputError(
                f"a shuffled round of {self.answered} reports holds {release.count} from address {release.first} on; "
                "hand on all of them, from address 0"
            )
        if release.answered is not None or release.refused or release.pairs is not None:
            raise InputError("a shuffled round says who answered, or about which items; take that off the reports")

    def require(self, query: Query, devices: int) -> None:
        """Raise InputError if this is no round of ``query`` that so many devices were asked."""
        if self.query_id != query.id or self.devices != devices:
            raise InputError(
                f"{self.devices} devices answered query id {self.query_id.hex()[:8]}; {devices} got {query}"
            )
        if self.release is not None:
            self.release.require(query)
