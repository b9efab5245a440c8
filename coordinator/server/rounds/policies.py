"""Policies: asking and checking them, fixed rounds, and elimination by doubt; made by name."""

import copy
import math
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from coordinator.protocol.arrays import Bools, Floats, Indices
from coordinator.protocol.budget import Epsilon, as_float, within
from coordinator.protocol.custom import MechanismError
from coordinator.protocol.decoding.posterior import Posterior, farthest_gaps, nearest_gaps
from coordinator.protocol.errors import InputError, PolicyError
from coordinator.protocol.mechanisms import check_question
from coordinator.protocol.messages import Query
from coordinator.server.design import Design
from coordinator.server.rounds.setting import (
    LARGEST_ROUND,
    Setting,
    information_to_decide,
    most_moved,
    pool_design,
    users_on_grid,
)
from coordinator.server.rounds.state import Ask, Policy, ServerState

_OURS = "coordinator."  # Where blindrec's own policies live


def next_ask(policy: Policy, state: ServerState, *, most_rounds: int) -> Ask | None:
    """Return a policy's next round, or None where it stops."""
    where = policy_name(policy, state)
    try:
        ask = policy.next_query(state)
    except MechanismError:
        raise  # the error already names class, method and round
    except (Exception, SystemExit) as error:
        raise PolicyError(f"{where}: it raised {_at(error, policy)}") from error
    if ask is None:
        return None
    if state.round_number >= most_rounds:
        raise PolicyError(f"{where}: it does not stop after {most_rounds} rounds, the most there may be (most_rounds)")
    if complaint := complaint_about(ask, state):
        raise PolicyError(f"{where}: {complaint}")
    return ask


class PurityCheck:
    """Checks that a policy is a pure function of the state: a fresh copy must ask what the policy itself asks."""

    def __init__(self, policy: Policy) -> None:
        # a resumed run relies on this: its new policy has not seen the earlier rounds
        self._copy: Policy | None = None
        if not type(policy).__module__.startswith(_OURS):
            try:
                self._copy = copy.deepcopy(policy)
            except Exception as error:
                raise PolicyError(
                    f"policy {type(policy).__name__} cannot be copied: {in_a_line(error)}; keep its setting and plain "
                    "values only"
                ) from error

    def check(self, ask: Ask | None, state: ServerState, *, most_rounds: int) -> None:
        """Refuse the policy's next round if a fresh copy would ask something else in this state."""
        if self._copy is None:
            return
        fresh = copy.deepcopy(self._copy)
        if next_ask(fresh, state, most_rounds=most_rounds) != ask:
            raise PolicyError(
                f"{policy_name(fresh, state)}: a fresh copy of this policy asks something else, and so would a resumed "
                "run; use only the setting and the state: no random numbers, nothing remembered between rounds"
            )


def policy_name(policy: Policy, state: ServerState) -> str:
    """Return the policy and the round, as errors name them."""
    return f"policy {type(policy).__name__}, round {state.round_number}"


def complaint_about(ask: object, state: ServerState) -> str | None:
    """Return what is wrong with the next round, or None."""
    if not isinstance(ask, Ask) or not isinstance(ask.query, Query):
        return f"it returned {_shown(ask)}, which is no blindrec.Ask of a query; return one, or None to stop"
    try:
        Query.valid(ask.query)
    except InputError as error:
        return f"its query cannot be asked: {error}"
    return next(_complaints(ask, ask.query, state), None)


def _complaints(ask: Ask, query: Query, state: ServerState) -> Iterator[str]:
    """Yield the errors of a round with a valid query; later ones may only follow from the first."""
    if query.round != state.round_number:
        yield f"its query says round {query.round}; coins of a round are used once, give {state.round_number}"
    for name, device in (("first", ask.first), ("stop", ask.stop)):
        if type(device) is not int:
            yield f"{name} of the devices it asks is {_shown(device)}, a {type(device).__name__}; give an int"
    if not 0 <= ask.first < ask.stop <= state.devices:
        yield f"it asks devices {ask.first} to {ask.stop}, stop not included; there are {state.devices}, from 0 on"
    cost, budget = as_float(query.epsilon), as_float(state.budget)
    if not within(query.epsilon, state.budget):
        yield f"its query costs epsilon {cost:g}, above the devices' budget of {budget:g}; ask for no more than that"
    first = state.asked[0].query if state.round_number else query
    if query.items != first.items:
        yield f"its query has a catalogue of {query.items} items, earlier rounds had {first.items}"
    try:
        check_question(query)  # parameters, pool, questions and epsilon that no device would answer
    except InputError as error:
        yield f"its query cannot be asked: {error}"


def _at(error: BaseException, policy: Policy) -> str:
    """Return an error's type, its last line in the policy's own file, and its text."""
    code = getattr(getattr(type(policy), "next_query", None), "__code__", None)
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if code and frame.filename == code.co_filename]
    kind, text = type(error).__name__, in_a_line(error).partition(": ")[2]
    return f"{kind} in line {lines[-1]}: {text}" if lines else f"{kind}: {text}"


