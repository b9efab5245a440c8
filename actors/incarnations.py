"""Which process embodies devices: one that was started anew is another one, and may have forgotten what they spent."""

from __future__ import annotations

import os

from coordinator.protocol.errors import ForgottenError

TOKEN_BYTES = 16


class Incarnation:
    """What a process is named by, drawn when it starts; no device's coin and no answer hangs on it.

    Attributes
    ----------
    token : bytes
        Sixteen random bytes.
    """

    def __init__(self) -> None:
        self.token = os.urandom(TOKEN_BYTES)

    def require(self, token: bytes) -> None:
        """Refuse whoever takes this process for another one.

        Raises
        ------
        ForgottenError
            Naming this one.
        """
        if type(token) is not bytes or token != self.token:
            raise ForgottenError(self.token)
