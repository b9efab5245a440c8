"""Custom mechanisms in this process: what they report, one answer on every layout, and what goes wrong with them."""

import inspect
import math
import re
import threading
from dataclasses import replace
from typing import Any

import mechanisms
import numpy as np
import pytest
from evidence import normal_radius
from mechanisms import OUE, Array, Large, LocalHashing, Works
from runs import EPSILON, ITEMS, RATED, RATINGS, SECRET, TRUE, USERS, WORLD, first_query, job, outcome, present

from actors.device import Cohort
from coordinator.protocol.arrays import Floats, Ints, Words
from coordinator.protocol.channels import CoinOf, Likelihood, MatrixChannel, matrix_channel
from coordinator.protocol.custom import (
    UNCHECKED,
    Catalogue,
    CoinsBlock,
    Mechanism,
    MechanismError,
    Question,
    RatingsBlock,
    Tally,
    admitted,
)
from coordinator.protocol.custom_adapter import adapter
from coordinator.protocol.errors import InputError, PolicyError
from coordinator.protocol.mechanism import KMEANS, POOLED, Decoding, World
from coordinator.protocol.mechanisms import check_question, mechanism_of
from coordinator.protocol.messages import Query
from coordinator.protocol.short_adapter import estimated
from coordinator.protocol.statistics.counts import CountStatistic
from coordinator.server.aggregation import aggregate
from scenarios.config.admission import EXACT, FOR_SOME, admitted_for


class NoCoins(Works):
    """Hands what are no coins to a function of ours, which raises."""

    def sketch(self, question: Question, ratings: RatingsBlock, coins: CoinsBlock) -> Array:
        return ratings.random_item(coins)[0]  # type: ignore[arg-type] # on purpose


class TakesNothing(Works):
    def sketch(self) -> Array:  # type: ignore[override] # on purpose
        return np.zeros(1)


class LikelihoodOfBits(Works):
    """Names bits, whose channel is no likelihood."""

    def query(self, catalogue: Catalogue) -> Question:
        return Question(bits=6)

    def channel(self, question: Question) -> Any:
        return Likelihood(claimed=question.epsilon, bits=6, likelihood=lambda *_: [1.0], sampler=lambda bits, *_: bits)


def named(ratings: RatingsBlock) -> str:
    return "Rated_" + "_".join(str(item) for item in ratings.items[:5])


class RaisesByName(Works):
    """Tells a rating in the name of its error."""

    def sketch(self, question: Question, ratings: RatingsBlock, coins: CoinsBlock) -> Array:
        raise type(named(ratings), (Exception,), {})


class NamesByType(Works):
    def sketch(self, question: Question, ratings: RatingsBlock, coins: CoinsBlock) -> Array:
        return type(named(ratings), (), {})()  # type: ignore[no-any-return] # on purpose


class NamesByDtype(Works):
    def sketch(self, question: Question, ratings: RatingsBlock, coins: CoinsBlock) -> Array:
        return np.zeros(ratings.devices.size, np.dtype([(named(ratings), np.int64)]))


class WrongShape(Works):
    def sketch(self, question: Question, ratings: RatingsBlock, coins: CoinsBlock) -> Array:
        return super().sketch(question, ratings, coins)[:, None]


class WrongDtype(Works):
    def sketch(self, question: Question, ratings: RatingsBlock, coins: CoinsBlock) -> Array:
        return super().sketch(question, ratings, coins) + 0.5


class Outside(Works):
    def sketch(self, question: Question, ratings: RatingsBlock, coins: CoinsBlock) -> Array:
        return super().sketch(question, ratings, coins) + 2 * question.items + 1


class TooManyOnes(OUE):
    def sketch(self, question: Question, ratings: RatingsBlock, coins: CoinsBlock) -> Array:
        return np.ones((ratings.devices.size, question.bits), np.uint8)


class AsksNothing(Works):
    def query(self, catalogue: Catalogue) -> Question:
        return Question()


class AsksAnything(Works):
    def query(self, catalogue: Catalogue) -> Question:
        return 7  # type: ignore[return-value] # on purpose


class OtherChannel(Works):
    def channel(self, question: Question) -> MatrixChannel:
        return matrix_channel([[0.5, 0.5], [0.5, 0.5]], question.epsilon)


