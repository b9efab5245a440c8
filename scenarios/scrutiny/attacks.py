"""The attacks: which two inputs are told apart, what devices are asked for it, and how their releases are read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from coordinator.protocol.arrays import Floats, Ints
from coordinator.protocol.coins import derive
from coordinator.protocol.mechanisms import half_of
from coordinator.protocol.messages import Query
from scenarios.scrutiny.bounds import learned, ordered
from scenarios.scrutiny.mechanism import Neighbours, Rated, Size, comparable, inputs, stored
from scenarios.scrutiny.sampling import Asking, Laws, Played, Seen, keys_of, patterns_of

PILOTS = 48
"""Devices whose sketches of every input are compared."""
AT_ONCE = 1 << 20
"""Numbers of sketches that are compared at once."""
MOST_PAIRS = 4
"""Pairs of inputs that one attack uses; a device's own pair depends on its public coins."""
SEARCHED = 1 << 18
"""Releases that a search looks at, at most."""
SEARCHING = derive(0, "devices that are searched")
"""The secret of these devices: their noise is not that of the devices on which an attack is measured."""
CHUNK = 8
"""Bits of a long release that a search looks at together."""


def stated_worst(asking: Asking, query: Query, rows: list[Rated], pairs: Ints) -> Neighbours:
    """Return the few pairs of inputs that together lie farthest apart on most devices, as the channel states it."""
    laws = Laws(asking, query)
    told = [asking.sketch(query, stored([row], [0] * PILOTS, query.items)) for row in rows]
    sketches, answered = (np.stack(parts) for parts in zip(*told, strict=True))
    one_by_one = laws.told and not laws.alike(sketches[pairs[0, 0]])
    step = 1 if one_by_one else max(1, AT_ONCE // sketches[0].size)
    far = np.zeros((len(pairs), PILOTS))
    for first in range(0, len(pairs), step):
        one, two = pairs[first : first + step].T
        apart = laws.distance(np.concatenate(sketches[one]), np.concatenate(sketches[two])).reshape(-1, PILOTS)
        far[first : first + step] = np.where(answered[one] & answered[two], apart, 0.0)
    chosen: list[int] = []
    reached = np.zeros(PILOTS)
    for _ in range(MOST_PAIRS):
        gain = np.maximum(far, reached).sum(axis=1)
        best = int(np.argmax(gain))
        if chosen and gain[best] <= reached.sum() * 1.01:
            break
        chosen.append(best)
        reached = np.maximum(reached, far[best])
    return _kept(rows, pairs[chosen])


def searched(
    asking: Asking, query: Query, rows: list[Rated], pairs: Ints, *, releases: int, coins: np.random.Generator
) -> Neighbours:
    """Return the pairs of inputs whose releases differ most, whatever the channel states, in releases of their own."""
    devices = min(SEARCHED, releases, (1 << 24) // query.bits)
    own = coins.integers(len(rows), size=devices)
    (answers,) = asking.answers([query], stored(rows, own, query.items), SEARCHING)
    least = np.full(len(pairs), -np.inf)
    for first in range(0, query.bits, CHUNK):
        seen = patterns_of(answers.bits[:, first : first + CHUNK]) + (1 << CHUNK) * ~answers.answered
        counts = np.bincount(own * (2 << CHUNK) + seen, minlength=len(rows) * (2 << CHUNK)).reshape(len(rows), -1)
        counts = counts[:, counts.any(axis=0)]
        least = np.maximum(least, _least(counts, np.bincount(own, minlength=len(rows)), pairs))
    return _kept(rows, pairs[np.argsort(-least, kind="stable")[:MOST_PAIRS]])


def _least(counts: Ints, devices: Ints, pairs: Ints) -> Floats:
    """Return a cautious log-ratio of one release's shares for each pair of inputs, the largest over releases."""
    shares = np.log((counts + 0.5) / (devices + 1.0)[:, None])
    spread = 1.0 / (counts + 0.5)
    found = np.full(len(pairs), -np.inf)
    for column in range(counts.shape[1]):
        share, noise = shares[:, column], spread[:, column]
        apart = np.abs(share[pairs[:, 0]] - share[pairs[:, 1]])
        found = np.maximum(found, apart - 4 * np.sqrt(noise[pairs[:, 0]] + noise[pairs[:, 1]]))
    return found


def _kept(rows: list[Rated], pairs: Ints) -> Neighbours:
    kept, places = np.unique(pairs, return_inverse=True)
    return Neighbours(tuple(rows[place] for place in kept.tolist()), places.reshape(pairs.shape))


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One attack before it is made."""

    name: str
    meaning: str
    neighbours: Neighbours
    queries: tuple[Query, ...]
    fitted: bool = True
    company: bool = False


def plans(
    asking: Asking, queries: tuple[Query, ...], size: Size, *, releases: int, coins: np.random.Generator
) -> Iterator[Plan]:
    """Yield the attacks; the worst neighbours are looked up in the channel, and others are searched for."""
    first = queries[0]
    named = half_of(first.design).names_rated
    rows = inputs(size, coins)
    pairs = comparable(rows, names_rated=named)
    worst = stated_worst(asking, first, rows, pairs)
    found = searched(asking, first, rows, pairs, releases=releases, coins=coins)
    rounds = f"in {len(queries)} rounds"
    yield Plan(
        name="worst", meaning="the two inputs that the channel tells apart best", neighbours=worst, queries=(first,)
    )
    yield Plan(
        name="searched",
        meaning="two inputs that were found by search",
        neighbours=found,
        queries=(first,),
        fitted=False,
    )
    yield Plan(
        name="repeat", meaning="the worst inputs, asked twice the same", neighbours=worst, queries=(first, first)
    )
    yield Plan(
        name="company",
        meaning="the worst inputs, beside devices whose inputs are known",
        neighbours=worst,
        queries=(first,),
        company=True,
    )
    yield Plan(name="rounds", meaning=f"the worst inputs, {rounds}", neighbours=worst, queries=queries)
    yield Plan(
        name="searched rounds",
        meaning=f"inputs found by search, {rounds}",
        neighbours=found,
        queries=queries,
        fitted=False,
    )
    for name, meaning, two in _inferences(size, named=named):
        yield Plan(name=name, meaning=f"{meaning}, {rounds}", neighbours=two, queries=queries)


def _inferences(size: Size, *, named: bool) -> Iterator[tuple[str, str, Neighbours]]:
    """Yield what is inferred of one device: whether it rated an item, and how; it likes all others, or none."""
    others = [tuple((item, like) for item in range(1, max(2, min(size.rated, size.items)))) for like in (False, True)]
    liked, disliked = ([((0, like), *rest) for rest in others] for like in (True, False))
    pairs = np.array([[0, 2], [1, 3]])
    if not named:
        yield "membership", "whether an item was rated", Neighbours((*liked, *others), pairs)
    yield "attribute", "whether an item is liked", Neighbours((*liked, *disliked), pairs)


def plans_of(
    kind: str,
    asking: Asking,
    queries: tuple[Query, ...],
    size: Size,
    *,
    after: Query,
    releases: int,
    coins: np.random.Generator,
) -> Iterator[Plan]:
    """Yield the attacks on another kind of query, as that about some items only: alone, and after a first query.

    Parameters
    ----------
    kind : str
        What these queries are, as labels of subjects say it.
    asking : Asking
        How they are asked.
    queries : tuple of Query
        One for each round.
    size : Size
        Of the catalogue, and of what a device rated.
    after : Query
        The first query of a run, which stands in place of that of round 0 in the attack over several rounds.
    releases : int
        How many releases a search looks at.
    coins : numpy.random.Generator
        What is drawn at random.
    """
    first, told = queries[0], kind.replace("pool=some", "about some items only")
    rows = inputs(size, coins)
    pairs = comparable(rows, names_rated=half_of(first.design).names_rated)
    worst = stated_worst(asking, first, rows, pairs)
    found = searched(asking, first, rows, pairs, releases=releases, coins=coins)
    yield Plan(name=f"worst {kind}", meaning=f"the worst inputs, {told}", neighbours=worst, queries=(first,))
    yield Plan(
        name=f"searched {kind}",
        meaning=f"inputs found by search, {told}",
        neighbours=found,
        queries=(first,),
        fitted=False,
    )
    yield Plan(
        name=f"rounds {kind}",
        meaning=f"inputs found by search, in {len(queries)} rounds, from the second on {told}",
        neighbours=found,
        queries=(after, *queries[1:]),
        fitted=False,
    )


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
