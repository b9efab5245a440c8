"""What blindrec raises: typed errors whose text names the thing, its value and the remedy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class BlindrecError(Exception):
    """Base class of every error that blindrec raises on purpose."""


class InputError(BlindrecError, ValueError):
    """Something the user gave cannot be used; the command line ends with exit code 2."""


class BlockError(InputError, IndexError):
    """Devices were named that are not here; nothing was charged or answered."""


class ConsentError(BlindrecError):
    """A device was asked for something that its consent does not cover; nothing was kept or released."""


class PermitError(BlindrecError, PermissionError):
    """Somebody wants to see what stays on a device, and has no permit."""


class PolicyError(BlindrecError):
    """A policy cannot be used, or went astray in some round; the text names both.

    Attributes
    ----------
    result : mapping or None
        From `blindrec.run`: what earlier rounds learned; None where nothing was asked.
    """

    result: Mapping[str, Any] | None = None


class BudgetError(BlindrecError):
    """A device was asked for more privacy than its budget holds; nothing was spent or released."""


class LedgerError(BlindrecError):
    """A device's ledger cannot be written or read, so that it must not answer."""


class LostError(BlindrecError):
    """What a run needs was lost, and did not come back after all attempts; what was kept can be resumed."""


class ResumableError(LostError):
    """A run had to end early, and its folder keeps what it did; the same command or call goes on from there."""


class ForgottenError(BlindrecError):
    """Devices' process was started anew and may not know what they answered before; nothing was charged or answered.

    Parameters
    ----------
    incarnation : bytes
        The token of the process that stands there now.
    """

    def __init__(self, incarnation: bytes) -> None:
        super().__init__(incarnation)
        self.incarnation = incarnation

    def __str__(self) -> str:
        return f"devices' process {self.incarnation.hex()} is new; let it book what they answered, then ask again"
