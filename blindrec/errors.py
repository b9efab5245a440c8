"""The errors that blindrec raises on purpose; the text of each names the thing, its value and the remedy."""

from coordinator.protocol.custom import MechanismError
from coordinator.protocol.errors import (
    BlindrecError,
    InputError,
    LedgerError,
    LostError,
    PolicyError,
    ResumableError,
    WithheldError,
)

__all__ = [
    "BlindrecError",
    "InputError",
    "LedgerError",
    "LostError",
    "MechanismError",
    "PolicyError",
    "ResumableError",
    "WithheldError",
]
