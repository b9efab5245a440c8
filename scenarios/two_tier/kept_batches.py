"""What a two-tier run keeps: every batch's releases as soon as they are there, and what was decided from them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from actors.keeper import Books
from actors.second_order.answers import Answers
from coordinator.protocol.checked import MOST_DEVICES
from coordinator.protocol.errors import LedgerError
from coordinator.server.completion.course import Batch
from scenarios.store.chain import Chain, Codec, Numbers


def _require_booked(kept: Iterable[Batch], book: Books) -> None:
    """Refuse batches whose releases private devices have not all booked."""
    answers = Answers(0, MOST_DEVICES, book)
    answers.look()
    for one in kept:
        for device, payload in zip(one.devices, one.payloads, strict=True):
            if (told := answers.get(device)) is None or told.payload != payload:
                raise LedgerError(
                    f"batch {one.batch} was answered by private device {device}, whose ledger does not tell so; a "
                    "part of it is missing: put its files back as they were, or start in a new folder"
                )


def _tell(one: Batch) -> Numbers:
    told = {
        "query": one.query_id.hex(),
        "model": one.model.hex(),
        "batch": one.batch,
        "mechanism": one.mechanism,
        "weight": one.weight,
        "weighed": one.weighed,
    }
    sizes = np.array([len(payload) for payload in one.payloads], np.int64)
    payloads = np.frombuffer(b"".join(one.payloads), np.uint8)
    return told, {"devices": np.array(one.devices, np.int64), "sizes": sizes, "payloads": payloads}


def _read(told: dict[str, Any], arrays: dict[str, Any]) -> Batch:
    ends = np.cumsum(arrays["sizes"]).tolist()
    said = arrays["payloads"].tobytes()
    return Batch(
        query_id=bytes.fromhex(told["query"]),
        model=bytes.fromhex(told["model"]),
        batch=told["batch"],
        mechanism=told["mechanism"],
        devices=arrays["devices"].tolist(),
        payloads=[said[start:end] for start, end in zip([0, *ends], ends, strict=False)],
        weight=told["weight"],
        weighed=told["weighed"],
    )


BATCHES: Codec[Batch] = Codec(
    noun="batch", number=lambda one: one.batch, tell=_tell, read=_read, require_booked=_require_booked
)
"""How a batch that has answered is kept."""


class KeptBatches(Chain[Batch]):
    """The batches of a run; see `scenarios.store.chain.Chain`."""

    codec = BATCHES
