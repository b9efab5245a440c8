"""What an online run keeps: every client's service as soon as it is over."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from coordinator.protocol.checked import MOST_DEVICES
from coordinator.server.online.service import Served
from coordinator.server.online.serving import ServedClient
from scenarios.store.booked import Answered, require_booked
from scenarios.store.chain import Chain, Codec, Numbers


def _answered(one: ServedClient) -> Answered:
    return Answered(f"client {one.number}", one.service, 0, MOST_DEVICES, one.served.electors.size)


def _tell(one: ServedClient) -> Numbers:
    told = {"number": one.number, "service": one.service.hex(), "seconds": one.seconds}
    return told, {part.name: np.asarray(getattr(one.served, part.name)) for part in fields(Served)}


def _read(told: dict[str, Any], arrays: dict[str, Any]) -> ServedClient:
    likelihood = float(arrays.pop("log_likelihood"))
    return ServedClient(
        number=told["number"],
        service=bytes.fromhex(told["service"]),
        served=Served(log_likelihood=likelihood, **arrays),
        seconds=told["seconds"],
    )


CLIENTS: Codec[ServedClient] = Codec(
    noun="client",
    number=lambda one: one.number,
    tell=_tell,
    read=_read,
    require_booked=lambda kept, book: require_booked(map(_answered, kept), book),
)
"""How a client that was served is kept."""


class KeptClients(Chain[ServedClient]):
    """The clients of one seed; see `scenarios.store.chain.Chain`."""

    codec = CLIENTS
