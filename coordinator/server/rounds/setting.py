"""What a policy knows before the first round, with the two operations of most policies: ask and believe."""

import math
from dataclasses import dataclass, replace

import numpy as np

from coordinator.protocol.arrays import Floats, Indices
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.coins import derive, round_up
from coordinator.protocol.decoding.estimates import Estimates
from coordinator.protocol.decoding.posterior import Posterior, believe, expected_levels
from coordinator.protocol.errors import InputError
from coordinator.protocol.mechanism import InWorld, QueryHeader
from coordinator.protocol.messages import Query
from coordinator.server.design import Design
from coordinator.server.rounds.state import Ask, ServerState


def beliefs(
    state: ServerState, design: InWorld, *, clusters: int, failure: float, assume_malicious: float = 0.0
) -> tuple[Posterior, Estimates]:
    """Return the posterior of a state, with doubts that withstand liars, and the estimates behind it."""
    if state.estimates is None:
        raise InputError("there is nothing to believe yet: no round was asked, or its design tells no estimates")
    # To read a round of centred ratings one must know how much users like its items. Its centres were the best
    # estimates at that time; today's are better, so such rounds are read again by a mixture fitted to all rounds.
    expected = expected_levels(state.estimates, clusters=clusters) if state.readings.centred else None
    estimates = state.estimates if expected is None else state.readings.anew(design, expected)
    posterior = believe(estimates, clusters=clusters, failure=failure)
    return (
        posterior.withstanding(assume_malicious * sway(state, design)) if assume_malicious else posterior
    ), estimates


def sway(state: ServerState, design: InWorld) -> Floats:
    """Return how far all answerers together could move each item's information-weighted estimate, shape (N,)."""
    total = np.zeros(design.items)
    for ask, counts in zip(state.asked, state.counts, strict=True):
        pool = slice(None) if ask.query.pool is None else ask.query.pool
        total[pool] += most_moved(design.rates(ask.query)) * counts.answered
    return total


def most_moved(rates: Floats) -> Floats:
    """Return by how much one sign moves weighted estimates, counted from the middle of two levels."""
    # With the contrast c, whose square the rate is, a sign S adds c S to the estimate times its information, and c^2
    # times the middle is taken off; levels lie between -1 and 1.
    return np.sqrt(rates) + rates


def pool_design(design: Design, lack: str = "asks about no pools of items") -> InWorld:
    """Return a design, which must ask about pools and tell estimates."""
    if not (isinstance(design, InWorld) and design.estimates):
        kind = type(getattr(design, "mechanism", design)).__name__
        raise InputError(f"{kind} {lack}; choose a design that can follow policy eliminate")
    return design


