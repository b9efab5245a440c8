"""PMD, at the server: candidate vectors, on any side of their devices' own."""

from __future__ import annotations

from coordinator.server.completion.reading import HALF, SecondOrderServer


class Pmd(SecondOrderServer):
    """Candidates, row by row, brought to public users' energy."""

    name = "pmd"
    weight = HALF
    sided = True
    swept = ("",)
    attacked = ("",)


SERVER = (Pmd(),)
