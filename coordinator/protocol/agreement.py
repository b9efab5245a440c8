"""The privacy promise of a run: every party holds a copy, and refuses by itself any query that exceeds the promise.

An agreement states the promise, not a list of questions. It covers a query if the bound of the query's channel, for the
number of devices asked, keeps one answer's share of epsilon and delta. A device gives at most as many answers as there
are shares, so that by basic composition they add up to the promise, whatever the questions are.

Equal shares are too pessimistic if answers behind a shuffler are composed as one plan. Then the agreement states the
plan: the number of answers, their local epsilon, their pair of levels, and how many honest devices hide each. It covers
a query with these levels, no larger epsilon and no fewer devices, and every party certifies the plan by itself. For
sums over periods the agreement states each round's noise, and changes / sigma^2 adds up over rounds; of a counter, how
many periods share one noise.
"""

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Any, NamedTuple, Self

from coordinator.protocol import checked
from coordinator.protocol.amplification import AnyRandomizer, TwoLevels
from coordinator.protocol.budget import ADD_REMOVE, REPLACE, Epsilon, PrivacyParameter, as_float, require_epsilon
from coordinator.protocol.channels import LARGEST_EPSILON
from coordinator.protocol.checked import MOST_DEVICES, Checked
from coordinator.protocol.coins import digest_of
from coordinator.protocol.composition import ShuffledRounds, keeps_histories, keeps_plan
from coordinator.protocol.counters import keeps_counter
from coordinator.protocol.errors import AgreementError, InputError
from coordinator.protocol.mechanisms import mechanism_of
from coordinator.protocol.messages import Query
from coordinator.protocol.noise import LARGEST_DEVIATION
from coordinator.protocol.randomizers import randomizer_of
from coordinator.protocol.schedule import MOST_PERIODS
from coordinator.protocol.shared_vector import CHANGES, DEVIATION, HONEST, LEAST_ANSWERS, MOST_HONEST, SharedVector
from coordinator.protocol.shares import SIDES
from coordinator.protocol.summed_plan import SumRound, keeps_sums
from coordinator.protocol.trust import OPENER, OpeningBook, Openings, opener_of, require_agreement
from coordinator.protocol.trust_models import CURATOR, LOCAL, SHUFFLED, TWO_SERVERS

MOST_ANSWERS = 1 << 20  # Most answers of a device
_EXACT, _REALS = ("budget", "epsilon"), ("delta", "counted", "honest")


class PlannedNoise(NamedTuple):
    """The noise under which two servers open the sums of a round."""

    deviation: float  # Of a dose of Gaussian or Skellam noise; 0 of Laplace noise, whose epsilons add up
    changes: int  # Coordinates of the sums that one person changes by one
    least_answers: int = 0  # Fewest that are opened


