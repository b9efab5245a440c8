"""PMC and PMD at the server: sign vectors and candidate vectors, on any side of their devices' own."""

from __future__ import annotations

from coordinator.server.completion.mechanisms import HALF, SecondOrderServer


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


class Pmd(SecondOrderServer):
    """Candidates, row by row, brought to public users' energy."""

    name = "pmd"
    weight = HALF
    sided = True
    swept = ("",)
    attacked = ("",)


SERVER = (
    Pmc(),
    PmcRr(),
    Pmd(),
)
