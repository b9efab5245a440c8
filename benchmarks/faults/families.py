"""All families of runs; a history's number determines its family."""

from benchmarks.faults.online import CLIENTS_SERVED
from benchmarks.faults.queries import QUERIES, behind_servers, behind_shuffler, over_periods
from benchmarks.faults.two_tier import BATCHES
from benchmarks.faults.world import Family, World
from scenarios.store.manifest import RUN

FAMILIES: dict[str, Family] = {family.name: family for family in (QUERIES, CLIENTS_SERVED, BATCHES)}


def family_of(number: int) -> Family:
    """Return the family of a history."""
    return list(FAMILIES.values())[number % len(FAMILIES)]


def world_of(number: int, index: int) -> World:
    """Return the world at a place of a history's family.

    Of four runs of queries two go through a shuffler, and one through two servers; the other one is over periods in the
    first world.
    """
    family = family_of(number)
    world = family.worlds[index]
    if family.name != RUN:
        return world
    plain = (lambda same: same) if index else over_periods
    return (plain, behind_shuffler, behind_servers, behind_shuffler)[number // len(FAMILIES) % 4](world)


def numbers_of(first: int, count: int, family: str | None) -> list[int]:
    """Return the next ``count`` histories from the ``first`` on, of one family or of all."""
    if family is None:
        return list(range(first, first + count))
    many, index = len(FAMILIES), list(FAMILIES).index(family)
    start = first + (index - first) % many
    return list(range(start, start + many * count, many))
