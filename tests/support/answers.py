"""Answers made of curves with known worth: three splits whose intervals have a given reach."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from coordinator.protocol.arrays import Floats
from coordinator.protocol.trust_models import CURATOR, LOCAL, SHUFFLED, TWO_SERVERS
from scenarios.config.settings import Target
from scenarios.studies.answer import Answer, AnswerInputs, Curve

BEST = np.full((3, 5), 0.2)
FILE = {LOCAL: 0.0, SHUFFLED: 0.0, TWO_SERVERS: 0.0, CURATOR: 0.0}


def worth(mean: float, reach: float = 0.0) -> Floats:
    """Three splits whose Student's interval has that reach, among everybody and among four samples of people."""
    step = reach * math.sqrt(3) / 4.302652729749464
    return np.repeat(np.array([[mean - step], [mean], [mean + step]]), 5, axis=1)


def curve(
    rung: str,
    by_people: Mapping[int, Any],
    *,
    mechanism: str = "set",
    epsilon: float | None = 1.0,
    device: float | None = None,
    unguaranteed: Sequence[int] = (),
) -> Curve:
    by_people = {
        people: value if isinstance(value, np.ndarray) else worth(value) for people, value in by_people.items()
    }
    return Curve(
        rung=rung,
        mechanism=mechanism,
        epsilon=epsilon,
        worth=by_people,
        delta=dict.fromkeys(by_people, 0.0 if rung == LOCAL else 1e-6),
        device_epsilon=dict.fromkeys(by_people, device),
        unguaranteed=frozenset(unguaranteed),
    )


def answer(*curves: Curve, share: float = 0.9, of: Target = "best", **changes: Any) -> Answer:
    about: dict[str, Any] = {
        "file": "made.csv",
        "people": 1000,
        "items": 50,
        "best": BEST,
        "best_name": "EASE",
        "popularity": BEST / 2,
    }
    about |= {"file_error": FILE, "volunteers": 0.01, "curves": curves}
    return AnswerInputs(**about | changes).answer(share=share, of=of)
