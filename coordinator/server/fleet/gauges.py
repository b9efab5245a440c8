"""How far a run has come, as Ray's metrics tell it to whoever scrapes them, such as Prometheus."""

from __future__ import annotations

from ray.util.metrics import Gauge

from coordinator.server.rounds.tally import Tally

GAUGES = {
    "count": ("blindrec_asked", "Devices (or online rounds) that were asked, with those of the round that goes on."),
    "rounds": ("blindrec_rounds", "Rounds, batches or clients that are over."),
    "answers": ("blindrec_answers", "Answers of devices in these."),
    "refused": ("blindrec_refused", "Devices in these that refused for lack of budget."),
    "epsilon": ("blindrec_epsilon_spent", "What a device has spent at most [nats]."),
    "undecided": ("blindrec_undecided_items", "Items that are not decided, where the policy asks about these only."),
}
"""Names, as a scraper finds them behind ``ray_``, and help, by the fields of a `Tally`."""
_RUN = "run"


class Gauges:
    """The gauges of one run, in the process of its coordinator; nothing but a `Tally` gets there.

    They are gauges and no counters, so that a coordinator that takes the place of a dead one goes on with its numbers.

    Parameters
    ----------
    run : str
        The run's public name, which is their label.
    """

    def __init__(self, run: str) -> None:
        self._run = {_RUN: run}
        self._gauges = {field: Gauge(name, told, (_RUN,)) for field, (name, told) in GAUGES.items()}

    def tell(self, tally: Tally) -> None:
        """Set them to a tally; what it does not know is not told."""
        for field, gauge in self._gauges.items():
            if (value := getattr(tally, field)) is not None:
                gauge.set(value, self._run)
