"""Risk of the rows that lead a comparison's rungs, measured after all others, for the answer's table and page."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import partial

from coordinator.protocol.decoding.threads import one_thread
from scenarios.backends.session import stop_if_abandoned
from scenarios.studies.answer import RISK, VOLUNTEERS, Answer
from scenarios.studies.compare.comparison_settings import Comparison
from scenarios.studies.compare.risk.views import row_risk
from scenarios.studies.compare.scales import epsilons_of
from scenarios.studies.compare.scoring import CompareKey, CompareMeasurement, rows_of
from scenarios.studies.compare.summary import FEATURES

SIZE = 200, 2
"""People who are attacked, and others whom each is told from: in seconds a row; `blindrec risk` attacks more."""


def risk_units(settings: Comparison, answer: Answer) -> Mapping[CompareKey, Callable[[], CompareMeasurement]]:
    """Return a unit for the row that leads each rung with the people there are."""
    leaders = [(rung, at.epsilon) for at in answer.by_epsilon for rung in at.rungs if rung.key != VOLUNTEERS]
    names = {float(Fraction(name)): name for name in epsilons_of(settings) if name != "inf"}
    keys = [
        CompareKey(
            RISK,
            f"{rung.key}: {rung.cell.mechanism.removesuffix(FEATURES)}",
            names[epsilon],
            answer.people,
            "",
            settings.seed,
        )
        for rung, epsilon in leaders
        if rung.cell is not None
    ]
    return {key: partial(measure_risk, settings, key) for key in dict.fromkeys(keys)}


@one_thread()
def measure_risk(settings: Comparison, key: CompareKey) -> CompareMeasurement:
    """Measure the risk of a row, in this process."""
    stop_if_abandoned()
    begin = time.perf_counter()
    risks = row_risk(settings, rows_of(settings)[key.mechanism], key.epsilon, key.users, size=SIZE)
    return CompareMeasurement(scores=(), simulated=None, risks=risks, seconds=time.perf_counter() - begin)
