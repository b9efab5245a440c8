"""What an online run keeps: every client's service as soon as it is over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from coordinator.protocol.ballots import Service
from coordinator.protocol.checked import MOST_DEVICES
from coordinator.protocol.errors import InputError
from coordinator.server.online.service import Served
from scenarios.store.booked import Answered, require_booked
from scenarios.store.chain import Chain, Codec, Numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptClient:
    """A client that was served.

    Attributes
    ----------
    number : int
        Its place among the clients, from 0.
    service : bytes
        Digest of what voters entered.
    served : Served
    seconds : float
    """

    number: int
    service: bytes
    served: Served
    seconds: float


def _answered(one: KeptClient) -> Answered:
    return Answered(f"client {one.number}", one.service, 0, MOST_DEVICES, one.served.electors.size)


def _tell(one: KeptClient) -> Numbers:
    told = {"number": one.number, "service": one.service.hex(), "seconds": one.seconds}
    return told, {part.name: np.asarray(getattr(one.served, part.name)) for part in fields(Served)}


def _read(told: dict[str, Any], arrays: dict[str, Any]) -> KeptClient:
    likelihood = float(arrays.pop("log_likelihood"))
    return KeptClient(
        number=told["number"],
        service=bytes.fromhex(told["service"]),
        served=Served(log_likelihood=likelihood, **arrays),
        seconds=told["seconds"],
    )


CLIENTS: Codec[KeptClient] = Codec(
    noun="client",
    number=lambda one: one.number,
    tell=_tell,
    read=_read,
    require_booked=lambda kept, book: require_booked(map(_answered, kept), book),
)
"""How a client that was served is kept."""


class KeptClients(Chain[KeptClient]):
    """The clients of one seed; see `scenarios.store.chain.Chain`."""

    codec = CLIENTS

    def of(self, services: Sequence[Service]) -> list[KeptClient]:
        """Return those that were served, in order.

        Raises
        ------
        InputError
            If one of them was served otherwise than it would be now.
        """
        kept = list(self)
        for one, service in zip(kept, services, strict=False):
            if one.service != service.id:
                raise InputError(
                    f"{self.folder} keeps client {one.number} of another service than {service}, which it would get "
                    "here: it was computed by other code, or on another kind of processor; go on there, or start in a "
                    "new folder"
                )
        return kept