class NoDistribution(Works):
    def channel(self, question: Question) -> MatrixChannel:
        size = question.outputs
        return matrix_channel(np.full((size, size), 2 / size).tolist(), question.epsilon)


class CountsFloats(Works):
    def count(self, question: Question, released: Array, devices: Ints) -> Ints:
        return np.zeros(3)  # type: ignore[return-value] # on purpose


class EstimatesFewer(Works):
    def estimate(self, question: Question, tally: Tally) -> tuple[Floats, Floats]:
        value, error = super().estimate(question, tally)
        return value[1:], error[1:]


class NoError(Works):
    def estimate(self, question: Question, tally: Tally) -> tuple[Floats, Floats]:
        value, error = super().estimate(question, tally)
        return value, 0 * error


class Lacking(Mechanism):
    def query(self, catalogue: Catalogue) -> Question:
        return Question(bits=1)


class LargeLiar(Large):
    """As large, and it tells more than it claims; in a small catalogue, which can be gone through, it shows."""

    def query(self, catalogue: Catalogue) -> Question:
        small = catalogue.items < 100
        return Question(outputs=super().query(catalogue).outputs, values=2 * catalogue.items if small else 0)

    def kept(self, question: Question) -> float:
        return 0.999


class SamplesNonsense(LocalHashing):
    def channel(self, question: Question) -> Likelihood:
        stated = super().channel(question)

        def draw(private: Array, public: Words, coin: CoinOf) -> Any:
            return np.full((len(private), 1), 7, np.uint8)

        return Likelihood(claimed=stated.claimed, bits=stated.bits, likelihood=stated.likelihood, sampler=draw)


HONEST = (mechanisms.OUE, mechanisms.GRR, mechanisms.LocalHashing)


def answered(query: Query, *, first: int = 0, stop: int = USERS) -> CountStatistic:
    """What devices answer, summed up."""
    cohort = Cohort(RATINGS, SECRET, first, stop, EPSILON)
    found = aggregate(query, cohort.answer(query, first, stop))
    assert isinstance(found, CountStatistic)
    return found


@pytest.mark.statistical
@pytest.mark.parametrize("kind", HONEST)
def test_estimates_lie_around_the_truth_as_their_errors_say(kind: type[Mechanism]) -> None:
    """False alarm 1e-6 for 20 normal values, and for their slope against the truth; a twin of 1.5 is refused."""
    design, query = first_query(kind())
    value, error = estimated(design.mechanism.custom, query, answered(query))
    assert np.abs((value - TRUE) / error).max() < normal_radius(1.0, comparisons=20)
    along, length = TRUE / error**2, math.sqrt(np.square(TRUE / error).sum())
    assert abs((value - TRUE) @ along) / length < normal_radius(1.0) < abs((value - 1.5 * TRUE) @ along) / length
    model = mechanism_of(design.mechanism.custom.name).decode(
        answered(query), query, Decoding(clusters=2, decoder=KMEANS)
    )
    assert np.array_equal(model.cluster, RATINGS.clusters)
    assert np.array_equal(model.score, value)
    assert np.array_equal(model.error, error)


def test_without_noise_nothing_but_sampling_is_left() -> None:
    world = World(items=ITEMS, rated=RATED, users=USERS, clusters=2, epsilon=None)
    own, _ = admitted_for(mechanisms.GRR(), world, epsilon=None)
    query = adapter(own).query(world, round_number=0, public_seed=bytes(16), epsilon=None)
    statistic = aggregate(query, Cohort(RATINGS, SECRET, 0, USERS, None).answer(query, 0, USERS))
    assert isinstance(statistic, CountStatistic)
    assert (statistic.sums[-1], statistic.sums.sum()) == (0, USERS)


