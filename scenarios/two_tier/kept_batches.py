"""What a two-tier run keeps: every batch's releases as soon as they are there, and what was decided from them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from actors.keeper import Books
from actors.second_order.answers import Answers
from coordinator.protocol.checked import MOST_DEVICES
from coordinator.protocol.errors import InputError, LedgerError
from coordinator.protocol.second_order import SecondOrderQuery, SecondOrderRelease
from scenarios.store.chain import Chain, Codec, Numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptBatch:
    """A batch that has answered.

    Attributes
    ----------
    query_id, model : bytes
        Digests of what it was asked, and of the model that was announced to it.
    batch : int
        Its number, from 0.
    mechanism : str
        Through which it answered.
    devices : sequence of int
        Addresses, in the order of their releases.
    payloads : sequence of bytes
        What each of them said.
    weight : float
        Of a release, in the iterations that followed.
    weighed : int
        Releases that there were when it was chosen last.
    """

    query_id: bytes
    model: bytes
    batch: int
    mechanism: str
    devices: Sequence[int]
    payloads: Sequence[bytes] = field(repr=False)
    weight: float
    weighed: int

    def releases(self, query: SecondOrderQuery) -> list[SecondOrderRelease]:
        """Return the releases, to the query that the batch would be asked now.

        Raises
        ------
        InputError
            If it was asked another one.
        """
        if self.query_id != query.id:
            raise InputError(
                f"batch {self.batch} answered about model {self.model.hex()[:8]}, and would be asked about "
                f"{query.model.hex()[:8]} here: models were computed by other code, or on another kind of processor; "
                "go on there, or start in a new folder"
            )
        return [
            SecondOrderRelease(query_id=self.query_id, device=device, mechanism=self.mechanism, payload=payload)
            for device, payload in zip(self.devices, self.payloads, strict=True)
        ]


def batch_of(query: SecondOrderQuery, releases: Sequence[SecondOrderRelease], weight: float, weighed: int) -> KeptBatch:
    """Return a batch as it is kept."""
    return KeptBatch(
        query_id=query.id,
        model=query.model,
        batch=query.batch,
        mechanism=query.mechanism,
        devices=[release.device for release in releases],
        payloads=[release.payload for release in releases],
        weight=weight,
        weighed=weighed,
    )


def _require_booked(kept: Iterable[KeptBatch], book: Books) -> None:
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


def _tell(one: KeptBatch) -> Numbers:
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


def _read(told: dict[str, Any], arrays: dict[str, Any]) -> KeptBatch:
    ends = np.cumsum(arrays["sizes"]).tolist()
    said = arrays["payloads"].tobytes()
    return KeptBatch(
        query_id=bytes.fromhex(told["query"]),
        model=bytes.fromhex(told["model"]),
        batch=told["batch"],
        mechanism=told["mechanism"],
        devices=arrays["devices"].tolist(),
        payloads=[said[start:end] for start, end in zip([0, *ends], ends, strict=False)],
        weight=told["weight"],
        weighed=told["weighed"],
    )


BATCHES: Codec[KeptBatch] = Codec(
    noun="batch", number=lambda one: one.batch, tell=_tell, read=_read, require_booked=_require_booked
)
"""How a batch that has answered is kept."""


class KeptBatches(Chain[KeptBatch]):
    """The batches of a run; see `scenarios.store.chain.Chain`."""

    codec = BATCHES
