"""A row that is a run: what `blindrec run` does under a trust model, with devices or with sums drawn from their law."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from actors.ratings import StoredRatings
from coordinator.protocol.arrays import Ints
from coordinator.protocol.custom import Mechanism
from coordinator.protocol.item_models import typical_error
from coordinator.protocol.mechanism import GROUPS
from coordinator.protocol.messages import Query
from coordinator.protocol.trust_models import LOCAL, SHUFFLED, TWO_SERVERS
from coordinator.protocol.value_channels import PADDED
from coordinator.server.rounds.conductor import run_rounds
from coordinator.server.rounds.rounds import Outcome, QueryRounds
from coordinator.server.rounds.state import Ask
from scenarios.backends.selection import InProcess
from scenarios.config.resolve import resolve
from scenarios.config.scenario import Scenario
from scenarios.data.people import FilePeople
from scenarios.data.populations import Population
from scenarios.families.main.run import query_plan, run
from scenarios.studies.compare.advisors import pair_advice
from scenarios.studies.compare.comparison_settings import Comparison
from scenarios.studies.compare.row import AGGREGATE, BY_PEOPLE, DEVICES, LearnedScores, Liar, Row, RowRequest
from scenarios.studies.compare.worlds import FileWorld
from scenarios.theory.draws import Drawn
from scenarios.theory.liars import likes_of_liar, share_to_lift

TENTH = 10  # The last place of a list


def people_of(world: FileWorld, request: RowRequest) -> Ints:
    """Return the person behind each device: everybody once, or a random sample for another number of devices."""
    if request.users == world.people:
        return np.arange(world.people)
    return request.coins.integers(world.people, size=request.users)


def tenth_share(world: FileWorld, most: int) -> float:
    """Return the share of people in whose sets of at most so many likes the tenth most liked item is."""
    shares = FilePeople(world.fold).likers(lambda likes: np.minimum(1.0, most / likes))
    return float(np.sort(shares)[-TENTH])


def liar_of(query: Query, world: FileWorld) -> Liar | None:
    """Return what devices are worth that lie to a query about single items; None where it is no such query."""
    if query.epsilon is None or (likes := likes_of_liar(query)) is None:
        return None
    values = int(query.parameters[PADDED]) if query.design == "set" else 1
    return Liar(likes, share_to_lift(likes, tenth_share(world, values)))


def honest_sets(world: FileWorld, most: int) -> Liar:
    """Return what a liar is worth if each of its likes counts once: one like of an item."""
    return Liar(1.0, share_to_lift(1.0, tenth_share(world, most)))


def asks_of(outcome: Outcome) -> tuple[Ask, ...]:
    """Return the queries of a run that is over, and which devices each went to."""
    return outcome.state.asked


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow(Row):
    """A mechanism of `blindrec run` that ranks items by its estimates, not by their clusters."""

    mechanism: str
    design: str | Mechanism  # The mechanism's name there, or a custom mechanism
    # Its settings from the comparison's public constants and the number of items
    settings: Callable[[Comparison, int], Mapping[str, Any]] = lambda *_: {}
    trust_model: str = LOCAL
    approximate: bool = False
    pure: bool = False
    has_law: bool = True  # Whether its sum has a law; otherwise only devices can answer

    asks: frozenset[str] = BY_PEOPLE

    def reaches(self, users: int, settings: Comparison) -> bool:
        """Return whether there is a law to draw from, where there are too many people to answer one by one."""
        return Row.reaches(self, users, settings) and (self.has_law or users <= settings.devices)

    def scenario_of(self, items: int, request: RowRequest) -> Scenario:
        """Return the scenario that `blindrec run` would have; it knows only the number of items in the file."""
        trust: dict[str, Any] = {}
        if self.trust_model == TWO_SERVERS:
            delta = request.delta if self.approximate else 0.0
            trust = {"trust": TWO_SERVERS, "delta": delta, "neighbours": request.settings.relation}
        elif self.trust_model == SHUFFLED and request.epsilon is not None:  # without, there is nothing to amplify
            trust = {"trust": SHUFFLED, "delta": request.delta, "expected_answers": 1.0}
        scenario = Scenario(
            design=self.design,
            ratings=request.settings.ratings,
            users=request.users,
            rated=min(request.settings.likes, items),
            epsilon="inf" if request.epsilon is None else request.epsilon,
            seed=request.seed,
            **trust,
            **self.settings(request.settings, items),
        )
        return scenario.complete(items=items)

    def advise(self, world: FileWorld, request: RowRequest) -> LearnedScores:
        """Let devices answer, or draw the sums of their answers; devices apply a model of pairs to their own likes."""
        on_devices = request.users <= request.settings.devices and (self.trust_model == LOCAL or not self.has_law)
        outcome = self.answered(world, request) if on_devices else self.sampled(world, request)
        model, simulated = outcome.model, DEVICES if on_devices else AGGREGATE
        noise = typical_error(model.error)
        if model.near is None:
            learned = LearnedScores.noisy(model.score, noise, simulated)
        else:
            ties = request.coins.permutation(world.items)
            learned = pair_advice(model.near, model.score, ties, noise=noise, simulated=simulated)
        queries = [ask.query for ask in asks_of(outcome)]
        if self.trust_model == TWO_SERVERS:  # an ideal proof has every device send at most so many bits
            most = int(queries[0].parameters[PADDED])
            return learned if model.near else replace(learned, liar=honest_sets(world, most))
        learned = replace(learned, liar=liar_of(queries[0], world))
        if self.trust_model == LOCAL:
            return learned
        local = [float(query.epsilon) for query in queries if query.epsilon is not None]
        # Of each device as many: of a policy that asks in groups one, otherwise one a round
        reports = sum(ask.stop - ask.first for ask in outcome.state.asked) / request.users
        return replace(learned, epsilon_local=reports * max(local) if local else None, messages=reports)

    def answered(self, world: FileWorld, request: RowRequest, user: Ints | None = None) -> Outcome:
        """Return what is learned from devices, through rounds, ledgers and each device's own coins.

        ``user`` holds the person behind each device; by default `people_of`.
        """
        user = people_of(world, request) if user is None else user
        scenario = self.scenario_of(world.items, request)
        if scenario.policy == GROUPS:
            user = request.coins.permutation(user)
        train, public = world.fold.train, scenario.settings.rated_public
        population = Population(
            scenario=scenario,
            ratings=StoredRatings(rows=train, user=user.astype(np.int32), rated_public=public),
            truth=None,
            split=None,
            item_labels=np.array([""] * world.items, dtype=np.object_),
            copies_max=int(np.bincount(user).max()),
        )
        return run(scenario, InProcess(1), population=population).outcome

    def sampled(self, world: FileWorld, request: RowRequest) -> Outcome:
        """Return what the same run learns from sums that are drawn from their laws, round by round."""
        people = FilePeople(world.fold)
        scenario = self.scenario_of(world.items, request)
        # Where the same people answer in all rounds; counts are binomial about theirs, a little noisier than they are
        if self.trust_model == TWO_SERVERS or scenario.answers_per_device > 1:
            people = people.sample(request.users, request.coins)
        plan = query_plan(resolve(scenario))
        return run_rounds(QueryRounds(plan, Drawn(people, request.coins)), keep=lambda _: None)