def test_a_pool_is_asked_about_alone() -> None:
    design, query = first_query(mechanisms.GRR(), pool=[1, 4, 7])
    assert query.parameters["outputs"] == 7
    told = design.read(query, answered(query))
    assert np.flatnonzero(told.information).tolist() == [1, 4, 7]
    assert (np.abs(told.value - TRUE) / told.error)[[1, 4, 7]].max() < 5.5
    assert mechanism_of(design.mechanism.custom.name).policies == POOLED
    whole = design.query(round_number=0, public_seed=bytes(16), epsilon=EPSILON)
    assert (design.rates(query).shape, design.rates(whole).shape) == ((3,), (ITEMS,))
    assert design.rates(query)[0] > 1.5 * design.rates(whole)[0]
    measured = 1 / (USERS * estimated(design.mechanism.custom, query, answered(query))[1] ** 2)
    assert (design.rates(query) < measured).all()  # most devices rated none of three items: less noise than typical
    assert (measured < 2 * design.rates(query)).all()


def test_who_cannot_ask_about_pools_says_which_policies_it_can_follow() -> None:
    design, _ = first_query(mechanisms.OUE())
    with pytest.raises(InputError, match="OUE asks about no pools of items; it can follow one-round and fixed"):
        design.query(round_number=0, public_seed=bytes(16), epsilon=EPSILON, pool=np.array([3], np.int32))
    assert mechanism_of(design.mechanism.custom.name).policies == ("one-round", "fixed")


def test_channels_are_checked_exactly() -> None:
    world = WORLD
    told = {kind.__name__: admitted_for(kind(), world, epsilon=EPSILON)[1] for kind in HONEST}
    assert {name: one.how for name, one in told.items()} == {"OUE": EXACT, "GRR": EXACT, "LocalHashing": FOR_SOME}
    for one in told.values():
        assert 2 * (1 - 1e-6) < one.epsilon <= 2
        assert one.warning is None


def test_a_sampler_must_follow_its_likelihood() -> None:
    with pytest.raises(MechanismError, match="method sampler, round 0: its draws differ from its likelihood"):
        first_query(mechanisms.Crooked())


def test_what_cannot_be_gone_through_is_claimed_not_checked() -> None:
    own, checked = admitted_for(mechanisms.Large(), WORLD, epsilon=EPSILON)
    assert (checked.how, own.unchecked) == (UNCHECKED, True)
    query = adapter(own).query(WORLD, round_number=0, public_seed=bytes(16), epsilon=EPSILON)
    assert check_question(query).guarantee.endswith("(claimed, not checked)")
    large = World(items=200, rated=RATED, users=USERS, clusters=2, epsilon=EPSILON)
    with pytest.raises(MechanismError, match="method likelihood, round 0: the largest log-ratio"):
        admitted_for(LargeLiar(), large, epsilon=EPSILON)


def test_nobody_answers_a_query_of_a_mechanism_that_was_not_admitted() -> None:
    design, query = first_query(mechanisms.OUE())
    stranger = replace(
        query, design=design.mechanism.custom.name[:-1] + ("0" if design.mechanism.custom.name[-1] != "0" else "1")
    )
    assert admitted(stranger.design) is None
    with pytest.raises(InputError, match="is unknown to devices"):
        Cohort(RATINGS, SECRET, 0, 8, EPSILON).answer(stranger, 0, 8)


def test_what_asks_about_pools_can_be_asked_by_adaptive_policies() -> None:
    found = outcome(job(mechanisms.GRR(), adaptive=True))
    assert np.array_equal(found.model.cluster, (TRUE < 0).astype(np.int32))
    assert len(found.state.asked) > 2
    assert found.state.asked[-1].query.pool is not None
    assert present(found.posterior).decided(0.05).all()
    assert found.state.answers_asked < 20_000


def test_posteriors_can_be_had_of_any_that_estimates() -> None:
    of = job(mechanisms.OUE(), adaptive=True)
    plain = job(mechanisms.OUE())
    found = outcome(replace(of, plan=replace(of.plan, policy=plain.plan.policy)))
    assert found.posterior is not None
    assert np.array_equal(found.model.cluster, (TRUE < 0).astype(np.int32))


def line_in(kind: type[Mechanism]) -> int:
    """The line of a class's sketch after its signature."""
    return inspect.getsourcelines(kind.sketch)[1] + 1


