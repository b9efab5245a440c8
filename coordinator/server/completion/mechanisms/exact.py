"""No privacy at all, at the server: completed vectors count as the paper counts releases."""

from __future__ import annotations

from coordinator.server.completion.reading import HALF, SecondOrderServer


class Exact(SecondOrderServer):
    """Completed vectors, row by row."""

    name = "exact"
    weight = HALF
    swept = ("",)
    attacked = ()


SERVER = (Exact(),)
