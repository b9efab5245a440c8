"""All public users in cohorts, which are asked at the same time and answer in a fixed order."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from coordinator.protocol.errors import InputError
from coordinator.protocol.features import ItemFeatures
from coordinator.protocol.rows import Rows
from coordinator.server.completion.cohorts import PublicCohort, cut_users
from coordinator.server.fleet.cohorts import spread_here
from coordinator.server.rounds.conductor import Block, Fleet, Hosts

EXPECT = "expect"
"""The E-step: the one call that changes what cohorts hold."""


class PublicHost:
    """Some cohorts of public users in one process.

    Parameters
    ----------
    rows : Rows
        Ratings of all public users.
    bounds : list of (int, int)
        Its cohorts, ``[first, stop)`` each.
    """

    def __init__(self, rows: Rows, bounds: list[tuple[int, int]]) -> None:
        self._cohorts = [PublicCohort(rows.block(*one)) for one in bounds]
        self._step = 0

    def ask(
        self, method: str, _first: int, _stop: int, step: int, features: ItemFeatures | None, *arguments: Any
    ) -> list[Any]:
        """Call a method of every cohort; return the answers in order.

        A process that was restarted, or that an old call reached late, repeats the last E-step first. Calls before the
        first E-step need none.

        Parameters
        ----------
        method : str
            Of `coordinator.server.completion.cohorts.PublicCohort`.
        step : int
            Number of E-steps so far, including this call if it is one.
        features : ItemFeatures or None
            Features of the last E-step; None before the first one.
        *arguments : object
            The method's own arguments; the E-step has only the features.
        """
        if method == EXPECT:
            self._step = step
            return [cohort.expect(features) for cohort in self._cohorts]  # type: ignore[arg-type] # an E-step has them
        if step != self._step and features is not None:
            self.ask(EXPECT, _first, _stop, step, features)
        return [getattr(cohort, method)(*arguments) for cohort in self._cohorts]


class Crowd:
    """All public users.

    Parameters
    ----------
    hosts : Hosts
        Hosts of `PublicHost`, each of which is one block.
    rows : Rows
        Their ratings; this object keeps only their numbers.

    Attributes
    ----------
    items, users, ratings : int
        Number of items m, of public users and of their ratings.
    """

    def __init__(self, hosts: Hosts, rows: Rows) -> None:
        self.items, self.users, self.ratings = rows.count, rows.users, int(rows.items.size)
        self._hosts, self._blocks = hosts, hosts.blocks(0, rows.users)
        self._step, self._features = 0, None

    def ask(self, method: str, *arguments: Any) -> list[Any]:
        """Call a method of every `PublicCohort`; return the answers in the cohorts' order."""
        if method == EXPECT:
            self._step, (self._features,), arguments = self._step + 1, arguments, ()
        blocks = [block._replace(public=(self._step,)) for block in self._blocks]
        told = self._hosts.ask(method, blocks, _check, self._features, *arguments)
        return [one for answer in told for one in answer]


def _check(_: Block, told: Any) -> None:
    if type(told) is not list:
        raise InputError("cohorts of public users answer with a list")


def spread_crowd(rows: Rows, fleet: Fleet) -> Crowd:
    """Return public users in cohorts, in processes of a fleet."""
    return Crowd(fleet.spread(PublicHost, (rows,), cut_users(rows)), rows)


def local_crowd(rows: Rows, threads: ThreadPoolExecutor | None = None, workers: int = 1) -> Crowd:
    """Return public users in cohorts in this process, in as many parts as there are workers."""
    return Crowd(spread_here(PublicHost, (rows,), cut_users(rows), threads, workers), rows)