DEVICES = {
    mechanisms.Raises: r"method sketch, round 0: it raised ValueError in line \d+; its text stays on the device",
    RaisesByName: r"method sketch, round 0: it raised an error of its own in line \d+; its text stays on",
    NoCoins: rf"method sketch, round 0: it raised [A-Za-z]+ in line {line_in(NoCoins)}; its text",
    TakesNothing: r"method sketch, round 0: it raised TypeError when it was called; its text stays on",
    NamesByType: r"method sketch, round 0: it returned no array; return an array of whole numbers",
    NamesByDtype: r"method sketch, round 0: it returned an array of no numbers; return an array",
    WrongShape: r"method sketch, round 0: it returned shape \(1, 1\); return \(1,\) for this block",
    WrongDtype: r"method sketch, round 0: it returned an array of float64; return an array of whole numbers",
    Outside: r"method sketch, round 0: some of its values lie outside 0 to 40",
    mechanisms.NeverEnds: r"method sketch, round 0: it did not end within 0.5 s; make it faster, or set",
    TooManyOnes: r"method sketch, round 0: a sketch has more ones than the channel's 1",
    CountsFloats: r"method count, round 0: it returned no array of whole numbers in one dimension",
}
SERVERS = {
    AsksNothing: r"method query, round 0: its question names neither outputs, from 2 on, nor bits",
    AsksAnything: r"method query, round 0: it returned a int; return a Question",
    OtherChannel: r"method channel, round 0: a MatrixChannel of 2 outputs is none of a question of 41",
    LikelihoodOfBits: r"method channel, round 0: a question of bits has no Likelihood; return that of",
    NoDistribution: r"method channel, round 0: probabilities of a channel's row sum to 2;",
    EstimatesFewer: r"method estimate, round 0: it returned shapes \(19,\) and \(19,\); return \(20,\), one",
    NoError: r"method estimate, round 0: some values are not finite, or some standard errors not above 0",
    SamplesNonsense: r"method sampler, round 0: it draws no \d bits a device",
}


def line_of(error: pytest.ExceptionInfo[PolicyError]) -> str:
    """The one line of an error; nothing of a rating is in it."""
    told = str(error.value)
    assert "\n" not in told
    assert "rated" not in told.replace("generated", "").lower()
    assert not re.search(r"\[[\d ]+\]|True|False", told)
    return told


@pytest.mark.parametrize("kind", DEVICES)
def test_what_devices_cannot_use_is_told_in_a_line(kind: type[Mechanism], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(PolicyError) as error:
        outcome(job(kind()))
    assert re.match(f"mechanism {kind.__name__}, {DEVICES[kind]}", line_of(error))
    assert "Rated" not in capsys.readouterr().out


@pytest.mark.parametrize("kind", SERVERS)
def test_what_cannot_be_asked_is_told_before_anybody_is(kind: type[Mechanism]) -> None:
    with pytest.raises(MechanismError) as error:
        admitted_for(kind(), WORLD, epsilon=EPSILON)
    assert re.match(f"mechanism {kind.__name__}, {SERVERS[kind]}", line_of(error))


def test_a_class_that_lacks_something_is_told_what() -> None:
    with pytest.raises(InputError, match="design Lacking lacks channel, sketch, estimate"):
        admitted_for(Lacking(), WORLD, epsilon=EPSILON)
    with pytest.raises(InputError, match="design is a int, no mechanism"):
        admitted_for(7, WORLD, epsilon=EPSILON)  # type: ignore[arg-type] # on purpose


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", [mechanisms.Raises, mechanisms.NeverEnds])
def test_earlier_rounds_are_kept_and_learned_from(kind: type[mechanisms.Raises]) -> None:
    found = outcome(job(kind(late=2), rounds=4))
    assert len(found.state.asked) == 2
    assert str(found.failure).startswith(f"mechanism {kind.__name__}, method sketch, round 2: ")
    assert found.model.cluster.size == WORLD.items


def test_what_never_ends_is_left_behind_in_a_thread_that_keeps_nobody_waiting() -> None:
    before = set(threading.enumerate())
    with pytest.raises(MechanismError, match="its thread goes on until its process ends, which on Ray is now"):
        outcome(job(mechanisms.NeverEnds()))
    left = set(threading.enumerate()) - before
    assert left
    assert all(thread.daemon for thread in left)
    for thread in left:
        thread.join()
