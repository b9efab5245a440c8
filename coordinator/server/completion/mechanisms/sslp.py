"""SSLP, at the server: corners of a second moment that tells nothing, of a weight that is validated."""

from __future__ import annotations

from coordinator.server.completion.reading import SecondOrderServer


class Sslp(SecondOrderServer):
    """Corners of the cube, row by row."""

    name = "sslp"
    swept = ("5",)


SERVER = (Sslp(),)
