"""Rounds of queries: ask the policy's query, absorb the answers, repeat; then learn the item model."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import ClassVar

from coordinator.protocol.agreement import Agreement, stamped
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.custom import CustomMechanism
from coordinator.protocol.decoding.posterior import Posterior
from coordinator.protocol.errors import BlindrecError, LedgerError, LostError, PolicyError, WithheldError
from coordinator.protocol.messages import Model, Query
from coordinator.protocol.statistics.statistic import Statistic
from coordinator.server.design import MOST_ROUNDS
from coordinator.server.rounds.conductor import Fleet, Transport
from coordinator.server.rounds.learner import Learner
from coordinator.server.rounds.policies import PurityCheck, complaint_about, in_a_line, next_ask, policy_name
from coordinator.server.rounds.state import Ask, Policy, RunProgress, ServerState, Spending
from coordinator.server.rounds.transcript import chain, digest, size_of, transcripts_of

ANEW = "start in a new folder"  # Advice for a run that cannot be resumed


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """A finished round."""

    ask: Ask  # What was asked, and whom
    statistic: Statistic  # The sum of the answers
    digest: bytes  # SHA-256 of all releases
    size: int = 0  # Bytes of all releases as messages
    transcripts: tuple[str, ...] = ()  # SHA-256 of what each of two servers got, in hexadecimal


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of a run on the server's side."""

    state: ServerState  # Queries of all rounds and the sum of their statistics
    model: Model  # The learned item model
    releases_sha256: str  # Digest over all releases in device order
    size: int = 0  # Bytes of all releases as messages, which went through the coordinator
    posterior: Posterior | None = None  # How sure the server is of every item's cluster, if there are estimates
    failure: str | None = None  # What went wrong with the policy, if the model was learned from the rounds before that
    transcripts: tuple[str, ...] = ()  # SHA-256 of what each of two servers got in all rounds, in hexadecimal


