"""Audits of sums that two servers publish: rounds of real devices, their shares and both real servers.

The attacker is one of the servers, which knows its own noise and shares, or whoever reads what is published. It knows
what all other devices hold, and which two inputs the victim has by a fair coin.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from actors.device import Cohort, ones_in
from actors.shares import share_permit, vectors_of
from coordinator.aggregators.gathering import LocalShares, ShareRoute, ShareServer
from coordinator.protocol.agreement import Agreement
from coordinator.protocol.arrays import Bools, Floats, Floats2, Ints2, Words32
from coordinator.protocol.budget import ADD_REMOVE, as_float
from coordinator.protocol.coins import SEED_BYTES, derive
from coordinator.protocol.errors import WithheldError
from coordinator.protocol.hashing import expansions
from coordinator.protocol.mechanisms.totals import CHANGES, DEVIATION, HONEST, LEAST_ANSWERS, SharedVector
from coordinator.protocol.messages import Query, pack
from coordinator.protocol.noise import NoiseLaw, gaussian_delta, skellam_delta
from coordinator.protocol.shares import (
    SEEDS_SERVER,
    SIDES,
    WORD_BYTES,
    WORDS_SERVER,
    SeedShare,
    WordShare,
    opened,
    secret_of,
)
from scenarios.backends.share_servers import KINDS
from scenarios.studies.scrutiny.attacks import CONFIDENCE, central_attack, require_game
from scenarios.studies.scrutiny.mechanism_under_test import (
    PUBLIC,
    Choice,
    MechanismUnderTest,
    Rated,
    Size,
    coins_of,
    inputs,
    kind_and_settings,
    small_run,
    stored,
    subject_of,
)
from scenarios.studies.scrutiny.shuffling import finite_epsilon
from scenarios.studies.scrutiny.verdicts import ServersAudit

USERS, RELEASES, DELTA, ITEMS, RATED = 20, 100_000, 1e-3, 6, 3
FEWEST_ROUNDS = 1500
BLOCK = 64  # rounds that one pair of servers plays
SHORT = 0.5  # share of what is looked at that is of rounds in which half of the devices are gone
NEAR = 1 << 12  # words of a difference that is not hidden are smaller
FLOOR = 1e-300
PUBLISHED, SHORT_ROUNDS = "published", "short rounds"

MakeServer = Callable[[str, bytes, bytes, ShareRoute, Agreement | None], ShareServer[Any]]
"""Makes one of two servers from its side, secret, permit, the way of its shares, and what was agreed."""


def server_of(
    side: str, secret: bytes, permit: bytes, route: ShareRoute, agreement: Agreement | None
) -> ShareServer[Any]:
    """Return one of the two servers of runs."""
    (kind,) = (server_kind for server_kind in KINDS if server_kind.side == side)
    return kind(secret, permit, route, agreement)


class Duel(NamedTuple):
    """Two inputs that are told apart, with a device's vector of either; all other devices hold the first."""

    rows: tuple[Rated, Rated]
    vectors: Ints2  # shape (2, width)

    @property
    def changes(self) -> int:
        """Coordinates of the sums that differ, each by one."""
        return int(np.abs(self.vectors[0] - self.vectors[1]).sum())


def farthest_inputs(query: Query, mechanism: SharedVector, size: Size) -> Duel:
    """Return the two inputs whose vectors differ most; of devices that are added or removed, one has no likes."""
    rows = inputs(size, np.random.default_rng(0))
    ratings = stored(rows, np.arange(len(rows)), query.items)
    vectors = vectors_of(ones_in(query, ratings, coins_of(query, 0, len(rows))), mechanism.width(query)).astype(
        np.int64
    )
    # A device that likes more than counts names some of them by private coins
    able = [index for index, row in enumerate(rows) if sum(like for _, like in row) <= mechanism.ones(query)]
    others = [index for index in able if mechanism.relation_of(query) != ADD_REMOVE or not vectors[index].any()]
    far = {(first, other): int(np.abs(vectors[first] - vectors[other]).sum()) for first in able for other in others}
    first, other = max(far, key=lambda pair: far[pair])
    return Duel((rows[first], rows[other]), np.stack([vectors[first], vectors[other]]))


def exact_epsilon(query: Query, mechanism: SharedVector, changes: int, delta: float) -> float:
    """Return the smallest epsilon that one dose keeps at a delta if so many coordinates change by one [nats]."""
    if not delta:
        return as_float(query.epsilon) * changes / query.parameters[CHANGES]
    law, deviation = skellam_delta if mechanism.by_devices(query) else gaussian_delta, query.parameters[DEVIATION]
    low, high = 1e-6, 1e-3
    while law(deviation, changes=changes, epsilon=high) > delta:
        low, high = high, 2 * high
    while high / low > 1 + 1e-6:
        middle = (low * high) ** 0.5
        low, high = (low, middle) if law(deviation, changes=changes, epsilon=middle) <= delta else (middle, high)
    return high


