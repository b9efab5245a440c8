"""Runs without devices: sign sensing on statistics drawn from exact moments, adaptive or with a growing population."""

from __future__ import annotations

import numpy as np

from coordinator.protocol.coins import derive
from coordinator.protocol.errors import InputError
from coordinator.server.design import EmulatedDesign
from coordinator.server.rounds.query_rounds import Outcome, conduct
from coordinator.server.rounds.state import Ask
from coordinator.server.statistics.scores import ScoreStatistic
from scenarios.data.metrics import ClusteringScores, clustering_scores
from scenarios.data.populations import Population, class_shares, populate
from scenarios.given.config import Scenario
from scenarios.given.run_spec import RunSpec
from scenarios.places.worker_threads import stop_if_abandoned
from scenarios.store.round_store import KeptRounds, Nowhere
from scenarios.sweep.prefixes import learned, only_query
from scenarios.theory.emulation import Emulated


def emulated_devices(population: Population) -> Emulated:
    """Return the transport that draws a population's statistics; its coins follow from the scenario's seed."""
    scenario = population.scenario
    assert population.truth is not None  # sweeps run on the block model
    design = RunSpec(scenario).design
    if not isinstance(design, EmulatedDesign):
        raise InputError(f"{scenario.design} has no statistic that can be drawn from exact moments; let devices answer")
    likes = np.array(scenario.like)[:, population.truth]
    coins = np.random.default_rng(int.from_bytes(derive(scenario.seed, "emulation")))
    return Emulated(
        design=design, likes=likes, class_shares=class_shares(scenario), rated=scenario.rated or 0, coins=coins
    )


def emulate(population: Population, rounds: KeptRounds | None = None) -> Outcome:
    """Run an adaptive scenario of sign sensing to its end, without devices; keep its rounds."""
    scenario = population.scenario
    spec = RunSpec(scenario)
    return conduct(
        spec.policy,
        spec.learner,
        emulated_devices(population),
        devices=scenario.users or 0,
        budget=spec.budget,
        most_rounds=scenario.most_rounds,
        keep=(rounds or Nowhere()).keep,
    )


class EmulatedPrefixes:
    """The first users of one round of sign sensing, in whole blocks, for growing and shrinking numbers of blocks.

    A block's statistic is drawn once, so that a larger population holds the smaller ones, as with devices.

    Parameters
    ----------
    scenario : Scenario
        Sign sensing in one round.
    block : int
        Users of a block.
    """

    def __init__(self, scenario: Scenario, *, block: int) -> None:
        population = populate(scenario)
        assert population.truth is not None  # sweeps run on the block model
        self._truth, self._block = population.truth, block
        self._learner, self._query = RunSpec(population.scenario).learner, only_query(population.scenario)
        self._devices = emulated_devices(population)
        self._totals: list[ScoreStatistic] = []

    def statistic(self, blocks: int) -> ScoreStatistic:
        """Return the statistic of the first blocks, at least one."""
        while (drawn := len(self._totals)) < blocks:
            ask = Ask(query=self._query, first=drawn * self._block, stop=(drawn + 1) * self._block)
            more, _ = self._devices.ask(ask)
            self._totals.append(self._totals[-1] + more if self._totals else more)
        return self._totals[blocks - 1]

    def scores(self, blocks: int) -> ClusteringScores:
        """Return how right the labels are that the first blocks tell."""
        stop_if_abandoned()
        users, statistic = blocks * self._block, self.statistic(blocks)
        return clustering_scores(learned(self._learner, self._query, statistic, users=users).cluster, self._truth)
