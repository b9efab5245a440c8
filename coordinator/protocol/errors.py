"""What blindrec raises: typed errors whose text names the thing, its value and the remedy."""

from __future__ import annotations


class BlindrecError(Exception):
    """Base class of every error that blindrec raises on purpose."""


class InputError(BlindrecError, ValueError):
    """Something the user gave cannot be used; the command line ends with exit code 2."""


class PolicyError(BlindrecError):
    """A policy cannot be used, or went astray in some round; the text names both."""


class BudgetError(BlindrecError):
    """A device was asked for more privacy than its budget holds; nothing was spent or released."""


class LedgerError(BlindrecError):
    """A device's ledger cannot be written or read, so that it must not answer."""


class LostError(BlindrecError):
    """What a run needs was lost, and came not back after all attempts; what was kept can be resumed."""
