"""How far a run has come, as Ray's metrics tell it to whoever scrapes them, such as Prometheus."""

from __future__ import annotations

from ray.util.metrics import Counter, Gauge

from coordinator.server.rounds.tally import Tally

RUN = "run"
"""The label that names the run."""
COUNTED = {
    "rounds": "Rounds, batches or clients that are over.",
    "answers": "Answers of devices in these.",
    "refused": "Devices in these that refused for lack of budget.",
}
"""Fields of a `Tally` that only grow, as counters ``ray_blindrec_NAME_total``."""
SHOWN = {
    "epsilon": ("blindrec_epsilon_spent", "What a device has spent at most [nats]."),
    "undecided": ("blindrec_undecided_items", "Items that are not decided, where the policy asks about these only."),
}
"""Others, as gauges."""


class Gauges:
    """Metrics of one run, in the process of its coordinator; nothing but a `Tally` gets there.

    Parameters
    ----------
    run : str
        The run's public name.
    """

    def __init__(self, run: str) -> None:
        self._labels, self._before = {RUN: run}, Tally()
        self._counters = {name: Counter(f"blindrec_{name}", told, (RUN,)) for name, told in COUNTED.items()}
        self._gauges = {name: Gauge(metric, told, (RUN,)) for name, (metric, told) in SHOWN.items()}

    def tell(self, tally: Tally) -> None:
        """Hand on what has changed since it was last told."""
        for name, counter in self._counters.items():
            if more := (getattr(tally, name) or 0) - (getattr(self._before, name) or 0):
                counter.inc(more, self._labels)
        for name, gauge in self._gauges.items():
            if (value := getattr(tally, name)) is not None:
                gauge.set(value, self._labels)
        self._before = tally
