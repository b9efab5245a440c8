"""What is stored of each batch of private devices, and the result of all batches."""

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
    """A batch that has answered, as it is stored.

    Attributes
    ----------
    query_id, model : bytes
        Digests of its query and of the model that was announced to it.
    batch : int
        Its number, from 0.
    mechanism : str
        The mechanism through which it answered.
    devices : sequence of int
        Addresses, in the order of their releases.
    payloads : sequence of bytes
        The content of each release.
    weight : float
        Weight of a release in the iterations that followed.
    weighed : int
        Number of releases when the weight was chosen last.
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
        """Return the releases as answers to the query that the batch would be asked now.

        Raises
        ------
        InputError
            If it was asked another query.
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
    """The result of a course.

    Attributes
    ----------
    features : ItemFeatures
        The final model.
    model : FittedModel
        The final model with its iterations.
    models : list of (int, ItemFeatures)
        Number of private devices so far, and the model at that time.
    announced : list of bytes
        Digest of every model that devices were asked about, in order.
    answered, duplicates : int
        Number of releases that count, and of those that arrived again.
    releases_sha256 : str
        Digest of all releases in the devices' order.
    weight : float or None
        Last weight of a release.
    validation_users : int or None
        Number of public users on whom the weight was chosen, who are in no announced model; None if it was given.
    alone : Course or None
        The course of public users alone, if it was asked for.
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
