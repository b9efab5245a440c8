"""The view of a server that knows who sent which release: what a device's answers, to one or several queries, tell."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np

from actors.device import Cohort
from actors.ratings import RatingsBlock, StoredRatings
from coordinator.protocol.arrays import Bits2, Bools, Floats, Indices2, Ints
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.channels import DUST, ROUNDED, Likelihood, LogRatio
from coordinator.protocol.checked import require_whole
from coordinator.protocol.coins import derive
from coordinator.protocol.custom import Mechanism, admitted
from coordinator.protocol.errors import InputError
from coordinator.protocol.trust_models import TWO_SERVERS
from scenarios.config.admission import checked_guarantee
from scenarios.config.mechanism_settings import designs, shared_names
from scenarios.studies.scrutiny.attacks import FEWEST, RELEASE_PARTS, Game, Observations, View, power_of, require_game
from scenarios.studies.scrutiny.mechanism_under_test import (
    SECRET,
    TINY,
    Choice,
    Neighbours,
    Rated,
    Size,
    coins_of,
    comparable,
    inputs,
    kind_and_settings,
    stored,
    subjects,
)
from scenarios.studies.scrutiny.release_laws import PILOTS, ClaimedLaw, LogRatios, Sketches, keys_of, patterns_of
from scenarios.studies.scrutiny.shuffling import finite_epsilon
from scenarios.studies.scrutiny.verdicts import ATTACK, AttackResult, Audit

ROUNDS = 4  # queries that attacks over several rounds look at
COMPANY = 3  # size of a group of devices with adjacent addresses, in attacks on neighbours: the victim is in the middle
AT_ONCE = 1 << 20  # numbers of sketches that are compared at once
MOST_PAIRS = 4  # pairs of inputs that one attack uses; a device's own pair depends on its public coins
SEARCHED = 1 << 18  # the largest number of releases that a search inspects
SEARCHING = derive(0, "devices that are searched")
"""The secret of these devices: their noise is not that of the devices on which an attack is measured."""
MOST_HELD = 1 << 24  # bits of releases and sketches in memory at once: of long ones there are fewer
CHUNK, MOST_CHUNKS = 8, 8  # bits of a long release that are inspected together, and the largest number of such chunks
FAR = 15  # differing bits are counted up to here where they are compared


NAMES = ("design", "guarantee", "claimed", "exact", "excess", "measured", "confidence", "held", "failures", "power")
"""What JSON says of an audit of releases, beside its attacks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseGame(Game):
    """Two inputs that are told apart by what devices release."""

    neighbours: Neighbours
    laws: tuple[ClaimedLaw, ...]  # of the queries that devices are asked in turn
    fitted: bool = True  # whether each device gets the pair of inputs that the channel tells apart best there
    company: bool = False  # whether the attacker knows the inputs of the devices around the victim


def law_facts(
    epsilon: Epsilon, log_ratio: LogRatio | None, *, dust: Fraction = Fraction(0), refused: str = ""
) -> dict[str, Any]:
    """Return what an exact channel says of a claim, by names of `Audit`: None where it cannot be enumerated.

    ``dust`` is by how much it may exceed the claim where a class states floats [nats]; ``refused`` why devices refuse
    such queries, if they do.
    """
    exact = None if log_ratio is None else float(log_ratio)  # the next float, and not above a claim that it is within
    if log_ratio is None or epsilon is None:
        excess, lines = None, [refused] if refused and epsilon is not None else []
    else:
        excess, lines = log_ratio.beyond(epsilon), [refused] if refused else []
        if not log_ratio.within(epsilon + dust):
            above = "" if exact == np.inf else f"{excess:.3g} "
            lines.append(f"exact epsilon {exact:.9g} is {above}above the claimed {float(epsilon):.9g}")
    return {"epsilon": epsilon, "exact": exact, "contradictions": tuple(lines), "facts": {"excess": excess}}


