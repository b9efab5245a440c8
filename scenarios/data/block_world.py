"""The block model that a scenario says it is, as moments take it, and what is chosen by it before anything is asked."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from coordinator.server.design import World
from coordinator.server.moments.blocks import BlockParameters
from scenarios.data.populations import Population, class_shares, cluster_sizes
from scenarios.given.config import Scenario


def block_parameters(scenario: Scenario) -> BlockParameters:
    """Return the block model of a scenario, as moments take it."""
    return BlockParameters(
        rated=scenario.complete().rated or 0,
        like=np.array(scenario.like),
        class_shares=class_shares(scenario),
        cluster_sizes=cluster_sizes(scenario),
    )


def known_world(scenario: Scenario) -> World:
    """Return what a filled-in scenario's mechanism is told, the block model with it where there is one."""
    world = scenario.world
    return world if scenario.ratings is not None else replace(world, block=block_parameters(scenario))


def settle(scenario: Scenario) -> Scenario:
    """Return a filled-in scenario with what its mechanism leaves to be chosen made a number."""
    settled = scenario.settings.settle(known_world(scenario), scenario.decoder)
    return scenario.model_copy(update={"settings": settled})


def settled(population: Population) -> Population:
    """Return the population with its scenario settled; see `settle`."""
    return population.with_scenario(settle(population.scenario))