def in_a_line(error: BaseException) -> str:
    """Return an error's type and text, without line breaks."""
    return " ".join(f"{type(error).__name__}: {error}".split())


def _shown(value: object) -> str:
    try:
        text = " ".join(repr(value).split())
    except Exception:
        text = f"a {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:60]}..."


@dataclass(frozen=True, slots=True, kw_only=True)
class OneRound:
    """Ask every device the same query once, and stop: the papers' non-adaptive protocol."""

    rounds: ClassVar[int] = 1
    design: Design  # What is asked
    epsilon: Epsilon  # Privacy parameter of the answer [nats]; None for no noise
    public_seed: bytes  # Sixteen bytes that key the public coins
    own_questions: bool = False  # Whether devices draw their questions from private coins

    def next_query(self, state: ServerState) -> Ask | None:
        """Return the only round, or None once it was asked."""
        if state.round_number:
            return None
        query = self.design.query(round_number=0, public_seed=self.public_seed, epsilon=self.epsilon)
        query = replace(query, own_questions=self.own_questions)
        return Ask(query=query, first=0, stop=state.devices)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixed:
    """The same question in a fixed number of rounds, each of which asks for an equal share of all answers."""

    setting: Setting  # Design, privacy and number of answers of a device
    rounds: int  # Number of rounds, at least 1

    def next_query(self, state: ServerState) -> Ask | None:
        """Return the next round, or None once every answer was given."""
        number, answers = state.round_number, self.setting.answers_per_device * state.devices
        if number == self.rounds:
            return None
        users = (number + 1) * answers // self.rounds - number * answers // self.rounds
        pool = self.setting.pools[number % len(self.setting.pools)] if self.setting.pool_size else None
        return self.setting.ask(state, users=users, pool=pool)