class QueryRounds:
    """Asks and absorbs round after round until the policy stops, then learns; see `conductor.ServerProcess`."""

    def __init__(
        self, plan: QueryPlan, transport: Transport, report_progress: Callable[[int], None] = lambda _: None
    ) -> None:
        self._policy, self._learner, self._most_rounds = plan.policy, plan.learner, plan.most_rounds
        self._transport, self._report_progress = transport, report_progress
        self._purity = PurityCheck(plan.policy)
        self._agreement = plan.agreement
        # Epsilons of memoized answers keep none together
        self._memoized = plan.agreement is not None and plan.agreement.memoized
        self._state, self._spending = plan.start, Spending(None if self._memoized else plan.budget)
        planned = getattr(plan.policy, "rounds", None)
        self._progress = RunProgress(planned=planned if type(planned) is int else None)
        self._digests: list[bytes] = []
        self._transcripts: list[tuple[str, ...]] = []
        self._size = 0
        self._failure: str | None = None

    def replay(self, record: Round) -> None:
        """Take in a stored round of an interrupted run, as it is."""
        # the policy is not asked again, because the last bits of a float may differ on another processor
        if complaint := complaint_about(record.ask, self._state):
            raise PolicyError(f"round {self._state.round_number} cannot have been asked: {complaint}; {ANEW}")
        self._learner.checked(record.ask, self._policy, self._state)
        if self._agreement is not None:
            self._agreement.require_covered(record.ask.query)
        self._absorb(record)
        self._report_progress(record.ask.stop - record.ask.first)

    def run_round(self) -> Round | None:
        """Run the next round; return None if the policy stopped or failed."""
        if self._failure or (ask := self._next()) is None:
            return None
        self._progress = replace(self._progress, undecided=self._undecided(ask))
        if (record := self._ask_round(ask)) is None:
            return None
        self._absorb(record)
        return record

    def outcome(self) -> Outcome:
        """Learn from all rounds."""
        if not self._state.round_number:
            where = policy_name(self._policy, self._state)
            raise PolicyError(
                f"{where}: it stopped before any round and has learned nothing; return setting.ask(...) first"
            )
        model, posterior = self._learner.learn(self._state)
        return Outcome(
            state=self._state,
            model=model,
            releases_sha256=chain(self._digests),
            size=self._size,
            posterior=posterior,
            failure=self._failure,
            transcripts=tuple(
                chain([*map(bytes.fromhex, transcript)])
                for transcript in zip(*filter(None, self._transcripts), strict=True)  # none of a withheld round
            ),
        )

    def progress(self) -> RunProgress:
        """Return how far the rounds have come; see `ServerProcess.progress`."""
        return self._progress

    def _undecided(self, ask: Ask) -> int | None:
        if not getattr(self._policy, "asks_undecided", False):
            return None
        return ask.query.items if ask.query.pool is None else int(ask.query.pool.size)

    def _next(self) -> Ask | None:
        """Return the next round, or None if the policy stopped, or None and the failure if it failed."""
        try:
            ask = next_ask(self._policy, self._state, most_rounds=self._most_rounds)
            self._purity.check(ask, self._state, most_rounds=self._most_rounds)
            ask = self._learner.checked(ask, self._policy, self._state)
            return ask and replace(ask, query=stamped(ask.query, self._agreement))
        except BlindrecError as error:
            self._policy_failed(error)
            return None

    def _ask_round(self, ask: Ask) -> Round | None:
        """Return a round that was asked, or None and the failure if devices refused it."""
        try:
            statistic, releases = self._transport.ask(ask)
            return Round(
                ask=ask,
                statistic=statistic,
                digest=digest(releases),
                size=size_of(releases),
                transcripts=transcripts_of(releases),
            )
        except (LostError, LedgerError):
            raise  # not the policy's fault; the stored rounds can be resumed
        except WithheldError as error:
            if not self._state.round_number:
                raise  # nobody learned anything
            self._failure = str(error)
            return None
        except BlindrecError as error:
            self._policy_failed(error)
            return None

    def _absorb(self, record: Round) -> None:
        self._digests.append(record.digest)
        self._transcripts.append(record.transcripts)
        self._size += record.size
        self._state = self._learner.absorb(self._state, record.ask, record.statistic)
        cost = None if self._memoized else record.ask.query.epsilon
        self._spending.ask(record.ask.first, record.ask.stop, cost)
        self._progress = replace(
            self._progress,
            rounds=self._progress.rounds + 1,
            answers=(self._progress.answers or 0) + record.statistic.answered,
            refused=(self._progress.refused or 0) + record.statistic.refused,
            epsilon=self._spending.most,
            undecided=self._undecided(record.ask),
        )

    def _policy_failed(self, error: BlindrecError) -> None:
        description = f"{policy_name(self._policy, self._state)}: {in_a_line(error)}"
        self._failure = str(error) if isinstance(error, PolicyError) else description
        if not self._state.round_number:
            raise PolicyError(self._failure) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryPlan:
    """Which queries are asked, and how the server learns from them; see `conductor.ServerSpec`."""

    in_step: ClassVar[bool] = False  # repeating a round costs its devices nothing, whatever came before it

    policy: Policy  # What asks
    learner: Learner  # What reads the answers
    devices: int  # Number of devices that can be asked
    budget: Epsilon = None  # What a device may spend in all [nats]; None for no limit
    most_rounds: int = MOST_ROUNDS  # Rounds after which the policy is assumed never to stop
    agreement: Agreement | None = None  # The agreement of all queries

    @property
    def custom(self) -> CustomMechanism | None:
        """The experimenter's own mechanism."""
        return self.learner.custom

    @property
    def start(self) -> ServerState:
        """The state before the first round."""
        return ServerState(devices=self.devices, budget=self.budget)

    def rehearsal(self) -> Query | None:
        """Return the policy's first query; a policy is pure, so asking it here has no effect."""
        ask = next_ask(self.policy, self.start, most_rounds=self.most_rounds)
        return stamped(ask.query, self.agreement) if ask else None

    def begin(self, fleet: Fleet) -> QueryRounds:
        """Return the process in its state before the first round."""
        return QueryRounds(self, fleet.queries(self.custom), fleet.report_progress)


def require_same(
    policy: Policy, learner: Learner, earlier: Iterable[Round], *, devices: int, budget: Epsilon = None
) -> None:
    """Check that a policy whose code has changed would have asked the rounds of an interrupted run."""
    state = ServerState(devices=devices, budget=budget)
    for number, record in enumerate(earlier):
        ask = learner.checked(next_ask(policy, state, most_rounds=number + 1), policy, state)
        if ask is None or not _alike(ask, record.ask):
            would = f"ask {ask.query} of devices {ask.first} to {ask.stop - 1}" if ask else "stop"
            raise PolicyError(
                f"{policy_name(policy, state)}: its code has changed since the run began, and it would {would}, where "
                f"{record.ask.query} was asked of devices {record.ask.first} to {record.ask.stop - 1}; go on with that "
                f"code, or {ANEW}"
            )
        state = learner.absorb(state, record.ask, record.statistic)


def _alike(ask: Ask, other: Ask) -> bool:
    """Return whether two rounds are the same except for the last bits of their numbers."""
    parameters, stored = ask.query.parameters, other.query.parameters
    close = parameters.keys() == stored.keys() and all(
        math.isclose(parameters[name], stored[name]) for name in parameters
    )
    return close and replace(ask, query=replace(ask.query, parameters=stored)) == other
