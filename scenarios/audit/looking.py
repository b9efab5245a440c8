"""The looks that an attacker takes at releases: each makes a score of a play, larger where the victim holds a."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from coordinator.protocol.arrays import Floats, Ints
from scenarios.audit.bounds import ordered
from scenarios.audit.laws import keys_of, patterns_of
from scenarios.audit.learned import learned
from scenarios.audit.neighbours import CHUNK
from scenarios.audit.playing import Played, Seen

MOST_CHUNKS = 8
FAR = 15
"""Differing bits are counted up to here where they are compared."""


def looks(played: Played, parts: Ints) -> dict[str, Floats]:
    """Return the scores of every look at what was released, by the look's name.

    Parameters
    ----------
    played : Played
        What was seen.
    parts : ndarray
        What each play is for; see `bounds.parts_of`.
    """
    victims = played.victims
    secret = played.secret[victims]
    stated: Floats = np.sum([seen.stated[victims] for seen in played.seen], axis=0)
    found = {"stated log-ratio": stated}
    if (agree := _agreement(played)) is not None:
        found["agreement"] = agree
    tables = {"releases": np.stack([part for seen in played.seen for part in _columns(played, seen)], axis=1)}
    if len(played.seen) > 1:
        for number, seen in enumerate(played.seen):
            tables[f"release {number}"] = np.stack(_columns(played, seen), axis=1)
    if (related := _related(played)) is not None:
        tables["equal noise"] = related
    tables |= _chunks(played)
    found |= {name: ordered(keys_of(table), secret, parts) for name, table in tables.items()}
    return found | learned(_features(played, found, related), secret, parts)


def _columns(played: Played, seen: Seen) -> list[Ints]:
    """Return all that is known of one query, as whole numbers: of the victim, and of its company."""
    victims, pairs = played.victims, seen.answers.pairs
    released, ours, theirs = patterns_of(seen.answers.bits), keys_of(seen.ours), keys_of(seen.theirs)
    told = [released[victims], seen.answers.answered[victims].astype(np.int64), ours[victims], theirs[victims]]
    told += [] if pairs is None else [keys_of(pairs)[victims]]
    told += [np.sign(seen.stated[victims]).astype(np.int64)]
    for step in played.company:
        other = victims + step
        told += [released[other], np.where(played.secret[other], ours[other], theirs[other])]
    return told


def _agreement(played: Played) -> Floats | None:
    """Return by how many bits releases are nearer to what is likeliest with a than to what is likeliest with b."""
    if any(seen.likely_ours is None for seen in played.seen):
        return None
    total = np.zeros(played.victims.size)
    for seen in played.seen:
        bits = seen.answers.bits
        assert seen.likely_ours is not None  # looked at above
        assert seen.likely_theirs is not None
        total += ((bits ^ seen.likely_theirs).sum(axis=1, dtype=np.int64) - (bits ^ seen.likely_ours).sum(axis=1))[
            played.victims
        ]
    return total


def _related(played: Played) -> Ints | None:
    """Return how many bits of noise differ between the victim's release, with either input, and what it goes with.

    That is the victim's next release, or one of its company's, whose noise is known.
    """
    victims, told = played.victims, []
    noises = [
        (one.answers.bits ^ one.likely_ours, one.answers.bits ^ one.likely_theirs)
        for one in played.seen
        if one.likely_ours is not None and one.likely_theirs is not None
    ]
    for step in played.company:
        for ours, theirs in noises:
            known = np.where(played.secret[:, None], ours, theirs)[victims + step]
            told += [_differing(ours[victims], known), _differing(theirs[victims], known)]
    for (one, two), (next_one, next_two) in pairwise(noises):
        told += [_differing(one[victims], next_one[victims]), _differing(two[victims], next_two[victims])]
    return np.stack(told, axis=1) if told else None


def _differing(
    one: np.ndarray[tuple[int, int], np.dtype[np.uint8]], two: np.ndarray[tuple[int, int], np.dtype[np.uint8]]
) -> Ints:
    width = min(one.shape[1], two.shape[1])  # two rounds may ask for releases of different lengths
    told: Ints = np.minimum((one[:, :width] ^ two[:, :width]).sum(axis=1, dtype=np.int64), FAR)
    return told


def _chunks(played: Played) -> dict[str, Ints]:
    """Return a few bits of long releases, with what they should say: low bits may tell what others hide."""
    seen, victims = played.seen[0], played.victims
    width = seen.query.bits
    if width <= CHUNK:
        return {}
    starts = sorted(
        {*range(0, width, CHUNK)} - {*range(CHUNK * MOST_CHUNKS // 2, width - CHUNK * MOST_CHUNKS // 2, CHUNK)}
    )
    pair = played.pair[victims]
    return {
        f"bits {first} to {min(first + CHUNK, width) - 1}": np.stack(
            [patterns_of(seen.answers.bits[victims, first : first + CHUNK]), pair], axis=1
        )
        for first in starts
    }


def _features(played: Played, found: dict[str, Floats], related: Ints | None) -> Floats:
    """Return what a learner is shown: bits, what they should say, other looks, and the public address."""
    victims = played.victims
    told: list[np.ndarray[Any, Any]] = [
        score[:, None] for name, score in found.items() if name in ("stated log-ratio", "agreement")
    ]
    told += [] if related is None else [related]
    address = [victims % 2, victims % 10, victims % 16, victims % 100, victims, played.pair[victims]]
    told += [np.stack(address, axis=1)]
    for seen in played.seen:
        told.append(seen.answers.bits[victims])
        if seen.likely_ours is not None and seen.likely_theirs is not None:
            lean = seen.likely_ours[victims].astype(np.int8) - seen.likely_theirs[victims].astype(np.int8)
            told.append(lean * (2 * seen.answers.bits[victims].astype(np.int8) - 1))
        told += [seen.answers.bits[victims + step] for step in played.company]
    return np.concatenate([part.astype(np.float32) for part in told], axis=1)