# How rounds are sized, by `Eliminate` and, with a goal of its own, by `ItemByItem`: see `_pilot` and `_next`
PILOT = 0.15
"""The first round gathers this share of the information that decides an item if users like whole clusters or none."""
SHARE, MORE, MOST = 0.18, 2.0, 0.8
"""A later round should decide ``SHARE`` of the open items plus ``MORE``, but at most ``MOST`` of them."""
GROWTH = 0.35
"""A round asks at most this share of the users asked so far, so that the next one can use its results."""
LEAST, LEAST_ALONE = 0.04, 0.25
"""But a round adds at least this share to the information about its items, for several items and for one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Eliminate:
    """Decided items leave the pool; each round should decide a share of the open ones, as far as `GROWTH` lets it.

    Nothing is decided before the clusters stand apart: until then every round doubles the users asked so far. The
    policy stops when all items are decided at the setting's confidence, or when no device has an answer left.
    """

    asks_undecided: ClassVar[bool] = True
    setting: Setting  # Its design must ask about pools (MaxSense, sign sensing)
    # Share of the open items that a round decides on average, in (0, 1). A smaller share means more rounds, and fewer
    # users who are asked about items that are almost decided
    share: float = SHARE

    def next_query(self, state: ServerState) -> Ask | None:
        """Return the next round, or None once every item is decided or every answer was given."""
        setting = self.setting
        if state.round_number < len(pools := setting.pools):
            return _pilot(setting, state, pool=pools[state.round_number] if setting.pool_size else None)
        posterior = setting.believe(state)
        if not posterior.apart:
            pool = pools[state.round_number % len(pools)] if setting.pool_size else None
            return setting.ask(state, users=-(-state.answers_asked // len(pools)), pool=pool)
        if not (undecided := ~posterior.decided(setting.failure)).any():
            return None
        undecided = _some(setting, state, undecided)
        goal = min(self.share * undecided.sum() + MORE, MOST * undecided.sum())
        return _next(setting, state, posterior, undecided, goal=float(goal), least=LEAST)


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemByItem:
    """The naive sequential scheme, which asks about one item at a time until it is decided.

    Every item gets a pilot round. While the clusters do not stand apart, the next round is about the item with the
    least information and doubles it; afterwards it is about the first open item.
    """

    setting: Setting  # As for `Eliminate`

    def next_query(self, state: ServerState) -> Ask | None:
        """Return the next round, or None once every item is decided or every answer was given."""
        setting = self.setting
        if state.round_number < setting.design.items:
            return _pilot(setting, state, pool=np.array([state.round_number], np.int32))
        posterior = setting.believe(state)
        if not posterior.apart:
            assert state.estimates is not None  # because there is a posterior
            item = np.array([state.estimates.information.argmin()], np.int32)
            before = sum(ask.stop - ask.first for ask in state.asked if _only(ask) == item[0])
            return setting.ask(state, users=before, pool=item)
        if not (undecided := ~posterior.decided(setting.failure)).any():
            return None
        only = np.arange(undecided.size) == undecided.argmax()
        return _next(setting, state, posterior, only, goal=0.5, least=LEAST_ALONE)


def users_of_elimination(setting: Setting) -> float:
    """Return roughly how many users `Eliminate` asks in all, by `information_to_decide`, with rounds of any size."""
    design, total = pool_design(setting.design), 0.0
    for pool in setting.pools:
        query = setting.query(ServerState(devices=1), pool=pool if setting.pool_size else None)
        rate = float(design.rates(query).mean())
        total += information_to_decide(setting, design.widest) / rate if rate else math.inf
    return total


def _some(setting: Setting, state: ServerState, open_ones: Bools) -> Bools:
    """Return the open items to ask about next: those with the least information, at most a pool."""
    assert state.estimates is not None  # because there is a posterior
    if setting.pool_size is None or open_ones.sum() <= setting.pool_size:
        return open_ones
    items = np.flatnonzero(open_ones)
    subset = np.zeros_like(open_ones)
    subset[items[np.argsort(state.estimates.information[items], kind="stable")[: setting.pool_size]]] = True
    return subset


def _only(ask: Ask) -> int | None:
    """Return the one item that a round asks about, or None where it is about several."""
    pool = ask.query.pool
    return int(pool[0]) if pool is not None and pool.size == 1 else None


def _pilot(setting: Setting, state: ServerState, pool: Indices | None = None) -> Ask | None:
    """Return the first round about some items, before anything is known."""
    design, query = pool_design(setting.design), setting.query(state, pool=pool)
    gap = design.widest / (setting.clusters - 1)
    information = PILOT * 2 * math.log(design.items / setting.failure) / gap**2
    return setting.send(state, query, users=users_on_grid(information / float(design.rates(query).mean())))


def _next(
    setting: Setting, state: ServerState, posterior: Posterior, open_ones: Bools, *, goal: float, least: float
) -> Ask | None:
    """Return a round that should decide ``goal`` of the open items, within `GROWTH` and ``least``."""
    assert state.estimates is not None  # there is a posterior
    expected = posterior.expected[open_ones]
    query = setting.query(state, pool=np.flatnonzero(open_ones).astype(np.int32), expected=expected)
    rates = pool_design(setting.design).rates(query, expected)
    users = users_to_decide(
        posterior, open_ones, rates, goal=goal, failure=setting.failure, assume_malicious=setting.assume_malicious
    )
    crumbs = least * float((state.estimates.information[open_ones] / rates).mean())
    return setting.send(state, query, users=users_on_grid(max(min(users, GROWTH * state.answers_asked), crumbs)))


def users_to_decide(
    posterior: Posterior, open_ones: Bools, rates: Floats, *, goal: float, failure: float, assume_malicious: float = 0.0
) -> float:
    """Return the number of users that should decide ``goal`` of the open items on average."""
    # Shapes: ``open_ones`` (N,); ``rates`` (M,).
    # The log-odds of an item's cluster against the next one are a Brownian motion in the information I about the item:
    # with a gap g between the levels they drift by ``g^2 I / 2`` with variance ``g^2 I``.
    assert posterior.mixture is not None  # clusters that stand apart have levels
    nearest = nearest_gaps(posterior.mixture)[posterior.cluster[open_ones]]
    doubt = np.clip(posterior.doubt[open_ones], 1e-300, 0.5)
    odds, bound = np.log1p(-doubt) - np.log(doubt), min(posterior.threshold(failure), 0.5)
    edge = math.log1p(-bound) - math.log(bound)
    farthest = farthest_gaps(posterior.mixture)[posterior.cluster[open_ones]]
    drift: Floats = nearest**2 * rates / 2
    lost: Floats = assume_malicious * farthest * most_moved(rates)

    def decided(users: float) -> float:
        return _passes(odds, doubt, drift * users, edge + lost * users)

    low, high = 0.0, 1.0
    while decided(high) < goal and high < LARGEST_ROUND:
        high *= 2
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if decided(middle) >= goal else (middle, high)
    return high


def _passes(odds: Floats, doubt: Floats, drift: Floats, edge: Floats) -> float:
    """Return the expected number of items whose log-odds pass the edge after this drift."""
    from scipy.special import ndtr  # noqa: PLC0415 (a server that follows no adaptive policy needs none of it)

    spread = np.sqrt(2 * drift)
    right, wrong = ndtr((odds + drift - edge) / spread), ndtr((drift - odds - edge) / spread)
    return float(((1 - doubt) * right + doubt * wrong).sum())


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyOptions:
    """A run's options for its policy, besides the setting that every policy gets."""

    devices: int  # Number of devices that can be asked
    rounds: int = 2  # Number of rounds of policy fixed


def fixed(setting: Setting, options: PolicyOptions) -> Policy:
    """Return the policy of a fixed number of rounds."""
    answers = options.devices * setting.answers_per_device
    if options.rounds > answers:
        raise InputError(f"rounds is {options.rounds}, but all devices give {answers} answers; ask for fewer rounds")
    if (pools := len(setting.pools)) > options.rounds:
        raise InputError(
            f"rounds is {options.rounds}, but pools of {setting.pool_size} are {pools}; ask for a multiple of {pools}"
        )
    return Fixed(setting=setting, rounds=options.rounds)


def eliminate(setting: Setting, _: PolicyOptions) -> Policy:
    """Return the policy that asks about undecided items."""
    return Eliminate(setting=setting)