class NoiseLogs:
    """Logarithms of the chances of a sum of so many draws of a law; what cannot be has that of next to nothing."""

    def __init__(self, law: NoiseLaw, draws: int) -> None:
        values, chances = law.probabilities()
        if draws > 1:  # by one transform of a circle that holds the sums that matter
            reach = int(12 * law.deviation * draws**0.5) + int(np.abs(values[chances > 1e-18]).max()) + 16
            size = 1 << (2 * reach).bit_length()
            law_there = np.bincount(values % size, chances, minlength=size).astype(np.float64)
            circle = np.fft.irfft(np.fft.rfft(law_there) ** draws, size)
            values = np.arange(-reach, reach + 1)
            chances = np.maximum(circle[values % size], 1e-17)
        self._lowest, self._logs = int(values.min()), np.log(np.maximum(chances, FLOOR))

    def of(self, values: Ints2) -> Floats2:
        """Return the logarithm of the chance of each value."""
        places = values - self._lowest
        inside = (places >= 0) & (places < self._logs.size)
        return np.asarray(np.where(inside, self._logs[np.clip(places, 0, self._logs.size - 1)], np.log(FLOOR)))


@dataclass(frozen=True, slots=True)
class Transcript:
    """What was seen of some rounds: shares, each server's own noise, and what both opened; zeros if nothing was."""

    victim: int  # The place of the victim among the devices of a round
    shares: Mapping[str, Any]  # Words that each server has of every device, shape (rounds, devices, width)
    noise: Mapping[str, Ints2]  # Each server's own noise, shape (rounds, width)
    opened: Ints2  # Signed totals
    published: Bools  # Whether both servers opened their sums


class Aggregations:
    """Rounds in which devices give shares to two servers; one device, the victim, holds either of two inputs."""

    def __init__(
        self,
        query: Query,
        mechanism: SharedVector,
        duel: Duel,
        make: MakeServer,
        agreement: Agreement | None,
        devices: type[Cohort],
    ) -> None:
        self.query, self.mechanism, self.duel = query, mechanism, duel
        self._make, self._agreement, self._devices = make, agreement, devices

    def transcripts(
        self, name: str, rounds: int, users: int, coins: np.random.Generator
    ) -> Iterator[tuple[Transcript, Bools]]:
        """Yield what was seen, block by block, and whether the victim holds the first input in each round."""
        for number, first in enumerate(range(0, rounds, BLOCK)):
            secret = coins.random(min(BLOCK, rounds - first)) < 0.5
            yield self._block(f"{name} {number}", secret, users, int(coins.integers(users))), secret

    def _block(self, label: str, secret: Bools, users: int, victim: int) -> Transcript:
        rounds, width = secret.size, self.mechanism.width(self.query)
        user = np.zeros((rounds, users), np.int64)
        user[:, victim] = ~secret
        devices_secret = derive(0, f"devices of {label}")
        ratings = stored(self.duel.rows, user.ravel(), self.query.items)
        cohort = self._devices(ratings, devices_secret, 0, rounds * users, None)
        whole = {side: cohort.share(side, self.query, 0, rounds * users) for side in SIDES}
        seeds = int.from_bytes(derive(0, f"servers of {label}")[:6], "big")

        def server_at(side: str) -> ShareServer[Any]:
            def fetch(*block: Any) -> WordShare | SeedShare:
                return _of_devices(whole[side], *block[2:])  # less the permit and the query

            route = LocalShares(fetch, [(0, rounds * users)])
            return self._make(side, secret_of(seeds, side), share_permit(devices_secret, side), route, self._agreement)

        servers = {side: server_at(side) for side in SIDES}
        shares = {side: _rows(server_shares).reshape(rounds, users, width) for side, server_shares in whole.items()}
        noise = {side: np.zeros((rounds, width), np.int64) for side in SIDES}
        totals, published = np.zeros((rounds, width), np.int64), np.zeros(rounds, np.bool_)
        for number in range(rounds):
            ends = number * users, (number + 1) * users
            rolls = {side: server.collect(self.query, *ends) for side, server in servers.items()}
            with suppress(WithheldError):  # of servers that open no sum of so few, which is right
                vectors_sum = servers[WORDS_SERVER].publish(self.query, rolls[SEEDS_SERVER])
                others = servers[SEEDS_SERVER].publish(self.query, rolls[WORDS_SERVER])
                totals[number], published[number] = opened(vectors_sum, others), True
                for side, published_sum in ((WORDS_SERVER, vectors_sum), (SEEDS_SERVER, others)):
                    server_noise = published_sum.sums - shares[side][number].sum(axis=0, dtype=np.uint32)
                    noise[side][number] = server_noise.astype(np.uint32).view(np.int32)
        return Transcript(victim, shares, noise, totals, published)


