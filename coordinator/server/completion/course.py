"""What is kept of each batch of private devices, and what comes of them all."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from coordinator.protocol.errors import InputError
from coordinator.protocol.features import ItemFeatures
from coordinator.protocol.second_order import SecondOrderQuery, SecondOrderRelease
from coordinator.server.completion.fitting import FittedModel


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A batch that has answered: all that is kept of it.

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """What came of it.

    Attributes
    ----------
    features : ItemFeatures
        The final model.
    model : FittedModel
        With its iterations.
    models : list of (int, ItemFeatures)
        Private devices so far, and the model then.
    announced : list of bytes
        Digest of every model that devices were asked about, in order.
    answered, duplicates : int
        Releases that count, and those that arrived again.
    releases_sha256 : str
        Over all releases in the devices' order.
    weight : float or None
        Last weight of a release.
    validation_users : int or None
        Public users that it was chosen on, whom no announced model knows; None where it was given.
    alone : Course or None
        That of public users alone, where it was asked for.
    """

    features: ItemFeatures
    model: FittedModel
    models: list[tuple[int, ItemFeatures]]
    announced: list[bytes] = field(default_factory=list)
    answered: int = 0
    duplicates: int = 0
    releases_sha256: str = hashlib.sha256().hexdigest()
    weight: float | None = None
    validation_users: int | None = None
    alone: Course | None = None