class PlannedRound(NamedTuple):
    """A round that all parties agreed on before the run."""

    period: int  # From 1
    first: int  # The devices that are asked: from the first one up to, but without, the stop
    stop: int
    epsilon: Epsilon  # Under which each of them answers [nats]
    # In a shuffler's plan, which is certified as a whole: expected honest answers, and pi and kappa of the randomizer.
    # In two servers' plan: honest devices whose noise makes a dose, 0 if servers add it
    honest: int = 0
    levels: tuple[float, float] | None = None
    # The noise of the round in two servers' plan
    noise: PlannedNoise | None = None

    @property
    def certified(self) -> ShuffledRounds:
        """The round as the plan's certificate has it."""
        assert self.levels is not None  # looked at by the caller, as the epsilon is
        assert self.epsilon is not None
        return ShuffledRounds(TwoLevels(*self.levels), self.epsilon, self.honest)

    @property
    def sum_round(self) -> SumRound:
        """The round as the certificate of two servers' plan has it."""
        assert self.noise is not None  # looked at by the caller
        return SumRound(self.noise.deviation, self.noise.changes, self.epsilon)


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement(Checked):
    """The promise to devices; public, and the same for all parties of a run.

    Attributes
    ----------
    trust : str
        Whom devices trust: nobody (``"local"``), a shuffler, one of two servers, or a curator.
    designs : tuple of str
        Designs that queries may have, by their names; empty for any.
    users : int
        Number of devices; their addresses are below it, and books name no others.
    budget : Fraction or None
        Epsilon of all of a device's answers, kept by its ledger [nats]; None if its answers have no noise.
    answers : int or None
        Most answers of a device, each with an equal share of epsilon and delta; None: the budget decides.
    epsilon, delta : Fraction or None, float
        Guarantee of all opened answers together [nats]; epsilon is None if only the budget is promised.
    neighbours : str
        The neighbour relation of the promise.
    devices : int
        Behind a shuffler, the most devices that a round's bound may assume: the size of the smallest round, or all
        devices if each group is amplified by its own size.
    counted, honest : float
        Assumed share of these devices that answer honestly, and assumed share of honest answers.
    withhold : bool
        Whether the shuffler withholds a round with fewer answers.
    noise_of : int
        With two servers, how many devices' shares of noise make a dose; 0 if each server adds its own.
    least_answers : int
        Fewest answers that two servers open.
    composed : bool
        Whether a device's answers behind a shuffler are certified as one plan, instead of adding up.
    levels : tuple of float or None
        In such a plan, pi and kappa of every query's randomizer; None: any randomizer under the local epsilon.
    rounds : tuple of PlannedRound
        With periods, every agreed round: devices answer nothing else.
    memoized : bool
        Whether a device repeats an answer until its likes change; then no epsilon holds for its history.
    counter : int
        With two servers, for how many periods the noise of a sum goes on in later ones, so that devices count each like
        once; 0 where every sum has noise of its own.

    Raises
    ------
    InputError
        If a field is invalid.
    """

    trust: str = LOCAL
    designs: tuple[str, ...] = ()
    users: int = MOST_DEVICES
    budget: Epsilon = None
    answers: int | None = None
    epsilon: Epsilon = None
    delta: float = 0.0
    neighbours: str = REPLACE
    devices: int = MOST_DEVICES
    counted: float = 1.0
    honest: float = 1.0
    withhold: bool = True
    noise_of: int = 0
    least_answers: int = 0
    composed: bool = False
    levels: tuple[float, float] | None = None
    rounds: tuple[PlannedRound, ...] = ()
    memoized: bool = False
    counter: int = 0

    def __post_init__(self) -> None:
        """Hold both privacy parameters exactly, and check all fields; see `Checked`."""
        object.__setattr__(self, "budget", require_epsilon(self.budget, "budget"))
        Checked.__post_init__(self)

    def reals(self) -> dict[str, object]:
        """Return delta and both shares as floats; see `Checked.reals`."""
        return {name: checked.as_real(getattr(self, name)) for name in _REALS}

    def check(self) -> None:
        """Refuse an invalid agreement; see `Checked.check`."""
        _require_choice("trust", self.trust, LOCAL, SHUFFLED, TWO_SERVERS, CURATOR)
        if type(self.designs) is not tuple:
            raise InputError(f"designs are {checked.shown(self.designs)}; give a tuple of names")
        for name in self.designs:
            checked.require_name("design", name)
        checked.require_whole("devices of the run", self.users, 1, MOST_DEVICES)
        require_epsilon(self.budget, "budget")
        require_epsilon(self.epsilon)
        if self.answers is not None:
            checked.require_whole("answers of a device", self.answers, 1, MOST_ANSWERS)
        elif self.epsilon is not None or self.delta:
            raise InputError("an agreement promises an epsilon and says no answers of a device; shares follow from it")
        checked.require_real("delta", self.delta, 0.0, 1.0)
        _require_choice("neighbours", self.neighbours, REPLACE, ADD_REMOVE)
        checked.require_whole("devices of a round", self.devices, 1, MOST_DEVICES)
        for name in ("counted", "honest"):
            checked.require_real(f"share of {name} devices", getattr(self, name), 0.0, 1.0)
        if not self.honest:
            raise InputError("share of honest devices is 0; nobody hides anybody, give more")
        checked.require_bool("withhold", self.withhold)
        checked.require_whole("devices that make a dose", self.noise_of, 0, MOST_HONEST)
        checked.require_whole("fewest answers", self.least_answers, 0, MOST_HONEST)
        checked.require_bool("composed", self.composed)
        checked.require_bool("memoized", self.memoized)
        if self.composed and (
            self.trust != SHUFFLED or None in (self.budget, self.epsilon, self.answers) or not self.delta
        ):
            raise InputError("a plan is composed of answers behind a shuffler, with a budget, an epsilon and a delta")
        if self.levels is not None:
            _require_levels(self.levels)
        self._check_rounds()

    def _check_rounds(self) -> None:
        """Refuse invalid rounds, and rounds that together exceed some device's budget."""
        if type(self.rounds) is not tuple or not all(type(part) is PlannedRound for part in self.rounds):
            raise InputError(f"rounds are {checked.shown(self.rounds)}; give a tuple of planned rounds")
        steps = defaultdict[int, Fraction](Fraction)
        for part in self.rounds:
            checked.require_whole("period", part.period, 1, MOST_DEVICES)
            checked.require_whole("first device", part.first, 0, self.users)
            checked.require_whole("last device and one", part.stop, part.first, self.users)
            if self.planned_levels != (part.levels is not None) or (part.levels and part.epsilon is None):
                raise InputError("rounds of a plan have levels behind a shuffler, all or none; give each, and epsilons")
            self._check_noise(part)
            if part.levels is not None:
                checked.require_whole("honest answers of a round", part.honest, 1, MOST_DEVICES)
                _require_levels(part.levels)
            if (cost := require_epsilon(part.epsilon, "epsilon of a round")) is None:
                continue
            steps[part.first] += cost
            steps[part.stop] -= cost
        by_period = sorted((part.period, part.first, part.stop) for part in self.rounds)
        for (period, _, stop), (later, first, _) in pairwise(by_period):
            if period == later and first < stop:
                raise InputError(f"two rounds of period {period} ask device {first}; a device answers once a period")
        most = max(accumulate(step for _, step in sorted(steps.items())), default=Fraction(0))
        if self.budget is not None and most > self.budget:
            raise InputError(
                f"rounds ask some device for {as_float(most):g} nats in all; agreed is a budget of "
                f"{as_float(self.budget):g}, plan fewer or smaller shares"
            )
        self._check_counter()

    def _check_counter(self) -> None:
        """Refuse a counter of several rounds in a period, of unequal noise, or of more periods than it was made for."""
        checked.require_whole("periods of a counter", self.counter, 0, MOST_PERIODS)
        if not self.counter or not self.rounds:
            return
        periods = [part.period for part in self.rounds]
        of_servers = self.planned_sums and not self.rounds[0].honest and self.delta > 0
        if not of_servers or len({part.noise for part in self.rounds}) > 1 or len({*periods}) < len(periods):
            raise InputError("a counter has one round a period, all under one noise of servers, and a delta above 0")
        if max(periods) > self.counter:
            raise InputError(
                f"a counter of {self.counter} periods has a round of period {max(periods)}; leave that out"
            )

    def _check_noise(self, part: PlannedRound) -> None:
        """Refuse invalid noise, and noise without two servers that add up."""
        if self.planned_sums != (part.noise is not None) or (part.noise and self.trust != TWO_SERVERS):
            raise InputError("rounds of a plan have noise at two servers, all or none; give each")
        if part.noise is None:
            return
        if (part.honest > 0) != (self.rounds[0].honest > 0):
            raise InputError("devices add the noise of some rounds, servers that of others; let either do so")
        checked.require_whole("honest devices of a dose", part.honest, 0, MOST_HONEST)
        checked.require_real("deviation of noise", part.noise.deviation, 0.0, LARGEST_DEVIATION)
        checked.require_whole("coordinates that change", part.noise.changes, 1, checked.MOST_ITEMS)
        checked.require_whole("fewest answers", part.noise.least_answers, 0, MOST_HONEST)

    @property
    def digest(self) -> bytes:
        """Sixteen bytes that identify the agreement: queries carry them, and books record them."""
        return _digest(self)

    def content(self) -> dict[str, Any]:
        """Return all fields as JSON values; floats are hexadecimal, so that each has exactly one text."""
        content: dict[str, Any] = {part.name: getattr(self, part.name) for part in fields(self)}
        content |= {name: str(content[name]) for name in _EXACT if content[name] is not None}
        levels, composed = content.pop("levels"), content.pop("composed")
        rounds = content.pop("rounds")
        if not self.memoized:  # else an agreement has the digest that it had before answers were
            del content["memoized"]
        if not self.counter:  # as above
            del content["counter"]
        if rounds:
            content["rounds"] = [
                [
                    *part[:3],
                    None if part.epsilon is None else str(part.epsilon),
                    *([] if part.levels is None else [part.honest, *(level.hex() for level in part.levels)]),
                    *(
                        []
                        if part.noise is None
                        else [part.honest, {**part.noise._asdict(), "deviation": part.noise.deviation.hex()}]
                    ),
                ]
                for part in rounds
            ]
        if composed or levels is not None:  # else an agreement has the digest that it had before there were plans
            content |= {"composed": composed, "levels": None if levels is None else [level.hex() for level in levels]}
        return content | {name: content[name].hex() for name in _REALS} | {"designs": list(self.designs)}

    @classmethod
    def of_content(cls, content: dict[str, Any]) -> Self:
        """Return the agreement that a `content` describes; raises `InputError` if it is invalid."""
        try:
            values = content | {name: float.fromhex(content[name]) for name in _REALS}
            values |= {name: PrivacyParameter(content[name]) for name in _EXACT if content[name] is not None}
            if (levels := content.get("levels")) is not None:
                values |= {"levels": tuple(map(float.fromhex, levels))}
            rounds = tuple(_planned_round(*part) for part in content.get("rounds", ()))
            return cls(**values | {"designs": tuple(content["designs"]), "rounds": rounds})
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise InputError(f"this is no agreement ({str(error)[:80]})") from None

    def stamped(self, query: Query) -> Query:
        """Return a query with this agreement's digest; its id stays the same."""
        return query if query.agreement == self.digest else replace(query, agreement=self.digest)

    def openings(self, opener: str, book: OpeningBook | None = None) -> Openings:
        """Return an opener's record of what it has opened under this agreement."""
        return Openings(
            opener,
            book,
            agreement=self.digest,
            answers=self.answers,
            users=self.users,
            in_order=self.counter > 0,
        )

    @property
    def openers(self) -> tuple[str, ...]:
        """Who opens answers, as books name them."""
        return {SHUFFLED: (OPENER,), TWO_SERVERS: tuple(map(opener_of, SIDES))}.get(self.trust, ())

    def planned(self, devices: int) -> int:
        """Return the expected number of honest answers in a round that asks this many devices."""
        return math.floor(min(devices, self.devices) * self.counted)

    def reports(self, devices: int, query: Query | None = None) -> int:
        """Return how many reports a round needs if it asks this many devices; in a plan its query says so."""
        part = None if query is None or not self.planned_levels else self._round_of(query, self.planned(devices))
        return math.ceil((self.planned(devices) if part is None else part.honest) / self.honest)

    def honest_of(self, answered: int) -> int:
        """Return how many of these answers are honest: for the number from `reports`, the number from `planned`."""
        return math.floor(answered * self.honest * (1 + 1e-12))  # two roundings of `reports` take no device away

    @property
    def share(self) -> tuple[Epsilon, float]:
        """An answer's share of epsilon [nats] and of delta."""
        answers = self.answers or 1
        return None if self.epsilon is None else self.epsilon / answers, self.delta / answers

    def keeps(self, query: Query, devices: int) -> bool:
        """Return whether an answer hidden among this many honest devices keeps its share, by its own bound."""
        if self.composed:
            return self._in_plan(query, devices)
        epsilon, delta = self.share
        if epsilon is None:
            return True
        # Both bounds are proven, and neither is always the smaller one. Plans that do not know the pools of their
        # rounds count on the second.
        bounds: tuple[Any, ...] = (
            randomizer_of(mechanism_of(query.design), query, query.design).bound,
            AnyRandomizer(),
        )
        if query.epsilon is None or devices < 1 or query.epsilon > LARGEST_EPSILON:
            return query.epsilon is not None and query.epsilon <= epsilon
        numbers = (as_float(epsilon), as_float(query.epsilon), devices, delta)
        return query.epsilon <= epsilon or any(_holds(bound, *numbers) for bound in bounds)

    @property
    def planned_levels(self) -> bool:
        """Whether a shuffler's plan states levels, epsilon and devices for each round separately."""
        return self.composed and bool(self.rounds) and self.rounds[0].levels is not None

    @property
    def planned_sums(self) -> bool:
        """Whether two servers' plan states the noise of each round separately."""
        return bool(self.rounds) and self.rounds[0].noise is not None

    def _in_plan(self, query: Query, devices: int) -> bool:
        """Return whether a query has a plan's levels, no larger epsilon and no fewer devices, and the plan holds."""
        assert self.epsilon is not None  # looked at by `check`
        if self.planned_levels:
            return self._round_of(query, devices) is not None and keeps_histories(
                frozenset(tuple(part.certified for part in parts) for parts in histories(self.rounds)),
                self.epsilon,
                self.delta,
            )
        plan = self._plan
        if query.epsilon is None or query.epsilon > plan.local_epsilon or devices < plan.devices:
            return False
        levels = randomizer_of(mechanism_of(query.design), query, query.design).bound  # refuses what addresses name
        return (self.levels is None or _same_levels(levels, self.levels)) and keeps_plan(plan, self.epsilon, self.delta)

    def _round_of(self, query: Query, devices: int) -> PlannedRound | None:
        """Return the plan's round that covers a query with this many honest answers."""
        levels = randomizer_of(mechanism_of(query.design), query, query.design).bound
        return next(
            (
                part
                for part in self.rounds
                if (part.period, part.epsilon) == (query.period, query.epsilon)
                and max(devices, 1) >= part.honest  # a device is there itself
                and part.levels is not None
                and _same_levels(levels, part.levels)
            ),
            None,
        )

    @property
    def _plan(self) -> ShuffledRounds:
        assert self.budget is not None  # looked at by `check`, as the answers are
        assert self.answers is not None
        bound = AnyRandomizer() if self.levels is None else TwoLevels(*self.levels)
        return ShuffledRounds(bound, self.budget / self.answers, max(self.planned(self.devices), 1), self.answers)

    def require_covered(self, query: Query) -> None:
        """Refuse a query under another agreement, or with a design that was not agreed."""
        if query.agreement != self.digest:  # Words are made for a refusal alone: they take the digest of a query
            require_agreement(f"{query} was asked", query.agreement, self.digest)
        if self.designs and query.design not in self.designs:
            raise AgreementError(
                f"{query} asks design {query.design!r}; agreed was {' or '.join(self.designs)}, ask that"
            )

    def require(self, query: Query, *, shares: bool = False, devices: tuple[int, int] | None = None) -> None:
        """Refuse a query that ``devices`` (first, stop) may not answer, whoever asks and however many others answer."""
        self.require_covered(query)
        self._require_planned(query, devices)
        if shares != (self.trust == TWO_SERVERS):
            kind = "shares" if shares else "an answer"
            raise AgreementError(f"{query} asks for {kind}; agreed was trust {self.trust}, ask as that has it")
        if shares:
            self.require_noise(query)
        elif self.trust == SHUFFLED:
            self.require_amplified(query, self.devices)

    def _require_planned(self, query: Query, devices: tuple[int, int] | None) -> None:
        """Refuse a query if the plan has none for these devices in its period, or has another epsilon."""
        if not self.rounds and not query.period:
            return
        for part in self.rounds:
            inside = devices is None or (part.first <= devices[0] and devices[1] <= part.stop)
            if (part.period, part.epsilon) == (query.period, query.epsilon) and inside:
                return
        periods = sorted({part.period for part in self.rounds})
        raise AgreementError(
            f"{query} asks about period {query.period} under epsilon {as_float(query.epsilon):g}; agreed were "
            f"{len(self.rounds)} rounds {f'in periods {periods[0]} to {periods[-1]}' if periods else 'of no period'}, "
            "of other devices or under other shares: ask as the plan has it"
        )

    def require_amplified(self, query: Query, devices: int) -> None:
        """Refuse a query if a report among this many devices gives away more than a share."""
        self.require_covered(query)
        if self.trust != SHUFFLED:
            raise AgreementError(f"{query} comes to a shuffler; agreed was trust {self.trust}, ask as that has it")
        if self.planned_levels and not self._in_plan(query, self.planned(devices)):
            raise AgreementError(
                f"{query} asked of {devices:,} devices, of which {self.planned(devices):,} count, is none of the "
                f"{len(self.rounds)} rounds that were agreed as one plan, each of its own period, two levels of "
                f"chances, local epsilon and devices that count, which together keep epsilon "
                f"{as_float(self.epsilon):g} and delta {self.delta:g}; ask as the plan does"
            )
        local = None if self.budget is None or self.planned_levels else self.budget / (self.answers or 1)
        if local is not None and (query.epsilon is None or query.epsilon > local):
            raise AgreementError(
                f"{query} has a local epsilon above {as_float(local):g}, which was agreed for one of {self.answers} "
                "answers; lower it"
            )
        if self.composed and not self._in_plan(query, self.planned(devices)):
            plan = self._plan
            raise AgreementError(
                f"{query} asked of {devices:,} devices, of which {self.planned(devices):,} count, is none of the "
                f"{plan.rounds} answers that were agreed as one plan: each has its two levels of chances, a local "
                f"epsilon of at most {float(plan.local_epsilon):g} and {plan.devices:,} devices that count, which "
                f"together keep epsilon {as_float(self.epsilon):g} and delta {self.delta:g}; ask as the plan does"
            )
        if not self.keeps(query, planned := self.planned(devices)):
            epsilon, delta = self.share
            raise AgreementError(
                f"{query} asked of {devices:,} devices, of which {planned:,} count, lets out more than epsilon "
                f"{as_float(epsilon):g} and delta {delta:g} that were agreed for an answer; lower its epsilon, or ask "
                f"more devices, up to {self.devices:,}"
            )

    def require_noise(self, query: Query) -> None:
        """Refuse a query with other noise for two servers' sums than was agreed."""
        self.require_covered(query)
        if self.trust != TWO_SERVERS:
            raise AgreementError(f"{query} asks for shares; agreed was trust {self.trust}, ask as that has it")
        mechanism = mechanism_of(query.design)
        if not isinstance(mechanism, SharedVector):
            raise InputError(f"{query} is not answered in shares; two servers add up designs that are sums")
        if self.planned_sums:
            self._require_planned_noise(query, mechanism)
            return
        for noun, value, agreed in self._noise(query, mechanism):
            if value != agreed:
                raise AgreementError(f"{query} has {noun} {value}; agreed was {agreed}, ask under that")
        if self.epsilon is not None and (query.epsilon is None or query.epsilon > self.epsilon):
            raise AgreementError(
                f"{query} has noise for epsilon {as_float(query.epsilon):g}; agreed was {as_float(self.epsilon):g} for "
                "all answers, lower it"
            )
        if (delta := mechanism.delta(query)) > self.share[1]:
            raise AgreementError(
                f"{query} asks for delta {delta:g}; agreed was {self.share[1]:g} for each of {self.answers} answers, "
                "lower it"
            )

    def _require_planned_noise(self, query: Query, mechanism: SharedVector) -> None:
        """Refuse a query without the noise of a planned round, and a plan that does not keep the promise."""
        values, parts = query.parameters, [part for part in self.rounds if part.period == query.period]
        noise = PlannedNoise(values[DEVIATION], int(values[CHANGES]), int(values[LEAST_ANSWERS]))
        honest, holds = int(values[HONEST]), True
        if self.epsilon is not None and self.counter:
            common = self.rounds[0].sum_round
            holds = keeps_counter(self.counter, common.changes, common.deviation, self.epsilon, self.delta)
        elif self.epsilon is not None:
            opened = frozenset(tuple(part.sum_round for part in parts) for parts in histories(self.rounds))
            holds = keeps_sums(opened, self.epsilon, self.delta, devices=self.rounds[0].honest > 0)
        inside = (query.epsilon, honest, noise) in {(part.epsilon, part.honest, part.noise) for part in parts}
        agreed = mechanism.relation_of(query) == self.neighbours and mechanism.delta(query) <= self.delta
        if not (inside and agreed and holds):
            raise AgreementError(
                f"{query} with noise of deviation {noise.deviation:g} is none of the {len(self.rounds)} rounds that "
                f"were agreed as one plan, each of its own period and noise for {self.neighbours}, which together keep "
                f"epsilon {as_float(self.epsilon):g} and delta {self.delta:g}; ask as the plan does"
            )

    def _noise(self, query: Query, mechanism: SharedVector) -> Iterator[tuple[str, object, object]]:
        """Yield the terms of a query's noise that must be as agreed: name, value, and agreed value."""
        yield "noise for neighbours", mechanism.relation_of(query), self.neighbours
        yield "noise of so many devices (0: of servers)", int(query.parameters[HONEST]), self.noise_of
        yield "fewest answers", int(query.parameters[LEAST_ANSWERS]), self.least_answers


