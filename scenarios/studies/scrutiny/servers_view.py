"""Audits of sums that two servers publish: rounds of real devices, their shares and both real servers.

The attacker is one of the servers, which knows its own noise and shares, or whoever reads what is published. It knows
what all other devices hold, and which two inputs the victim has by a fair coin.
"""

from collections.abc import Callable, Mapping
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
from coordinator.protocol.custom import Mechanism
from coordinator.protocol.errors import WithheldError
from coordinator.protocol.hashing import expansions
from coordinator.protocol.messages import Query, pack
from coordinator.protocol.noise import NoiseLaw, gaussian_delta, skellam_delta
from coordinator.protocol.shared_vector import CHANGES, DEVIATION, HONEST, LEAST_ANSWERS, SharedVector
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
from coordinator.protocol.trust_models import TRUST, TWO_SERVERS
from scenarios.backends.share_servers import KINDS
from scenarios.config.mechanism_settings import shared_names
from scenarios.studies.scrutiny.attacks import Game, Observations, View, central_audit, require_game
from scenarios.studies.scrutiny.mechanism_under_test import (
    PUBLIC,
    Choice,
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
from scenarios.studies.scrutiny.verdicts import AttackResult, Audit

USERS, DELTA, ITEMS, RATED = 20, 1e-3, 6, 3
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
    ones = ones_in(query, stored(rows, np.arange(len(rows)), query.items), coins_of(query, 0, len(rows)))
    vectors = vectors_of(ones, mechanism.width(query)).astype(np.int64)
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

    secret: Bools  # Whether the victim holds the first input in each round
    victim: int  # The place of the victim among the devices of a round
    shares: Mapping[str, Any]  # Words that each server has of every device, shape (rounds, devices, width)
    noise: Mapping[str, Ints2]  # Each server's own noise, shape (rounds, width)
    opened: Ints2  # Signed totals
    published: Bools  # Whether both servers opened their sums


def _rows(share: WordShare | SeedShare) -> Words32:
    return share.rows() if isinstance(share, WordShare) else expansions(share.keys(), share.width)


def _of_devices(share: WordShare | SeedShare, first: int, stop: int) -> WordShare | SeedShare:
    """Return the shares of some devices of a block, all of which gave one."""
    size, every = len(share.content) // share.count, pack(np.ones(stop - first, np.uint8))
    content, count = share.content[first * size : stop * size], stop - first
    if isinstance(share, WordShare):
        return replace(share, first=first, count=count, vector_bytes=content, answered=every)
    return replace(share, first=first, count=count, seeds=content, answered=every)


MEANINGS = {
    WORDS_SERVER: "two inputs of one device, by the server of words, which knows its noise and all others' ratings",
    SEEDS_SERVER: "the same, by the server of seeds",
    PUBLISHED: "the same, by whoever reads both published sums",
    SHORT_ROUNDS: "the same, by the server of words, where half of the devices whose noise suffices are gone",
}
"""What is told apart, and by whom."""


class ServersView(View[Game]):
    """One of two servers, which knows its noise and all other devices' ratings, or whoever reads what they publish.

    In each round one device, the victim, holds either of two inputs. ``agreed`` is whether servers hold the agreement
    of runs, by which they refuse some of what leaks.
    """

    flag, seed, releases = "--trust two-servers", 20261127, 100_000

    def __init__(
        self,
        design: str | Mechanism,
        *,
        users: int = USERS,
        epsilon: Fraction | float | str = 1,
        delta: float | None = None,
        settings: Choice | None = None,
        items: int = ITEMS,
        rated: int = RATED,
        servers: MakeServer = server_of,
        devices: type[Cohort] = Cohort,
        agreed: bool = True,
    ) -> None:
        size = require_game(users=users, items=items, rated=rated)
        self.delta = min(DELTA, 1 / users) if delta is None else delta
        kind, custom = kind_and_settings(design)
        settings = settings or custom
        how: dict[str, Any] = {"trust": TWO_SERVERS, "delta": self.delta}
        run = small_run(kind, settings, size, finite_epsilon(epsilon), **how)
        subject = subject_of(kind, settings, size=size)
        assert isinstance(subject.public, SharedVector)  # of this trust model
        self.label, self._mechanism, self._agreement = subject.label, subject.public, run.agreement if agreed else None
        query = run.design.query(round_number=0, public_seed=PUBLIC, epsilon=run.account.budget)
        self._query = query = run.agreement.stamped(query) if agreed else query
        self._make, self._devices = servers, devices
        self._duel = farthest_inputs(query, self._mechanism, size)
        # No round of fewer is opened, and none gives away more
        self._answered = int(query.parameters[LEAST_ANSWERS]) or users
        self._seen = dict[str, list[Observations]]()

    @staticmethod
    def designs() -> list[str]:
        """See `View.designs`."""
        return list(shared_names())

    def games(self, releases: int, coins: np.random.Generator) -> list[Game]:
        """Play all rounds, which several attackers look at, and return a game for each of them; see `View.games`."""
        short = self._answered // 2 if self._mechanism.by_devices(self._query) else 0
        plays = [("full rounds", self._answered, [*SIDES, PUBLISHED], 1 - SHORT if short else 1.0)]
        plays += [(SHORT_ROUNDS, short, [SHORT_ROUNDS], SHORT)] if short else []
        for label, users, names, share in plays:
            logs, rounds = self._noise_logs(users), max(FEWEST_ROUNDS, int(releases * share) // users)
            for number, first in enumerate(range(0, rounds, BLOCK)):
                secret = coins.random(min(BLOCK, rounds - first)) < 0.5
                seen = self._transcript(f"{label} {number}", secret, users, int(coins.integers(users)))
                for name in names:
                    self._seen.setdefault(name, []).append(self._look(seen, name, users, logs))
        claimed = Fraction(as_float(self._query.epsilon))
        return [Game(name=name, meaning=MEANINGS[name], epsilon=claimed) for name in self._seen]

    def observe(self, game: Game, releases: int, coins: np.random.Generator) -> Observations:  # noqa: ARG002 (all rounds were played)
        """See `View.observe`."""
        return Observations.joined(self._seen[game.name])

    def verdict(self, attacks: tuple[AttackResult, ...], confidence: float) -> Audit:
        """See `View.verdict`."""
        query, mechanism = self._query, self._mechanism
        honest = int(query.parameters[HONEST])
        return central_audit(
            self,
            attacks,
            confidence,
            claimed=as_float(query.epsilon),
            exact=exact_epsilon(query, mechanism, self._duel.changes, self.delta),
            source="a dose of noise",
            neighbours=mechanism.relation_of(query),
            epsilon_local=None,  # no device randomizes what it sends
            noise="devices" if mechanism.by_devices(query) else "servers",
            noise_deviation=mechanism.deviation(query, self._answered),
            honest_noise=honest or None,
            answered=self._answered,
            bytes_per_device=WORD_BYTES * mechanism.width(query) + SEED_BYTES,
            **TRUST[TWO_SERVERS].guarantee(honest=honest),
        )

    def _noise_logs(self, users: int) -> tuple[NoiseLogs, NoiseLogs]:
        """Return the laws of the noise that a server does not know, and that whoever reads sums does not."""
        if (law := self._mechanism.server_noise(self._query)) is not None:
            return NoiseLogs(law, 1), NoiseLogs(law, 2)
        law = self._mechanism.device_noise(self._query)
        assert law is not None  # of a finite epsilon
        logs = NoiseLogs(law, users)
        return logs, logs

    def _transcript(self, label: str, secret: Bools, users: int, victim: int) -> Transcript:
        """Let a block of rounds' devices give shares, and both servers publish their sums."""
        query, rounds, width = self._query, secret.size, self._mechanism.width(self._query)
        user = np.zeros((rounds, users), np.int64)
        user[:, victim] = ~secret
        devices_secret = derive(0, f"devices of {label}")
        cohort = self._devices(
            stored(self._duel.rows, user.ravel(), query.items), devices_secret, 0, rounds * users, None
        )
        whole = {side: cohort.share(side, query, 0, rounds * users) for side in SIDES}
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
            rolls = {side: server.collect(query, *ends) for side, server in servers.items()}
            with suppress(WithheldError):  # of servers that open no sum of so few, which is right
                vectors_sum = servers[WORDS_SERVER].publish(query, rolls[SEEDS_SERVER])
                others = servers[SEEDS_SERVER].publish(query, rolls[WORDS_SERVER])
                totals[number], published[number] = opened(vectors_sum, others), True
                for side, published_sum in ((WORDS_SERVER, vectors_sum), (SEEDS_SERVER, others)):
                    server_noise = published_sum.sums - shares[side][number].sum(axis=0, dtype=np.uint32)
                    noise[side][number] = server_noise.astype(np.uint32).view(np.int32)
        return Transcript(secret, victim, shares, noise, totals, published)

    def _look(self, seen: Transcript, name: str, users: int, logs: tuple[NoiseLogs, NoiseLogs]) -> Observations:
        """Return scores of what one server knows, or whoever reads what is published, and features for a learner."""
        first, second = self._duel.vectors
        of_server, of_public = logs
        # What is opened less what is known of the other devices
        rest = np.asarray((seen.opened - (users - 1) * first) * seen.published[:, None])
        if name == PUBLISHED:
            odd = [((rest - vector) % 2).sum(axis=1).astype(np.float64) for vector in (first, second)]
            scores = {"sum": self._log_ratio(rest, of_public), "nearest": self._nearness(rest)}
            scores, shares, more = scores | {"parity": odd[1] - odd[0]}, dict[str, Floats](), rest % 2
        else:
            side = name if name in SIDES else WORDS_SERVER
            more = seen.noise[side]
            rest = rest - more * seen.published[:, None]
            scores = {"sum": self._log_ratio(rest, of_server), "own noise twice": self._nearness(rest - more)}
            shares = {"shares": self._of_shares(seen, side)}  # which are seen whether a sum is opened or not
        scores = {look: np.where(seen.published, score, 0.0) for look, score in scores.items()}
        features = np.concatenate([rest, more], axis=1).astype(np.float64)
        return Observations(seen.secret, scores | shares, features=features)

    def _log_ratio(self, rest: Ints2, logs: NoiseLogs) -> Floats:
        sides = [logs.of(rest - vector).sum(axis=1) for vector in self._duel.vectors]
        return np.asarray(sides[0] - sides[1])

    def _nearness(self, rest: Ints2) -> Floats:
        far = [np.abs(rest - vector).sum(axis=-1).astype(np.float64) for vector in self._duel.vectors]
        return np.asarray(far[1] - far[0])

    def _of_shares(self, seen: Transcript, side: str) -> Floats:
        """Return how near the victim's share is to its vector, bare or less the share of another device."""
        shares = seen.shares[side]
        mine = shares[:, seen.victim : seen.victim + 1]
        bare = (mine - shares + self._duel.vectors[0].astype(np.uint32)).view(np.int32).astype(np.int64)
        bare[:, seen.victim] = mine[:, 0].view(np.int32)
        score = np.where((np.abs(bare) < NEAR).all(axis=2), self._nearness(bare), 0.0)
        return np.asarray(score.sum(axis=1))
