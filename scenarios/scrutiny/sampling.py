"""Samples of releases: devices with one of two inputs, or with one sketch, answer as they do in a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from actors.ratings import StoredRatings
from coordinator.protocol.arrays import Bits2, Bools, Floats, Indices2, Ints
from coordinator.protocol.channels import Likelihood
from coordinator.protocol.messages import Query
from scenarios.scrutiny.laws import ClaimedLaw, LogRatios, Sketches
from scenarios.scrutiny.mechanism import SECRET, Neighbours, cohort, coins_of, stored

COMPANY = 3
"""Size of a group of devices with adjacent addresses, in attacks on neighbours: the victim is in the middle."""
BLOCK = 1 << 15
"""Number of devices that are sampled at once for releases of one sketch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampledAnswers:
    """All devices' answers to one query: their bits, whether they answered, and the public pairs of the bits."""

    bits: Bits2
    answered: Bools
    pairs: Indices2 | None


def answers(laws: Sequence[ClaimedLaw], ratings: StoredRatings, secret: bytes = SECRET) -> list[SampledAnswers]:
    """Return devices' answers to these queries in turn, as they would be in a run.

    With another ``secret`` their noise differs: events are selected on some releases and measured on others.
    """
    devices, rounds = cohort(ratings, 0, ratings.users, secret=secret), []
    for law in laws:
        if law.refusal:
            coins = coins_of(law.query, 0, ratings.users, secret)
            bits = law.device.randomize(law.device.sketch(law.query, ratings, coins).private, law.query, coins)
            rounds.append(SampledAnswers(bits=bits, answered=np.ones(ratings.users, np.bool_), pairs=None))
            continue
        release = devices.answer(law.query, 0, ratings.users)
        rounds.append(
            SampledAnswers(bits=release.unpacked(), answered=release.answered_mask(), pairs=release.public_pairs())
        )
    return rounds


def releases_of_sketch(law: ClaimedLaw, sketch: Ints, devices: int) -> Iterator[Bits2]:
    """Yield the releases of devices that all have one private sketch, block by block.

    Where the channel is a likelihood given public coins, they all have one public stream, too.
    """
    public = law.streams(1)[0]
    for first in range(0, devices, BLOCK):
        private, coins = cast("Bits2", np.repeat(sketch[None], BLOCK, axis=0)), coins_of(law.query, first, BLOCK)
        if isinstance(law.channel, Likelihood):
            yield law.channel.draw(private, np.full(BLOCK, public), coins.release)
        else:
            yield law.device.randomize(private, law.query, coins)


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """The attacker's knowledge of one query's releases, device by device; arrays of one length.

    The attacker also knows the device's sketch for either input: no promise rests on the coins that
    a sketch is made with.
    """

    query: Query
    answers: SampledAnswers
    ours: Sketches  # with input a, shape (devices, k)
    theirs: Sketches  # with input b
    log_ratio: Floats  # log-ratio of the release, by the claimed channel
    likely_ours: Bits2 | None  # the likeliest release with input a, shape (devices, bits)
    likely_theirs: Bits2 | None  # the same with b; None where the other one is


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackSample:
    """The observations of one attack."""

    observations: list[Observation]  # a query each
    victims: Ints  # addresses of the devices that are attacked, those whose sketches may differ
    secret: Bools  # whether each device, victim or not, holds input a
    pair: Ints  # which pair of inputs each device has
    company: tuple[int, ...] = ()  # where devices stand whose inputs the attacker knows, counted from the victim


def sample_attack(
    laws: Sequence[ClaimedLaw],
    neighbours: Neighbours,
    devices: int,
    coins: np.random.Generator,
    *,
    fitted: bool = True,
    company: bool = False,
) -> AttackSample:
    """Let devices answer the queries in turn, of which one may come twice; each holds an input by a fair coin.

    If ``fitted``, each device gets the pair of inputs that the channel tells apart best there, and is no victim where
    none is; else pairs are drawn. In ``company`` the attacker knows the inputs of the devices around the victim.
    """
    secret = coins.random(devices) < 0.5
    rows, pairs = neighbours
    sketches = _sketches(laws[0], neighbours, devices)
    pair, able = coins.integers(len(pairs), size=devices), np.ones(devices, np.bool_)
    if fitted:
        ratios = LogRatios(laws[0])  # of a likelihood it says in which pairs sketches differ
        far = np.stack([ratios.distance(sketches[one], sketches[other]) for one, other in pairs.tolist()])
        pair, able = far.argmax(axis=0), far.max(axis=0) > 0
    user = pairs[pair, np.where(secret, 0, 1)]
    rounds = answers(laws, stored(rows, user, laws[0].query.items))
    observations: list[Observation] = []
    for number, (law, answer) in enumerate(zip(laws, rounds, strict=True)):
        if number and law is laws[number - 1]:
            sides = observations[-1].ours, observations[-1].theirs
        else:
            sketches = _sketches(law, neighbours, devices) if number else sketches
            sides = _of_pairs(sketches, pairs[:, 0], pair), _of_pairs(sketches, pairs[:, 1], pair)
        observations.append(_observation(law, answer, *sides))
    victims = np.flatnonzero(able)
    if company:
        victims = victims[(victims % COMPANY == 1) & (victims < devices - 1)]
    steps = (-1, 1) if company else ()
    return AttackSample(observations=observations, victims=victims, secret=secret, pair=pair, company=steps)


def _sketches(law: ClaimedLaw, neighbours: Neighbours, devices: int) -> dict[int, Sketches]:
    """Return all devices' sketches for each of the inputs."""
    rows, same = neighbours.rows, np.zeros(devices, np.int64)
    places = np.unique(neighbours.pairs).tolist()
    return {place: law.sketch(stored([rows[place]], same, law.query.items))[0] for place in places}


def _of_pairs(sketches: dict[int, Sketches], side: Ints, pair: Ints) -> Sketches:
    """Return each device's sketch with the input that one side of its pair is."""
    mixed = np.empty_like(next(iter(sketches.values())))
    for number, place in enumerate(side.tolist()):
        mixed[pair == number] = sketches[place][pair == number]
    return mixed


def _observation(law: ClaimedLaw, answer: SampledAnswers, ours: Sketches, theirs: Sketches) -> Observation:
    ratios = LogRatios(law)
    likely_ours, likely_theirs = ratios.likeliest(ours), ratios.likeliest(theirs)
    both = likely_ours is not None and likely_theirs is not None
    return Observation(
        query=law.query,
        answers=answer,
        ours=ours,
        theirs=theirs,
        log_ratio=ratios.of_releases(ours, theirs, answer.bits),
        likely_ours=likely_ours if both else None,
        likely_theirs=likely_theirs if both else None,
    )