def _rows(share: WordShare | SeedShare) -> Words32:
    return share.rows() if isinstance(share, WordShare) else expansions(share.keys(), share.width)


def _of_devices(share: WordShare | SeedShare, first: int, stop: int) -> WordShare | SeedShare:
    """Return the shares of some devices of a block, all of which gave one."""
    size, every = len(share.content) // share.count, pack(np.ones(stop - first, np.uint8))
    content, count = share.content[first * size : stop * size], stop - first
    if isinstance(share, WordShare):
        return replace(share, first=first, count=count, vector_bytes=content, answered=every)
    return replace(share, first=first, count=count, seeds=content, answered=every)


class Looks:
    """How an attacker looks at rounds of so many devices: scores that are larger where the victim holds the first."""

    def __init__(self, aggregations: Aggregations, users: int) -> None:
        query, mechanism = aggregations.query, aggregations.mechanism
        self._vectors, self._users = aggregations.duel.vectors, users
        if (law := mechanism.server_noise(query)) is not None:
            self._of_server, self._of_public = NoiseLogs(law, 1), NoiseLogs(law, 2)
        else:
            law = mechanism.device_noise(query)
            assert law is not None  # of a finite epsilon
            self._of_server = self._of_public = NoiseLogs(law, users)

    def of(self, seen: Transcript, name: str) -> tuple[dict[str, Floats], Floats2]:
        """Return scores of what one server knows, or whoever reads what is published, and features for a learner."""
        # What is opened less what is known of the other devices
        rest = np.asarray((seen.opened - (self._users - 1) * self._vectors[0]) * seen.published[:, None])
        if name == PUBLISHED:
            odd = [((rest - vector) % 2).sum(axis=1).astype(np.float64) for vector in self._vectors]
            scores = {"sum": self._log_ratio(rest, self._of_public), "nearest": self._nearness(rest)}
            scores, shares, more = scores | {"parity": odd[1] - odd[0]}, dict[str, Floats](), rest % 2
        else:
            side = name if name in SIDES else WORDS_SERVER
            more = seen.noise[side]
            rest = rest - more * seen.published[:, None]
            scores = {"sum": self._log_ratio(rest, self._of_server), "own noise twice": self._nearness(rest - more)}
            shares = {"shares": self._of_shares(seen, side)}  # which are seen whether a sum is opened or not
        scores = {look: np.where(seen.published, score, 0.0) for look, score in scores.items()}
        return scores | shares, np.concatenate([rest, more], axis=1).astype(np.float64)

    def _log_ratio(self, rest: Ints2, logs: NoiseLogs) -> Floats:
        sides = [logs.of(rest - vector).sum(axis=1) for vector in self._vectors]
        return np.asarray(sides[0] - sides[1])

    def _nearness(self, rest: Ints2) -> Floats:
        far = [np.abs(rest - vector).sum(axis=-1).astype(np.float64) for vector in self._vectors]
        return np.asarray(far[1] - far[0])

    def _of_shares(self, seen: Transcript, side: str) -> Floats:
        """Return how near the victim's share is to its vector, bare or less the share of another device."""
        shares = seen.shares[side]
        mine = shares[:, seen.victim : seen.victim + 1]
        other = self._vectors[0].astype(np.uint32)
        bare = (mine - shares + other).view(np.int32).astype(np.int64)
        bare[:, seen.victim] = mine[:, 0].view(np.int32)
        score = np.where((np.abs(bare) < NEAR).all(axis=2), self._nearness(bare), 0.0)
        return np.asarray(score.sum(axis=1))


MEANINGS = {
    WORDS_SERVER: "two inputs of one device, by the server of words, which knows its noise and all others' ratings",
    SEEDS_SERVER: "the same, by the server of seeds",
    PUBLISHED: "the same, by whoever reads both published sums",
    SHORT_ROUNDS: "the same, by the server of words, where half of the devices whose noise suffices are gone",
}
"""What is told apart, and by whom."""


