"""Private devices of the two-tier model as a kind: what all of them agreed to, and their small cohorts."""

from __future__ import annotations

from dataclasses import dataclass

from actors.keeper import Books
from actors.second_order.cohort import PrivateCohort
from actors.second_order.consent import Consent
from coordinator.protocol.rows import Rows

DEVICES_A_COHORT = 5
"""Devices of one cohort: fewer than a batch has, so that all workers have something to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateDevices:
    """Devices that answer once about one model; see `actors.embodied.Kind`.

    Attributes
    ----------
    consent : Consent
        What all of them take part in.
    """

    consent: Consent

    def cohort(self, holdings: Rows, secret: bytes, first: int, stop: int, keeper: Books | None) -> PrivateCohort:
        """Return devices ``first`` to ``stop - 1``."""
        return PrivateCohort(holdings.block(first, stop), secret, first, consent=self.consent, keeper=keeper)
