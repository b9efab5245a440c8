"""A watch on Ray's head: if it dies, the run ends within seconds and keeps its rounds; Ray would abort it later."""

from __future__ import annotations

import os
import socket
import threading
from types import TracebackType

from coordinator.protocol.errors import LostError
from scenarios.given.signals import BAD_INPUT, end_now, interrupt_main

EVERY = 1.0
"""Seconds between two connection attempts."""
REFUSALS = 5
"""Refused connections in a row after which a head counts as dead."""
GRACE = 2.0
"""Seconds that the main thread then has to end by itself, before the process exits."""
_ANSWER = 5.0
_MARGIN = 10.0
_RAYS_OWN = "RAY_gcs_rpc_server_reconnect_timeout_s"
"""Ray's setting: seconds after which it aborts a driver whose head is gone. Users whose heads restart raise it."""


class HeadWatch:
    """Connects to the head's port again and again during a run, and ends the run if nothing listens there any more.

    Only refused connections count. A busy head refuses none, because its operating system accepts them, and a broken
    link brings no refusal. The watch interrupts the main thread, so it does not watch runs in other threads.
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
        """Stop watching, because the instance is about to end."""
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
    """Return how many connections may be refused; with Ray's setting they take nearly as long as it allows."""
    try:
        return max(REFUSALS, float(os.environ[_RAYS_OWN]) - _MARGIN)
    except (KeyError, ValueError):
        return REFUSALS