def release_audit(
    label: str, guarantee: str, law: Mapping[str, Any], attacks: tuple[AttackResult, ...], confidence: float
) -> Audit:
    """Return what is said of a mechanism's releases: what is promised, the exact law and attacks."""
    return Audit(
        **{**law, "facts": {**law["facts"], "guarantee": guarantee}},
        view="local",
        design=label,
        confidence=confidence,
        attacks=attacks,
        power=power_of(attacks, (1 - confidence) / len(attacks)),
        names=NAMES,
        attack_names=(*ATTACK, "right_at_most"),
    )


class ReleaseView(View[ReleaseGame]):
    """The server of the local model, of one mechanism: the first subject has a run's queries, others further kinds."""

    flag, seed, releases, most = "--trust local", 20261123, 1_000_000, 1 << 24
    parts, learnable = RELEASE_PARTS, 0

    def __init__(
        self,
        design: str | Mechanism,
        *,
        epsilon: Fraction | float | str = 1,
        settings: Choice | None = None,
        rounds: int = ROUNDS,
        items: int = TINY.items,
        rated: int = TINY.rated,
    ) -> None:
        nats = finite_epsilon(epsilon)
        require_whole("rounds", rounds, 2, 64)
        self._size = require_game(users=TINY.users, items=items, rated=rated)
        if kind_and_settings(design)[0].trust == TWO_SERVERS:
            raise InputError(f"design {design} is answered in shares, each uniform alone; give --trust two-servers")
        self._subjects = [
            replace(subject, label=subject.label.replace(" helpers=()", ""))
            for subject in subjects(design, settings or {})
        ]
        self.label = self._subjects[0].label
        self._queries = [
            [subject.query(self._size, nats, round_number=number) for number in range(rounds)]
            for subject in self._subjects
        ]

    @staticmethod
    def designs() -> list[str]:
        """Return the mechanisms of the local model and the curator's; see `View.designs`."""
        return [name for name in designs() if name not in shared_names()]

    def games(self, releases: int, coins: np.random.Generator) -> list[ReleaseGame]:
        """Return the games with a run's queries, then those with further kinds; see `View.games`."""
        self._laws = [
            tuple(ClaimedLaw(subject, query) for query in queries)
            for subject, queries in zip(self._subjects, self._queries, strict=True)
        ]
        self._coins, search = coins, _Search(self._size, releases, coins)
        games = list(search.games(self._laws[0]))
        for subject, laws in zip(self._subjects[1:], self._laws[1:], strict=True):
            kind = subject.label.removeprefix(self.label).strip()
            games += search.variants(kind, laws, after=self._laws[0][0])
        return games

    def observe(self, game: ReleaseGame, releases: int, coins: np.random.Generator) -> Observations:
        """Let devices answer a game's queries in turn; see `View.observe`."""
        laws = game.laws
        sketches = [law.sketch(stored([()], [0], law.query.items))[0] for law in laws]
        width = max(*(sketch.shape[1] for sketch in sketches), *(law.query.bits for law in laws))
        devices = max(FEWEST, min(releases // len(laws), MOST_HELD // (width * len(laws))))
        return observations_of(sample_attack(game, devices, coins))

    def verdict(self, attacks: tuple[AttackResult, ...], confidence: float) -> Audit:
        """Hold the claim against the channels of all queries, and attacks; see `View.verdict`."""
        first, every = self._laws[0][0], [law for laws in self._laws for law in laws]
        claimed, custom, rows = first.claimed, admitted(first.query.design), inputs(self._size, self._coins)
        ratios = [ratio for law in every if (ratio := law.log_ratio(rows)) is not None]
        likelihood = isinstance(first.channel, Likelihood) and claimed is not None
        law = law_facts(
            claimed,
            max(ratios, key=float) if len(ratios) == len(every) else None,  # None where one is unknown
            dust=ROUNDED + DUST * claimed if likelihood and claimed is not None else Fraction(0),
            refused=next((law.refusal for law in every if law.refusal), ""),
        )
        public = self._subjects[0].public
        guarantee = public.guarantee if custom is None else checked_guarantee(custom, first.query)
        return release_audit(self.label, guarantee, law, attacks, confidence)


class _Search:
    """A search for inputs: the worst ones are looked up in the channel, and others searched for in releases."""

    def __init__(self, size: Size, releases: int, coins: np.random.Generator) -> None:
        self._size, self._releases, self._coins = size, releases, coins

    def games(self, laws: tuple[ClaimedLaw, ...]) -> Iterator[ReleaseGame]:
        """Yield the games with a run's queries."""
        first, size, rows = laws[0], self._size, inputs(self._size, self._coins)
        pairs, rounds = comparable(rows, names_rated=first.names_rated), f"in {len(laws)} rounds"
        worst, unlike = _worst(first, rows, pairs), self._most_unlike(first, rows, pairs)
        yield _game("worst", "the two inputs that the channel tells apart best", worst, (first,))
        yield _game("searched", "two inputs that were found by search", unlike, (first,), fitted=False)
        yield _game("repeat", "the worst inputs, asked twice the same", worst, (first, first))
        meaning = "the worst inputs, beside devices whose inputs are known"
        yield _game("company", meaning, worst, (first,), company=True)
        yield _game("rounds", f"the worst inputs, {rounds}", worst, laws)
        yield _game("searched rounds", f"inputs found by search, {rounds}", unlike, laws, fitted=False)
        # What is inferred of one device: whether it rated an item, and how; it likes all others, or none.
        rated = range(1, max(2, min(size.rated, size.items)))
        others = [tuple((item, like) for item in rated) for like in (False, True)]
        liked, disliked = ([((0, like), *rest) for rest in others] for like in (True, False))
        sides = np.array([[0, 2], [1, 3]])
        if not first.names_rated:
            yield _game(
                "membership", f"whether an item was rated, {rounds}", Neighbours((*liked, *others), sides), laws
            )
        yield _game("attribute", f"whether an item is liked, {rounds}", Neighbours((*liked, *disliked), sides), laws)

    def variants(self, kind: str, laws: tuple[ClaimedLaw, ...], *, after: ClaimedLaw) -> Iterator[ReleaseGame]:
        """Yield the games with another kind of query, as that about some items only: alone, and after a run's first."""
        first, rows = laws[0], inputs(self._size, self._coins)
        description = kind.replace("pool=some", "about some items only")
        pairs = comparable(rows, names_rated=first.names_rated)
        worst, unlike = _worst(first, rows, pairs), self._most_unlike(first, rows, pairs)
        # What a round about all items has in common with one about some of them shows where only the latter's rating
        # differs: of two inputs that differ in both, equal noise tells nothing.
        differing = [{item for item, _ in {*rows[index]} ^ {*rows[other]}} for index, other in pairs.tolist()]
        single = pairs[[len(items) == 1 for items in differing]]
        alone = self._most_unlike(first, rows, single) if len(single) else unlike
        yield _game(f"worst {kind}", f"the worst inputs, {description}", worst, (first,))
        yield _game(f"searched {kind}", f"inputs found by search, {description}", unlike, (first,), fitted=False)
        meaning = "inputs that differ in one rating, found by search"
        meaning += f", in {len(laws)} rounds, from the second on {description}"
        yield _game(f"rounds {kind}", meaning, alone, (after, *laws[1:]), fitted=False)

    def _most_unlike(self, law: ClaimedLaw, rows: list[Rated], pairs: Ints) -> Neighbours:
        """Return the pairs of inputs whose releases differ most, whatever the channel claims."""
        # In releases of their own, on which nothing is measured
        user = self._coins.integers(len(rows), size=min(SEARCHED, self._releases, (1 << 24) // law.query.bits))
        ((bits, answered, _),) = answers([law], stored(rows, user, law.query.items), SEARCHING)
        least = np.full(len(pairs), -np.inf)
        for start in range(0, law.query.bits, CHUNK):
            part = patterns_of(bits[:, start : start + CHUNK]) + (1 << CHUNK) * ~answered
            counts = np.bincount(user * (2 << CHUNK) + part, minlength=len(rows) * (2 << CHUNK)).reshape(len(rows), -1)
            counts = counts[:, counts.any(axis=0)]
            least = np.maximum(least, _cautious_log_ratio(counts, np.bincount(user, minlength=len(rows)), pairs))
        return _of_places(rows, pairs[np.argsort(-least, kind="stable")[:MOST_PAIRS]])


def _game(name: str, meaning: str, neighbours: Neighbours, laws: tuple[ClaimedLaw, ...], **how: Any) -> ReleaseGame:
    new, claimed = len({law.query.id for law in laws}), laws[0].claimed  # What is claimed may be spent so many times
    about: dict[str, Any] = {"name": name, "meaning": meaning, "times": new, "epsilon": claimed and new * claimed}
    return ReleaseGame(neighbours=neighbours, laws=laws, **about, **how)


def _worst(law: ClaimedLaw, rows: list[Rated], pairs: Ints) -> Neighbours:
    """Return the few pairs of inputs that together lie farthest apart on most devices, as the channel claims it."""
    ratios = LogRatios(law)
    sketches, answered = law.of_inputs(rows, PILOTS)
    one_by_one = law.enumerable and not ratios.alike(sketches[pairs[0, 0]])
    step = 1 if one_by_one else max(1, AT_ONCE // sketches[0].size)
    far = np.zeros((len(pairs), PILOTS))
    for start in range(0, len(pairs), step):
        first_index, two = pairs[start : start + step].T
        apart = ratios.distance(np.concatenate(sketches[first_index]), np.concatenate(sketches[two])).reshape(
            -1, PILOTS
        )
        far[start : start + step] = np.where(answered[first_index] & answered[two], apart, 0.0)
    best: list[int] = []
    reached = np.zeros(PILOTS)
    for _ in range(MOST_PAIRS):
        gain = np.maximum(far, reached).sum(axis=1)
        best_column = int(np.argmax(gain))
        if best and gain[best_column] <= reached.sum() * 1.01:
            break
        best.append(best_column)
        reached = np.maximum(reached, far[best_column])
    return _of_places(rows, pairs[best])


def _cautious_log_ratio(counts: Ints, devices: Ints, pairs: Ints) -> Floats:
    """Return a cautious log-ratio of one release's shares for each pair of inputs, the largest over releases."""
    shares = np.log((counts + 0.5) / (devices + 1.0)[:, None])
    spread = 1.0 / (counts + 0.5)
    largest = np.full(len(pairs), -np.inf)
    for column in range(counts.shape[1]):
        share, noise = shares[:, column], spread[:, column]
        apart = np.abs(share[pairs[:, 0]] - share[pairs[:, 1]])
        largest = np.maximum(largest, apart - 4 * np.sqrt(noise[pairs[:, 0]] + noise[pairs[:, 1]]))
    return largest


def _of_places(rows: list[Rated], pairs: Ints) -> Neighbours:
    """Return pairs of inputs, without the inputs that no pair has."""
    used, places = np.unique(pairs, return_inverse=True)
    return Neighbours(tuple(rows[index] for index in used.tolist()), places.reshape(pairs.shape))


Answers = tuple[Bits2, Bools, Indices2 | None]
"""All devices' answers to one query: their bits, whether they answered, and the public pairs of the bits."""


def answers(laws: Sequence[ClaimedLaw], ratings: StoredRatings, secret: bytes = SECRET) -> list[Answers]:
    """Return devices' answers to these queries in turn, as they would be in a run."""
    # With another secret their noise differs: events are selected on some releases and measured on others.
    devices, rounds = Cohort(ratings, secret, 0, ratings.users, None), list[Answers]()
    for law in laws:
        if law.refusal:
            coins = coins_of(law.query, 0, ratings.users, secret)
            bits = law.device.randomize(
                law.device.sketch(law.query, RatingsBlock(ratings, coins), coins).private, law.query, coins
            )
            rounds.append((bits, np.ones(ratings.users, np.bool_), None))
            continue
        release = devices.answer(law.query, 0, ratings.users)
        rounds.append((release.unpacked(), release.answered_mask(), release.public_pairs()))
    return rounds


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenQuery:
    """The attacker's knowledge of one query's releases, device by device; arrays of one length."""

    # The attacker also knows the device's sketch for either input: no promise rests on the coins that it is made with.

    answers: Answers
    ours: Sketches  # with input a, shape (devices, k)
    theirs: Sketches  # with input b
    log_ratio: Floats  # log-ratio of the release, by the claimed channel
    likely: tuple[Bits2, Bits2] | None  # the likeliest releases with input a and b, shape (devices, bits), if known

    @property
    def bits(self) -> Bits2:
        """The releases' bits, shape (devices, bits)."""
        return self.answers[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackSample:
    """The observations of one attack."""

    queries: list[SeenQuery]
    victims: Ints  # addresses of the devices that are attacked, those whose sketches may differ
    secret: Bools  # whether each device, victim or not, holds input a
    pair: Ints  # which pair of inputs each device has
    company: tuple[int, ...] = ()  # where devices stand whose inputs the attacker knows, counted from the victim


def sample_attack(game: ReleaseGame, devices: int, coins: np.random.Generator) -> AttackSample:
    """Let devices answer a game's queries in turn, of which one may come twice; each holds an input by a fair coin."""
    # If it is ``fitted``, no device is a victim on which no pair of inputs is told apart; else pairs are drawn.
    laws, (rows, pairs) = game.laws, game.neighbours
    secret = coins.random(devices) < 0.5
    sketches = _sketches(laws[0], game.neighbours, devices)
    pair, able = coins.integers(len(pairs), size=devices), np.ones(devices, np.bool_)
    if game.fitted:
        ratios = LogRatios(laws[0])  # of a likelihood it says in which pairs sketches differ
        far = np.stack([ratios.distance(sketches[first], sketches[other]) for first, other in pairs.tolist()])
        pair, able = far.argmax(axis=0), far.max(axis=0) > 0
    user = pairs[pair, np.where(secret, 0, 1)]
    rounds, queries = answers(laws, stored(rows, user, laws[0].query.items)), list[SeenQuery]()
    for number, (law, answer) in enumerate(zip(laws, rounds, strict=True)):
        if number and law is laws[number - 1]:
            sides = queries[-1].ours, queries[-1].theirs
        else:
            sketches = _sketches(law, game.neighbours, devices) if number else sketches
            sides = _of_pairs(sketches, pairs[:, 0], pair), _of_pairs(sketches, pairs[:, 1], pair)
        queries.append(_seen(law, answer, *sides))
    victims = np.flatnonzero(able)
    if game.company:
        victims = victims[(victims % COMPANY == 1) & (victims < devices - 1)]
    steps = (-1, 1) if game.company else ()
    return AttackSample(queries=queries, victims=victims, secret=secret, pair=pair, company=steps)


def _sketches(law: ClaimedLaw, neighbours: Neighbours, devices: int) -> dict[int, Sketches]:
    """Return all devices' sketches for each of the inputs."""
    rows, same = neighbours.rows, np.zeros(devices, np.int64)
    places = np.unique(neighbours.pairs).tolist()
    return {index: law.sketch(stored([rows[index]], same, law.query.items))[0] for index in places}


def _of_pairs(sketches: dict[int, Sketches], side: Ints, pair: Ints) -> Sketches:
    """Return each device's sketch with the input that one side of its pair is."""
    mixed = np.empty_like(next(iter(sketches.values())))
    for number, index in enumerate(side.tolist()):
        mixed[pair == number] = sketches[index][pair == number]
    return mixed


def _seen(law: ClaimedLaw, answer: Answers, ours: Sketches, theirs: Sketches) -> SeenQuery:
    ratios = LogRatios(law)
    sides = ratios.likeliest(ours), ratios.likeliest(theirs)
    likely = None if sides[0] is None or sides[1] is None else (sides[0], sides[1])
    log_ratio = ratios.of_releases(ours, theirs, answer[0])
    return SeenQuery(answers=answer, ours=ours, theirs=theirs, log_ratio=log_ratio, likely=likely)


def observations_of(sample: AttackSample) -> Observations:
    """Return scores, numbers and features of what is seen of every victim."""
    victims, queries = sample.victims, sample.queries
    # Which bits of each release are noise with input a, and with b, where that is known
    noises = [(query.bits ^ query.likely[0], query.bits ^ query.likely[1]) for query in queries if query.likely]
    scores = {"stated log-ratio": np.sum([query.log_ratio[victims] for query in queries], axis=0)}
    if len(noises) == len(queries):  # by how many bits releases are nearer to what is likeliest with a
        nearer = [(theirs.sum(axis=1, dtype=np.int64) - ours.sum(axis=1))[victims] for ours, theirs in noises]
        scores["agreement"] = np.asarray(np.sum(nearer, axis=0, dtype=np.float64))
    columns = [_columns(sample, query) for query in queries]
    tables = {"releases": np.stack([part for of_query in columns for part in of_query], axis=1)}
    if len(columns) > 1:
        tables |= {f"release {number}": np.stack(of_query, axis=1) for number, of_query in enumerate(columns)}
    if (noise := _equal_noise(sample, noises)) is not None:
        tables["equal noise"] = noise
    keys = {name: keys_of(table) for name, table in (tables | _chunks(sample)).items()}
    features = _features(sample, list(scores.values()), noise)
    return Observations(secret=sample.secret[victims], scores=scores, keys=keys, features=features)


def _columns(sample: AttackSample, query: SeenQuery) -> list[Ints]:
    """Return the attacker's knowledge of one query, as whole numbers: of the victim, and of its company."""
    victims, (bits, answered, pairs) = sample.victims, query.answers
    releases, ours, theirs = patterns_of(bits), keys_of(query.ours), keys_of(query.theirs)
    columns = [releases[victims], answered[victims].astype(np.int64), ours[victims], theirs[victims]]
    columns += [] if pairs is None else [keys_of(pairs)[victims]]
    columns += [np.sign(query.log_ratio[victims]).astype(np.int64)]
    for step in sample.company:
        other = victims + step
        columns += [releases[other], np.where(sample.secret[other], ours[other], theirs[other])]
    return columns


def _equal_noise(sample: AttackSample, noises: Sequence[tuple[Bits2, Bits2]]) -> Ints | None:
    """Return how many bits of noise differ between the victim's release and its next one, or those of its company."""
    victims, counts = sample.victims, []
    for step in sample.company:
        for ours, theirs in noises:
            noise = np.where(sample.secret[:, None], ours, theirs)[victims + step]
            counts += [_differing_bits(ours[victims], noise), _differing_bits(theirs[victims], noise)]
    for sides, next_sides in pairwise(noises):
        counts += [_differing_bits(a[victims], b[victims]) for a, b in zip(sides, next_sides, strict=True)]
    return np.stack(counts, axis=1) if counts else None


def _differing_bits(first_bits: Bits2, two: Bits2) -> Ints:
    width = min(first_bits.shape[1], two.shape[1])  # two rounds may ask for releases of different lengths
    return np.asarray(np.minimum((first_bits[:, :width] ^ two[:, :width]).sum(axis=1, dtype=np.int64), FAR))


def _chunks(sample: AttackSample) -> dict[str, Ints]:
    """Return a few bits of long releases, with their pair of inputs: single bits may leak more than the whole."""
    first, victims = sample.queries[0], sample.victims
    width, ends = first.bits.shape[1], CHUNK * MOST_CHUNKS // 2
    if width <= CHUNK:
        return {}
    starts = sorted({*range(0, width, CHUNK)} - {*range(ends, width - ends, CHUNK)})
    parts = {start: patterns_of(first.bits[victims, start : start + CHUNK]) for start in starts}
    return {
        f"bits {start} to {min(start + CHUNK, width) - 1}": np.stack([part, sample.pair[victims]], axis=1)
        for start, part in parts.items()
    }


def _features(sample: AttackSample, scores: Sequence[Floats], noise: Ints | None) -> Floats:
    """Return a learner's features: bits, the likeliest bits, other scores, and the public address."""
    victims = sample.victims
    columns: list[np.ndarray[Any, Any]] = [score[:, None] for score in scores]
    columns += [] if noise is None else [noise]
    address = [victims % 2, victims % 10, victims % 16, victims % 100, victims, sample.pair[victims]]
    columns += [np.stack(address, axis=1)]
    for query in sample.queries:
        columns.append(query.bits[victims])
        if query.likely is not None:
            ours, theirs = (side[victims].astype(np.int8) for side in query.likely)
            columns.append((ours - theirs) * (2 * query.bits[victims].astype(np.int8) - 1))
        columns += [query.bits[victims + step] for step in sample.company]
    return np.concatenate([part.astype(np.float32) for part in columns], axis=1)