LARGEST_ROUND = 1 << 40  # Users of a round at most


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupGuarantee:
    """The guarantee of groups of devices that are shuffled separately."""

    epsilon: Epsilon  # The central epsilon of an answer [nats]
    delta: float  # The central delta of an answer
    honest: float  # Assumed share of a group's devices that answer honestly


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The public facts from which a policy is made.

    Attributes
    ----------
    design : Design
        The design of its queries.
    epsilon : Fraction or None
        What a device may spend in all [nats]; None for no noise.
    public_seed : bytes
        Sixteen bytes that key the public coins.
    clusters : int
        Number of item clusters L.
    confidence : float
        Probability that all labels are to be right.
    answers_per_device : int
        Most queries m that a device answers, each under ``epsilon / m``.
    pool_size : int or None
        Most items of a query, so that liars move fewer items at a time; None for all.
    assume_malicious : float
        Share of liars in each round's answers that decisions must withstand; 0 for none.
    smallest_round : int
        Fewest devices that a round asks, because a shuffler hides each among them; 0 without a shuffler.
    groups : GroupGuarantee or None
        Guarantee of groups that are shuffled separately; None without a shuffler.
    own_questions : bool
        Whether devices draw their questions from private coins; `send` marks every query accordingly.
    """

    design: Design
    epsilon: Epsilon
    public_seed: bytes
    clusters: int = 2
    confidence: float = 0.95
    answers_per_device: int = 1
    pool_size: int | None = None
    assume_malicious: float = 0.0
    smallest_round: int = 0
    groups: GroupGuarantee | None = None
    own_questions: bool = False

    @property
    def pools(self) -> list[Indices]:
        """All items in public pools of about equal size, at most `pool_size`, each ascending."""
        items = self.design.items
        pool_count = 1 if self.pool_size is None else -(-items // self.pool_size)
        order = np.random.default_rng(int.from_bytes(derive(self.public_seed, "pools"))).permutation(items)
        return [np.sort(some).astype(np.int32) for some in np.array_split(order, pool_count)]

    @property
    def failure(self) -> float:
        """Allowed probability that any label is wrong."""
        return 1 - self.confidence

    def header(self, state: ServerState) -> QueryHeader:
        """Return the header of the next round's query; an answer takes an exact share of epsilon."""
        epsilon = None if self.epsilon is None else self.epsilon / self.answers_per_device
        return {"round_number": state.round_number, "public_seed": self.public_seed, "epsilon": epsilon}

    def users_left(self, state: ServerState) -> int:
        """Return how many answers can still be asked for: each device is asked at most `answers_per_device` times."""
        return max(0, self.answers_per_device * state.devices - state.answers_asked)

    def query(self, state: ServerState, *, pool: Indices | None = None, expected: Floats | None = None) -> Query:
        """Return the next round's query.

        Parameters
        ----------
        state : ServerState
            The state after all rounds so far.
        pool : ndarray of int32, optional
            Items to ask about, ascending; default: all.
        expected : ndarray of float64, shape (M,), optional
            Expected estimate of each of them, such as `Posterior.expected`; a design may use it.

        Raises
        ------
        InputError
            If the design cannot ask about a pool, or the pool is empty or has items outside of the catalogue.
        """
        header = self.header(state)
        if pool is None and expected is None:
            return self.design.query(**header)
        design = pool_design(self.design)
        items = _items_of(np.arange(self.design.items, dtype=np.int32) if pool is None else pool, self.design.items)
        if expected is not None and (np.shape(expected) != items.shape or not np.isfinite(expected).all()):
            raise InputError(
                f"expected has shape {np.shape(expected)} for a pool of {items.size} items; give each a finite number"
            )
        return design.query(**header, pool=items, expected=expected)

    def ask(
        self, state: ServerState, *, users: int, pool: Indices | None = None, expected: Floats | None = None
    ) -> Ask | None:
        """Return a round that asks the next devices in line; see `query` and `send`."""
        return self.send(state, self.query(state, pool=pool, expected=expected), users=users)

    def send(self, state: ServerState, query: Query, *, users: int) -> Ask | None:
        """Return a round that asks the next devices in line.

        Devices are asked in order. After the last device the first ones follow if devices may answer again. A round
        never goes beyond the last device. It asks at least `smallest_round` devices, and takes the remaining ones too
        if they are too few for another round.

        Parameters
        ----------
        state : ServerState
            The state after all rounds so far.
        query : Query
            The query to ask.
        users : int
            How many devices to ask, at most.

        Returns
        -------
        Ask or None
            None if every device has given all its answers.

        Raises
        ------
        InputError
            If ``users`` is below 1.
        """
        count: object = users
        if not isinstance(count, int | float | np.integer) or not 1 <= count < math.inf:
            raise InputError(f"users is {users!r}; a round asks at least 1")
        if not self.users_left(state):
            return None
        first = state.answers_asked % state.devices
        stop = min(first + max(int(users), self.smallest_round), state.devices)
        left = state.devices - stop
        query = replace(query, own_questions=self.own_questions)
        return Ask(query=query, first=first, stop=stop if left >= self.smallest_round else state.devices)

    def believe(self, state: ServerState) -> Posterior:
        """Return the posterior of every item's cluster; see `beliefs`.

        Raises
        ------
        InputError
            If nothing was asked, or the design's answers do not add up over rounds.
        """
        design = pool_design(self.design, "tells no estimates of items")
        return beliefs(
            state, design, clusters=self.clusters, failure=self.failure, assume_malicious=self.assume_malicious
        )[0]


def information_to_decide(setting: Setting, widest: float) -> float:
    """Return the mean information needed to decide an item if levels are as far apart as possible."""
    # Its log-odds stop at ``A = ln((1 - a) / a)``, where a is an item's share of the failure, and by then it has
    # brought ``2 (1 - 2 a) A / g^2`` with levels g apart (Wald, 1945).
    share, gap = setting.failure / setting.design.items, widest / (setting.clusters - 1)
    return 2 * (1 - 2 * share) * (math.log1p(-share) - math.log(share)) / gap**2


def users_on_grid(users: float) -> int:
    """Round a number of users up to the public grid, so that a float's last bits hardly ever change a round."""
    return round_up(min(users, LARGEST_ROUND))


def _items_of(pool: Indices, items: int) -> Indices:
    """Return a pool as a query holds it, ascending items of a catalogue."""
    members = np.asarray(pool)
    if not members.size:
        raise InputError("pool holds 0 items; ask about at least one, or stop by returning None")
    if not np.issubdtype(members.dtype, np.integer) or members.ndim != 1:
        raise InputError(
            f"pool holds {members.dtype} numbers, shape {members.shape}; give a row of items, whole numbers from 0 on, "
            "as np.flatnonzero makes it of a condition"
        )
    if members.min() < 0 or members.max() >= items:
        raise InputError(f"pool names items {members.min()} to {members.max()}; the catalogue has 0 to {items - 1}")
    if (members[1:] <= members[:-1]).any():
        raise InputError("pool does not ascend, or names an item twice; give np.unique of it")
    return members.astype(np.int32)
