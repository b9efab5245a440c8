"""What devices let out when they are asked fixed queries, and the ids of these: the protocol without server or run.

Where a command line fails and these hold, the server's half changed; where an id fails, the protocol did.
"""

import hashlib
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import worlds

from actors.device import Cohort
from actors.ratings import Ratings
from coordinator.protocol.ballots import Service
from coordinator.protocol.messages import Query

FIRST, DEVICES_ASKED, ITEMS, RATED = 3, 61, 14, 5
POOL, CENTRES = (0, 2, 3, 7, 8, 13), (4, -3, 0, 32, -32, 7)
AGREEMENTS = ("rated-equal", "equal", "positive")
EPSILONS = {"pmc-rr": 2, "laplace": 5, "sslp": 5, "privunit": 5}
MECHANISMS = ("pmd", "pmc", "pmc-rr", "laplace", "sslp", "privunit", "exact")


class Asked(NamedTuple):
    """A query, without what all queries share."""

    design: str
    parameters: dict[str, float]
    epsilon: Fraction | None = Fraction(4, 3)
    pool: tuple[int, ...] | None = None
    centres: tuple[int, ...] | None = None
    questions: int = 1
    answer_bits: int = 1
    round: int = 0
    arrays: dict[str, tuple[Any, ...]] = {}  # noqa: RUF012 (nobody writes to it)


ASKED = {
    "maxsense": Asked("maxsense", {"sensing": 0.15}),
    "maxsense, later, without noise": Asked("maxsense", {"sensing": 0.3}, None, round=7),
    "maxsense, pool": Asked("maxsense", {"sensing": 0.25}, pool=POOL),
    "sign": Asked("sign", {"vectors": 1.0, "kept": 1.0}, pool=POOL),
    "sign, centres": Asked("sign", {"vectors": 1.0, "kept": 1.0}, pool=POOL, centres=CENTRES),
    "sign, 4 vectors": Asked("sign", {"vectors": 4.0, "kept": 2.0}, pool=POOL, answer_bits=3),
    "multi-maxsense": Asked("multi-maxsense", {"set_size": 3.0}, questions=4),
    "item-query": Asked("item-query", {}, None, pool=POOL),
    "full-reveal": Asked("full-reveal", {"share": 0.3, "most": 14.0}, None, questions=2 * ITEMS),
    "curator-items": Asked("curator-items", {"share": 1.0, "most": 3.0}, None, questions=2 * ITEMS),
    "curator-pairs": Asked("curator-pairs", {"share": 1.0, "most": 5.0}, None, questions=2 * ITEMS),
    "pairs": Asked(
        "pairs",
        {"sides": 1.0, "together": 2.0, "padded": 3.0, "chosen": 2.0},
        pool=POOL,
        questions=2,
        answer_bits=5,
    ),
    "pairs, items": Asked(
        "pairs", {"sides": 1.0, "together": 1.0, "padded": 3.0, "chosen": 2.0}, questions=2, answer_bits=5
    ),
    "pair-signs": Asked("pair-signs", {}, pool=POOL),
    "pair-signs, centres": Asked("pair-signs", {}, pool=POOL, centres=CENTRES),
    "anchor": Asked(
        "anchor",
        {"levels": 8.0},
        arrays={
            "prior": (0, 1, 0),
            "lean": (0, 0, 2),
            "guess": tuple(tuple((7 * row + 3 * item) % 9 - 4 for item in range(ITEMS)) for row in range(6)),
            "counts": tuple(tuple((5 * row + 2 * item) % 11 - 5 for item in range(ITEMS)) for row in range(6)),
            "sensed": tuple(item % 9 for item in range(ITEMS)),
        },
    ),
    **{f"pairwise-{name}{of}": Asked(f"pairwise-{name}{of}", {}) for name in AGREEMENTS for of in ("", "-of-rated")},
}
"""A query or more of each design."""


def _array(values: tuple[int, ...] | None) -> Any:
    return None if values is None else np.array(values, np.int32)


def _arrays(asked: Asked) -> dict[str, Any]:
    return {name: _array(values) for name, values in asked.arrays.items()}


def _sha256(*parts: bytes | None) -> str:
    return hashlib.sha256(b"".join(b"none" if part is None else part for part in parts)).hexdigest()


def _release(asked: Asked) -> dict[str, Any]:
    query = Query(
        items=ITEMS,
        public_seed=worlds.PUBLIC,
        **{**asked._asdict(), "pool": _array(asked.pool), "centres": _array(asked.centres), "arrays": _arrays(asked)},
    )
    told: dict[str, Any] = {"query_id": query.id.hex()}
    world = worlds.world(items=ITEMS, rated=RATED, like=((0.9, 0.2), (0.3, 0.7)), shares=(0.6, 0.4))
    users = [world.ratings(device) for device in range(40)]
    kinds: dict[str, Ratings] = {
        "drawn": worlds.block_ratings(world),
        "stored": worlds.stored_ratings(users, [device * 7 % 40 for device in range(100)], ITEMS),
    }
    for name, ratings in kinds.items():
        stop = FIRST + DEVICES_ASKED
        release = Cohort(ratings, worlds.SECRET, 0, 100, None).answer(query, FIRST, stop)
        told[name] = {
            "bits_sha256": _sha256(release.bits),
            "answered_and_pairs_sha256": _sha256(release.answered, release.pairs),
            "width": release.width,
            "ones": int(release.unpacked().sum()),
        }
    return told


def _second_order(mechanism: str) -> dict[str, Any]:
    model = worlds.features()
    query = worlds.query(model, mechanism, epsilon=Fraction(EPSILONS.get(mechanism, 1)), batch=2)
    cohort = worlds.cohort(worlds.rated(devices=9), 0, 9)
    cohort.announce(query, 0, 9)
    _, payloads = query.payloads(cohort.answer(query, model, 0, 9), model)
    return {
        "query_id": query.id.hex(),
        "model": model.digest.hex(),
        "payloads_sha256": _sha256(payloads.tobytes()),
        "payload_bytes": payloads.shape[1],
    }


def _services() -> dict[str, Any]:
    plain = Service(client=2, recommender="p-rec", rounds=3, objects=2, epsilon=Fraction(7, 2))
    titles = np.array([[0, 5], [2, 3], [9, 4]], np.int32)
    titled = Service(client=2, recommender="dsybil", rounds=3, objects=2, epsilon=None, titles=titles, own_device=4)
    return {"plain": plain.id.hex(), "titled": titled.id.hex(), "series": [str(word) for word in titled.series]}


DEVICES: dict[str, Callable[[], dict[str, Any]]] = {
    **{f"devices, {name}": partial(_release, asked) for name, asked in ASKED.items()},
    **{f"private devices, {name}": partial(_second_order, name) for name in MECHANISMS},
    "services": _services,
}
"""By name, as they are in the golden file."""
