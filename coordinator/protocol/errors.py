"""What blindrec raises: typed errors whose text names the thing, its value and the remedy."""

from collections.abc import Iterable, Mapping
from typing import Any


class BlindrecError(Exception):
    """Base class of every error that blindrec raises on purpose."""


class InputError(BlindrecError, ValueError):
    """Something the user gave cannot be used; the command line ends with exit code 2."""


class ReadError(InputError):
    """A file that a user or a folder names cannot be read; whatever the system says of it, no disk is full."""


class BlockError(InputError, IndexError):
    """Devices were named that are not here; nothing was charged or answered."""


class AgreementError(InputError):
    """Something was asked that the agreement of a run does not cover; nothing was charged, answered or opened."""


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


class WithheldError(BlindrecError):
    """A shuffler or two servers withheld a round because too few devices answered; nobody learned from it."""


class LedgerError(BlindrecError):
    """A device's ledger cannot be written or read, so that it must not answer."""


class LostError(BlindrecError):
    """What a run needs was lost, and did not come back after all attempts; what was kept can be resumed."""


class ResumableError(LostError):
    """A run had to end early, and its folder keeps what it did; the same command or call goes on from there."""


def name_choices(name: object, names: Iterable[str], lead: str = "choose among") -> str:
    """Return what an error says of a name that is none of these: the one that is spelled nearly so, and all of them.

    >>> name_choices("elimnate", ["fixed", "eliminate"]), name_choices(2, ["fixed"], "known are")
    ("did you mean 'eliminate'? choose among fixed, eliminate", 'known are fixed')
    """
    from difflib import get_close_matches  # noqa: PLC0415 (errors alone need it)

    every = list(names)
    close = get_close_matches(name, every, 1) if isinstance(name, str) else []
    return f"{f'did you mean {close[0]!r}? ' if close else ''}{lead} {', '.join(every)}"
