"""What every bound of online recommendation takes for granted, checked in one place."""

from __future__ import annotations

from coordinator.protocol.errors import InputError


def check(rounds: int, objects: int, voters: int, peers: int, diversity: int = 0, radius: int = 0) -> None:
    """Refuse numbers that no client and no voters can have.

    Parameters
    ----------
    rounds, objects : int
        T and m, at least 2 each.
    voters, peers : int
        N and P, ``N >= P >= 1``.
    diversity, radius : int
        D and R, 0 or more.

    Raises
    ------
    InputError
        Naming the number and the remedy.
    """
    if rounds < 2:
        raise InputError(f"rounds is {rounds}: the bounds hold for T >= 2; give at least 2")
    if objects < 2:
        raise InputError(f"objects is {objects}: a round has m >= 2 objects; give at least 2")
    if peers < 1:
        raise InputError(f"peers is {peers}: the bounds hold for P >= 1; give at least 1")
    if voters < peers:
        raise InputError(f"voters is {voters}, fewer than peers {peers}: peers are voters; give N >= P")
    if diversity < 0 or radius < 0:
        raise InputError(f"diversity is {diversity} and radius {radius}: they count rounds; give 0 or more")


def two_patterns(voters: int, peers: int) -> None:
    """Refuse numbers for which a lower bound's two groups of peers do not fit.

    Raises
    ------
    InputError
        Unless ``N >= 2P``.
    """
    if voters < 2 * peers:
        raise InputError(
            f"voters is {voters} and peers {peers}: the lower bound sets two groups of P voters against each other; "
            "give N >= 2P"
        )