def audit_servers(
    subject: MechanismUnderTest,
    query: Query,
    *,
    users: int,
    delta: float,
    size: Size,
    releases: int,
    doubt: float,
    agreement: Agreement | None = None,
    make: MakeServer = server_of,
    devices: type[Cohort] = Cohort,
) -> ServersAudit:
    """Attack rounds of a query's shares and published sums, and hold them against what the query promises."""
    mechanism = subject.public
    assert isinstance(mechanism, SharedVector)  # looked at by the caller
    coins, claimed = np.random.default_rng(20261127), as_float(query.epsilon)
    duel = farthest_inputs(query, mechanism, size)
    aggregations = Aggregations(query, mechanism, duel, make, agreement, devices)
    least = int(query.parameters[LEAST_ANSWERS]) or users  # no round of fewer is opened, and none gives away more
    short = least // 2 if mechanism.by_devices(query) else 0
    plays = [("full rounds", least, [*SIDES, PUBLISHED], 1 - SHORT if short else 1.0)]
    plays += [(SHORT_ROUNDS, short, [SHORT_ROUNDS], SHORT)] if short else []
    parts: dict[str, list[tuple[dict[str, Floats], Floats2]]] = {name: [] for *_, names, _ in plays for name in names}
    secrets: dict[str, list[Bools]] = {name: [] for name in parts}
    for label, number, names, share in plays:
        looks, rounds = Looks(aggregations, number), max(FEWEST_ROUNDS, int(releases * share) // number)
        for seen, secret in aggregations.transcripts(label, rounds, number, coins):
            for name in names:
                parts[name].append(looks.of(seen, name))
                secrets[name].append(secret)
    options: dict[str, Any] = {
        "epsilon": Fraction(claimed),
        "delta": delta,
        "doubt": doubt / len(parts),
        "coins": coins,
    }
    return ServersAudit(
        design=subject.label,
        epsilon=claimed,
        delta=delta,
        epsilon_at_least=exact_epsilon(query, mechanism, duel.changes, delta),
        neighbours=mechanism.relation_of(query),
        noise="devices" if mechanism.by_devices(query) else "servers",
        noise_deviation=mechanism.deviation(query, least),
        honest_noise=int(query.parameters[HONEST]) or None,
        answered=least,
        bytes_per_device=WORD_BYTES * mechanism.width(query) + SEED_BYTES,
        confidence=1 - doubt,
        attacks=tuple(
            central_attack(parts[name], secrets[name], name=name, meaning=MEANINGS[name], **options) for name in parts
        ),
    )


def servers_audit(
    design: str = "totals",
    *,
    users: int = USERS,
    epsilon: Fraction | float | str = 1,
    delta: float | None = None,
    settings: Choice | None = None,
    releases: int = RELEASES,
    items: int = ITEMS,
    rated: int = RATED,
    confidence: float = CONFIDENCE,
    servers: MakeServer = server_of,
) -> ServersAudit:
    """Attack the sums that two servers publish, and hold what they give away of one device against the claim.

    One server, which knows its own noise and shares, and whoever reads what is published look for either of two inputs;
    they know what all other devices hold. A sound design fails with probability ``1 - confidence`` at most (Clopper and
    Pearson, 1934, Bonferroni over the attacks).

    Parameters
    ----------
    design : str
        Name of a design that two servers add up.
    users : int
        Devices of a round; of noise of devices the fewest whose sum is opened answer.
    epsilon : Fraction, float or str
        Central epsilon [nats].
    delta : float, optional
        Of the central guarantee, for which the noise is made, by default 0.001 and at most ``1 / users``; 0 for Laplace
        noise.
    settings : dict, optional
        The design's settings that are not the default, such as ``noise`` and ``neighbours``.
    releases : int
        How many devices' shares are looked at in all.
    items, rated : int
        Size of the catalogue, and how many items a device rated at most; two inputs differ most from twice as many
        items on.
    confidence : float
        Probability that all lower bounds hold.
    servers : callable, optional
        What makes each of the two servers; by default those of runs.

    Raises
    ------
    InputError
        If two servers add up no such design, or the numbers are none.

    Examples
    --------
    >>> result = servers_audit(users=4, epsilon=2, delta=0.0, releases=6000)
    >>> result.held, result.epsilon_at_least, result.noise
    (True, 2.0, 'servers')
    """
    size = require_game(users=users, releases=releases, items=items, rated=rated, confidence=confidence)
    mechanism, _ = kind_and_settings(design)
    delta = min(DELTA, 1 / users) if delta is None else delta
    run = small_run(mechanism, settings or {}, size, finite_epsilon(epsilon), trust="two-servers", delta=delta)
    query = run.design.query(round_number=0, public_seed=PUBLIC, epsilon=run.account.budget)
    return audit_servers(
        subject_of(mechanism, settings or {}, size=size),
        run.agreement.stamped(query),
        users=users,
        delta=delta,
        size=size,
        releases=releases,
        doubt=1 - confidence,
        agreement=run.agreement,
        make=servers,
    )