def _require_levels(levels: object) -> None:
    if type(levels) is not tuple or len(levels) != 2:
        raise InputError(f"levels are {checked.shown(levels)}; give a plan's pi and kappa, or None")
    TwoLevels(*(checked.require_real("level", level, 0.0, 1.0) for level in levels))


def _same_levels(bound: object, levels: tuple[float, float]) -> bool:
    """Return whether a randomizer has exactly these two levels."""
    if not isinstance(bound, TwoLevels):
        return False
    # Their last bits are a processor's, and lie within what bounds add to kappa
    pairs = zip((bound.pi, bound.kappa), levels, strict=True)
    return all(math.isclose(here, agreed, rel_tol=1e-14) for here, agreed in pairs)


def _planned_round(
    period: int, first: int, stop: int, epsilon: str | None, honest: int = 0, *more: Any
) -> PlannedRound:
    """Return a round as an agreement's `content` has it."""
    part = PlannedRound(period, first, stop, None if epsilon is None else PrivacyParameter(epsilon), honest)
    if more and type(more[0]) is dict:
        return part._replace(noise=PlannedNoise(**more[0] | {"deviation": float.fromhex(more[0]["deviation"])}))
    return part._replace(levels=tuple(map(float.fromhex, more)) or None)  # type: ignore[arg-type] # looked at later


