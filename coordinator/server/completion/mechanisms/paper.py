"""PMC and PMD at the server: sign vectors and candidate vectors, on any side of their devices' own."""

from coordinator.server.completion.mechanisms import HALF, SecondOrderServer

SERVER = (
    SecondOrderServer(name="pmc", weight=HALF, sided=True, swept=("",), attacked=("",)),
    SecondOrderServer(name="pmc-rr", sided=True, swept=("2",), attacked=("2", "1")),  # flipped signs, weight validated
    SecondOrderServer(name="pmd", weight=HALF, sided=True, swept=("",), attacked=("",)),
)
