"""What an online run keeps: every client's service as soon as it is over."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from actors.keeper import Keeper
from coordinator.protocol.checked import MOST_DEVICES
from coordinator.server.online.service import Served
from coordinator.server.online.serving import ServedClient
from scenarios.chain import Chain, Codec, Numbers
from scenarios.spending import Answered, require_booked


class KeptClients(Chain[ServedClient]):
    """The clients of one seed, a file each; see `scenarios.chain.Chain`.

    Parameters
    ----------
    out : Path
        The run's folder.
    seed : int
        Whose clients these are.

    Raises
    ------
    InputError
        If the folder's mark cannot be read.
    """

    def __init__(self, out: Path, seed: int) -> None:
        super().__init__(out, seed, CLIENTS)

    def _read_books(self) -> None:
        """Read the ledger; refuse clients whose voters have not all booked what they entered."""
        require_booked(map(_answered, self), Keeper(self.ledger))


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


CLIENTS: Codec[ServedClient] = Codec(noun="client", number=lambda one: one.number, tell=_tell, read=_read)
"""How a client that was served is kept."""
