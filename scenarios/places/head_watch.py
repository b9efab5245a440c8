"""A watch on Ray's head: a run whose head died ends in seconds with what is kept; Ray would abort it in a minute."""

from __future__ import annotations

import os
import socket
import threading
from types import TracebackType

from coordinator.protocol.errors import LostError
from scenarios.endings import BAD_INPUT, end_now, interrupt_main

EVERY = 1.0
"""Seconds between two looks."""
REFUSALS = 5
"""Looks in a row at which nothing listens, after which a head is dead."""
GRACE = 2.0
"""Seconds that the main thread has to end after that; then a command ends where it stands."""
_ANSWER = 5.0
_MARGIN = 10.0
_RAYS_OWN = "RAY_gcs_rpc_server_reconnect_timeout_s"
"""Ray's setting: seconds after which it aborts a driver without a head. Who runs a head that comes back raises it."""


class HeadWatch:
    """Knocks at the head's port while a run is under way, and ends the run where nobody listens there any more.

    Only a connection that is refused counts: a head that is busy refuses none, since its system answers in its place,
    and nobody answers over a link that is down. The watch interrupts the main thread; runs in others are not watched.

    Parameters
    ----------
    address : str
        ``host:port`` of the head.
    """

    def __init__(self, address: str) -> None:
        self._why = f"the Ray head at {address} died"
        host, _, port = address.rpartition(":")
        self._at = (host.strip("[]"), int(port))
        self._looking, self._ending = threading.Event(), threading.Event()
        self._died = False
        self._thread = threading.Thread(target=self._watch, daemon=True, name="head")

    def __enter__(self) -> HeadWatch:
        if threading.current_thread() is threading.main_thread():
            self._thread.start()
        return self

    def stop(self) -> None:
        """Look no more: what was started ends now, a head of our own included."""
        self._looking.set()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        self._ending.set()
        if self._thread.is_alive():
            self._thread.join()
        if self._died and error is not None:
            raise LostError(self._why) from None

    def _watch(self) -> None:
        refused, most = 0, _patience()
        while refused < most:
            if self._looking.wait(EVERY):
                return
            refused = refused + 1 if self._refuses() else 0
        self._died = True
        interrupt_main()
        if not self._ending.wait(GRACE):
            end_now(self._why, BAD_INPUT)

    def _refuses(self) -> bool:
        try:
            socket.create_connection(self._at, timeout=_ANSWER).close()
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
        return False


def _patience() -> float:
    """Return how many looks may be refused: nearly as long as Ray is told to wait, where it is told."""
    try:
        return max(REFUSALS, float(os.environ[_RAYS_OWN]) - _MARGIN)
    except (KeyError, ValueError):
        return REFUSALS
