"""The Ray actor of the devices' keeper, on the experimenter's node, and how hosts of devices call it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from actors.keeper import Keeper, UnreachableError
from coordinator.protocol import losses
from coordinator.protocol.errors import BlindrecError

CALLS = 16
"""Most calls that the keeper handles at the same time."""
WAIT = 60.0
"""Seconds that devices wait for their keeper before they refuse."""
_UNREACHABLE = losses.errors(ray.exceptions, losses.LOST, losses.ENDS, losses.WAITS)


class HostedKeeper:
    """A keeper behind an actor; see `actors.keeper.Books`. Hosts of devices get it, the server never does.

    Parameters
    ----------
    actor : ray.actor.ActorHandle
        Of a `Keeper`.
    """

    def __init__(self, actor: Any) -> None:
        self.actor = actor

    def read(self, first: int, stop: int, since: int = 0) -> tuple[int, list[str]]:
        """Return what was booked since; see `Keeper.read`.

        Raises
        ------
        UnreachableError
            If the keeper does not answer.
        """
        return _told(self.actor.read.remote(first, stop, since))

    def book(self, first: int, stop: int, known: int, lines: Sequence[str]) -> tuple[int, list[str]]:
        """Book lines; see `Keeper.book`.

        If the answer is lost, the lines may have been booked, and the next call returns them.

        Raises
        ------
        UnreachableError
            If the keeper does not answer.
        """
        return _told(self.actor.book.remote(first, stop, known, lines))


def _told(answer: Any) -> tuple[int, list[str]]:
    try:
        known, lines = ray.get(answer, timeout=WAIT)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, BlindrecError):
            raise error.cause from None
        raise
    except _UNREACHABLE as error:
        raise UnreachableError(
            f"the keeper of what devices have spent does not answer ({type(error).__name__}); devices refuse"
        ) from None
    return known, lines


def start_keeper(folder: Path | None) -> HostedKeeper:
    """Start a `Keeper` as a Ray actor on the node of whoever calls this.

    If its process dies, Ray restarts it and repeats its calls, provided that a folder keeps its entries. Repeating a
    call does no harm, because the keeper returns a line that it already holds instead of booking it again. Without a
    folder the entries are lost, and devices refuse.

    Raises
    ------
    LedgerError
        If the folder cannot be used, or is damaged.
    """
    Keeper(folder)  # errors about the folder are raised here, in the caller's process
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    actor: Any = ray.remote(Keeper)
    forever = {} if folder is None else {"max_restarts": -1, "max_task_retries": -1}
    options = actor.options(num_cpus=0, max_concurrency=CALLS, scheduling_strategy=here, **forever)
    return HostedKeeper(options.remote(folder))