@lru_cache(maxsize=64)
def histories(rounds: tuple[PlannedRound, ...]) -> frozenset[tuple[PlannedRound, ...]]:
    """Return the rounds in which a device answers, for each kind of device."""
    cuts = sorted({end for part in rounds for end in (part.first, part.stop)})
    return frozenset(
        tuple(part for part in rounds if part.first <= first and stop <= part.stop) for first, stop in pairwise(cuts)
    ) - {()}


def stamped(query: Query, agreement: Agreement | None) -> Query:
    """Return a query with an agreement's digest, if there is one; see `Agreement.stamped`."""
    return query if agreement is None else agreement.stamped(query)


def intermediary_of(agreement: Agreement | None) -> Agreement | None:
    """Return the agreement if a shuffler or two servers hold it as well, else None."""
    return agreement if agreement is not None and agreement.openers else None


def _require_choice(name: str, value: object, *choices: str) -> None:
    if type(value) is not str or value not in choices:
        raise InputError(f"{name} of an agreement is {checked.shown(value)}; choose one of {', '.join(choices)}")


@lru_cache(maxsize=64)
def _digest(agreement: Agreement) -> bytes:
    return digest_of(agreement.content())


@lru_cache(maxsize=1 << 12)
def _holds(bound: Any, epsilon: float, local: float, devices: int, delta: float) -> bool:
    return bool(bound.delta(epsilon, local, devices) <= delta)
