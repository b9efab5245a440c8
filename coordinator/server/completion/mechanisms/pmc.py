"""PMC and PMC-RR, at the server: sign vectors, each on its device's side or on the other one."""

from __future__ import annotations

from coordinator.server.completion.reading import HALF, SecondOrderServer


class Pmc(SecondOrderServer):
    """Sign vectors or their opposites, row by row."""

    name = "pmc"
    weight = HALF
    sided = True
    swept = ("",)
    attacked = ("",)


class PmcRr(SecondOrderServer):
    """The same with flipped signs, of a weight that is validated."""

    name = "pmc-rr"
    sided = True
    swept = ("2",)
    attacked = ("2", "1")


SERVER = (Pmc(), PmcRr())
