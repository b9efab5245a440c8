"""Two servers over periods of time: noise that composes to one guarantee, and plans that nobody asks beyond."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import worlds
from evidence import variance_fits
from faults import stopped
from runs import Command, complains, here, present, small

from actors.device import Cohort
from coordinator.protocol.agreement import Agreement, PlannedRound
from coordinator.protocol.coins import as_words, derive
from coordinator.protocol.composition import gaussian_distance
from coordinator.protocol.errors import AgreementError, WithheldError
from coordinator.protocol.mechanisms.sets import ranked_first
from coordinator.protocol.mechanisms.totals import Totals
from coordinator.protocol.messages import Query
from coordinator.protocol.noise import sums_delta
from coordinator.protocol.shared_vector import CHANGES, DEVIATION
from coordinator.protocol.shares import SIDES
from coordinator.protocol.statistics.counts import GroupStatistic
from coordinator.protocol.summed_plan import changes_by_deviation
from coordinator.protocol.trust import opener_of
from scenarios.config.resolve import ResolvedRun, resolve
from scenarios.data.populations import populate
from scenarios.families.main.main_columns import record
from scenarios.families.main.run import MainResult


def months(**changes: Any) -> Any:
    """A small scenario of three periods at two servers."""
    sums = {"design": "totals", "users": 600, "periods": 3, "schedule": "split", "drift": 0.1, "seed": 3}
    return small(**sums | changes)


def delta_of(rounds: Sequence[PlannedRound], *, devices: bool = False) -> float:
    """The delta at epsilon 1 of a person who answers all of these rounds."""
    return sums_delta(changes_by_deviation(part.sum_round for part in rounds), epsilon=1, devices=devices)


@pytest.mark.parametrize("noise", ["servers", "devices"])
@pytest.mark.parametrize("schedule", ["split", "front"])
@pytest.mark.parametrize("design", ["totals", "pair-totals"])
def test_squares_of_the_rounds_distances_add_up_to_that_of_the_guarantee(
    schedule: str, noise: str, design: str
) -> None:
    """Of twelve months; the twin, whose noise is that of a plan of eleven, breaks the promise."""
    settings = {"schedule": schedule, "noise": noise, "design": design}
    by_periods = {periods: resolve(months(periods=periods, **settings)).agreement for periods in (11, 12)}
    rounds = by_periods[12].rounds
    changes = sum(part.sum_round.changes / part.sum_round.deviation**2 for part in rounds)
    assert changes**0.5 == pytest.approx(gaussian_distance(1, 1e-6), rel=2e-3)
    assert delta_of(rounds, devices=noise == "devices") <= 1e-6
    assert delta_of([*by_periods[11].rounds, by_periods[11].rounds[-1]], devices=noise == "devices") > 1.2e-6
    first, *later = (present(part.epsilon) for part in rounds)
    assert (first > later[0]) == (schedule == "front")
    assert len(set(later)) == 1
    assert Agreement.of_content(by_periods[12].content()) == by_periods[12]


def test_a_result_says_each_periods_noise_and_what_it_comes_to() -> None:
    values = record(here(months(schedule="front")))
    assert (values["epsilon"], values["delta"], values["spent_max"], values["refused"]) == (1.0, 1e-6, 1.0, 0)
    first, second, third = values["by_period"]
    assert first["noise_deviation"] < second["noise_deviation"] == third["noise_deviation"]
    assert 0 < first["spent"] < second["spent"] < third["spent"] == 1.0
    assert values["bytes_per_device"] == 3 * (4 * 40 + 16)
    laplace = record(here(months(delta=0)))
    assert [row["spent"] for row in laplace["by_period"]] == [float(Fraction(part, 3)) for part in (1, 2, 3)]
    free = record(here(months(epsilon="inf", noise="devices")))
    assert (free["by_period"][-1]["spent"], free["noise_deviation"], free["periods_withheld"]) == ("inf", 0.0, None)


def test_a_period_whose_devices_noise_falls_short_is_withheld_and_its_share_is_spent() -> None:
    run = here(months(noise="devices", dropout=0.1))
    values, by_period = record(run), run.outcome.state.by_period
    rows = [(row["answered"], row["noise_deviation"]) for row in values["by_period"] if "withheld" in row]
    assert rows
    assert set(rows) == {(0, None)}
    assert 0 < len(rows) < 3
    assert values["by_period"][-1]["spent"] == 1.0
    assert by_period[-1].information.any()


@pytest.mark.statistical
def test_the_first_period_ranks_items_and_later_ones_pair_those_on_top(blindrec: Command, tmp_path: Path) -> None:
    """Noise of 465 pairs over two periods has twice the variance of one: chi-square, 1e-6; the twin has that of one.

    Another process goes on with the same pairs.
    """
    run = here(months(design="pair-totals", pair_items=30, pair_likes=5, epsilon=8))
    queries, values, statistic = [ask.query for ask in run.outcome.state.asked], record(run), run.statistic
    assert isinstance(statistic, GroupStatistic)
    assert [(query.period, query.pool is None) for query in queries] == [(1, True), (2, False), (3, False)]
    pool = ranked_first(statistic.ranked, 30)
    for query in queries[1:]:
        assert np.array_equal(present(query.pool), pool)
    assert np.array_equal(present(run.outcome.model.near).pool, pool)
    assert [int(query.parameters[CHANGES]) for query in queries] == [10, 30, 30]
    assert values["bytes_per_device"] == 4 * 40 + 2 * 4 * 465 + 3 * 16
    assert values["pair_deviation"] == pytest.approx(3**0.5 * values["noise_deviation"], rel=1e-3)
    together = np.zeros((30, 30))
    for period in (2, 3):
        rows = run.population.ratings.at(period).rated(as_words(derive(3, "devices")), 0, 600)
        likes = np.zeros((600, 40))
        likes[rows.owners[rows.values], rows.items[rows.values]] = 1
        together += likes[:, pool].T @ likes[:, pool]
    noise, variance = statistic.paired - together[np.triu_indices(30)], values["pair_deviation"] ** 2
    assert [variance_fits(noise, periods * variance) for periods in (1, 2)] == [False, True]
    flags = ["run", "--design", "pair-totals", "--trust", "two-servers", "--items", 40, "--rated", 5, "--users", 300]
    flags += ["--periods", 3, "--schedule", "split", "--pair-items", 10, "--backend", "inprocess"]
    whole = blindrec(*flags, "--json", "-").result
    stopped(blindrec, 2, *flags, "--out", tmp_path / "out")
    again = blindrec("resume", tmp_path / "out", "--backend", "inprocess", "--json", "-").result
    assert again["releases_sha256"] == whole["releases_sha256"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"schedule": "once"}, "a schedule asks in period 1 alone, where pair-totals ranks items"),
        ({"ageing": 0.5}, "pairs of all periods are pooled"),
        ({"item_arrivals": 0.1}, "pair-totals pairs items that went"),
    ],
)
def test_what_pairs_over_periods_lack_is_refused(changes: dict[str, Any], words: str) -> None:
    with complains(words):
        resolve(months(design="pair-totals", **changes))


def test_pairs_of_a_ranking_that_was_withheld_are_not_asked_about() -> None:
    with pytest.raises(WithheldError, match="the first period was withheld, which says whose pairs"):
        here(months(design="pair-totals", noise="devices", dropout=0.5))


def queries_of(resolved: ResolvedRun, count: int) -> list[Query]:
    """The queries of a plan, and of periods after it with the noise of the last one."""
    policy = resolved.policy
    state = here(months(periods=2, design=resolved.scenario.design)).outcome.state
    made = list[Query]()
    for number in range(count):
        asks = state.asked[:1] * min(number, len(resolved.agreement.rounds) - 1)
        query = present(policy.next_query(replace(state, asked=asks))).query
        made.append(resolved.agreement.stamped(replace(query, round=number, period=number + 1)))
    return made


def cohort(resolved: ResolvedRun, folder: Path) -> Cohort:
    """All devices of a plan, whose ledger a folder keeps."""
    ratings, agreement = populate(resolve(months(periods=13)).scenario).ratings, resolved.agreement
    return Cohort(
        ratings, derive(3, "devices"), 0, 600, agreement.budget, keeper=worlds.keeper_on(folder), agreement=agreement
    )


@pytest.mark.parametrize(("design", "schedule"), [("totals", "split"), ("totals", "counter"), ("pair-totals", "split")])
def test_a_thirteenth_question_is_refused_by_devices_and_both_servers_also_of_a_new_process(
    design: str, schedule: str, tmp_path: Path
) -> None:
    resolved = resolve(months(periods=12, design=design, schedule=schedule))
    agreement, queries, everybody = resolved.agreement, queries_of(resolved, 13), np.ones(600, np.bool_)
    devices, books = cohort(resolved, tmp_path / "devices"), tmp_path / "openings"
    shares = [devices.share(side, query, 0, 600) for query in queries[:12] for side in SIDES]
    assert {share.refused for share in shares} == {0}
    openings = agreement.openings(opener_of(SIDES[0]), worlds.keeper_on(books))
    for query in queries[:12]:
        openings.note(query, 0, everybody)
    later, again = (
        cohort(resolved, tmp_path / "devices"),
        agreement.openings(opener_of(SIDES[0]), worlds.keeper_on(books)),
    )
    assert later.share(SIDES[0], queries[3], 0, 600) == shares[6]
    for query in (queries[12], replace(queries[3], period=0)):
        with pytest.raises(AgreementError, match="agreed were 12 rounds in periods 1 to 12"):
            later.share(SIDES[0], query, 0, 600)
        with complains("is none of the 12 rounds that were agreed as one plan"):
            agreement.require_noise(query)
    other = replace(queries[3], public_seed=bytes(range(16)))  # as good as agreed, but not the one that was answered
    assert later.share(SIDES[1], other, 0, 600).refused == 600
    with complains("opened an answer about period 4 before"):
        again.note(other, 0, everybody)


def test_a_counter_goes_on_in_the_order_of_periods_alone_also_in_a_new_process(tmp_path: Path) -> None:
    """Under `split`, whose sums have noise of their own, a period that was left out may follow."""
    for schedule in ("split", "counter"):
        resolved, folder = resolve(months(periods=12, schedule=schedule)), tmp_path / schedule
        queries, everybody = queries_of(resolved, 12), np.ones(600, np.bool_)
        assert cohort(resolved, folder / "devices").share(SIDES[0], queries[4], 0, 600).refused == 0
        resolved.agreement.openings(opener_of(SIDES[0]), worlds.keeper_on(folder / "book")).note(
            queries[4], 0, everybody
        )
        devices = cohort(resolved, folder / "devices")
        assert devices.share(SIDES[1], queries[2], 0, 600).refused == (600 if schedule == "counter" else 0)
        assert devices.share(SIDES[1], queries[6], 0, 600).refused == 0
        openings = resolved.agreement.openings(opener_of(SIDES[0]), worlds.keeper_on(folder / "book"))
        if schedule == "split":
            openings.note(queries[2], 0, everybody)
            continue
        with complains("is about period 3, but the server of words opened a sum of period 5"):
            openings.note(queries[2], 0, everybody)
        openings.note(queries[6], 0, everybody[:300])
        with complains("opened a sum of period 7"):  # of other devices, whose noise would go on beside it
            openings.note(queries[6], 300, everybody[300:])


def counted(run: MainResult, most: int) -> Any:
    """The standings of every period that devices' ratings come to, and how many likes each device has had so far."""
    ratings, users, liked = run.population.ratings, run.resolved.world.users, set[tuple[int, int]]()
    for period in range(1, 1 + (run.scenario.periods or 0)):
        rows = ratings.at(period).rated(as_words(derive(3, "devices")), 0, users)
        liked |= {*zip(rows.owners[rows.values].tolist(), rows.items[rows.values].tolist(), strict=True)}
        devices, items = np.array(sorted(liked)).T
        kept = np.minimum(np.bincount(devices, minlength=users), most)
        yield np.bincount(items, minlength=run.resolved.world.items), kept.sum()


def standings_of(run: MainResult) -> list[Any]:
    return [estimates.value * run.resolved.world.users for estimates in run.outcome.state.by_period]


def test_a_device_counts_each_like_once_and_at_most_so_many_over_all_periods() -> None:
    """Without noise: all that 600 devices have liked so far, or three of each; whatever the layout is."""
    free = {"epsilon": "inf", "schedule": "counter", "drift": 0.3, "periods": 4}
    run = here(months(**free))
    for standings, (likes, kept) in zip(standings_of(run), counted(run, 5), strict=True):
        assert standings == pytest.approx(likes)
        assert kept == likes.sum()
    capped = here(months(**free, most_likes=3), workers=2, devices_per_actor=64)
    before = np.zeros(40)
    for standings, (likes, kept) in zip(standings_of(capped), counted(capped, 3), strict=True):
        assert standings.sum() == pytest.approx(kept) != likes.sum()
        assert (standings > before - 1e-9).all()
        assert (standings < likes + 1e-9).all()
        before = standings
    assert capped.outcome.releases_sha256 == here(months(**free, most_likes=3)).outcome.releases_sha256


def test_those_who_come_later_count_from_then_on() -> None:
    """A period's devices alone: what a newcomer would have liked before it came is counted when it comes."""
    run = here(months(epsilon="inf", schedule="counter", drift=0.3, churn=0.2))
    ratings, asks, total = run.population.ratings, run.outcome.state.asked, np.zeros(40)
    liked, before = np.zeros((600, 40), np.bool_), 0
    for ask, estimates in zip(asks, run.outcome.state.by_period, strict=True):
        assert before < ask.stop
        rows = ratings.at(ask.query.period).rated(as_words(derive(3, "devices")), 0, 600)
        likes = np.zeros((600, 40), np.bool_)
        likes[rows.owners[rows.values], rows.items[rows.values]] = True
        likes[ask.stop :] = False
        absence = run.job.absence.present(as_words(derive(3, "devices")), ask.query.words, 0, 600, ask.query.period)
        total += (likes & ~liked)[: ask.stop][present(absence)[: ask.stop] == 1].sum(axis=0)
        liked |= likes
        before = ask.stop
        assert estimates.value * ask.stop == pytest.approx(total)


@pytest.mark.statistical
def test_standings_have_the_noise_that_results_say(blindrec: Command, tmp_path: Path) -> None:
    """Spec I 6: of 20,000 items, chi-square, false alarm 3e-6; twins have 5 % more, and noise of their own each period.

    A run that was stopped goes on so.
    """
    run = here(months(schedule="counter", items=20_000, users=40, drift=0.3))
    noise = [standings - likes for standings, (likes, _) in zip(standings_of(run), counted(run, 5), strict=True)]
    stated = [row["noise_deviation"] for row in record(run)["by_period"]]
    for part, deviation in zip(noise, stated, strict=True):
        assert [variance_fits(part, (factor * deviation) ** 2) for factor in (1, 1.05)] == [True, False]
    assert not variance_fits(noise[2], 3 * stated[0] ** 2)
    flags = ["run", "--design", "totals", "--items", 40, "--rated", 5, "--users", 300, "--periods", 4]
    flags += ["--schedule", "counter", "--backend", "inprocess", "--dropout", 0.1]
    whole = blindrec(*flags, "--json", "-").result
    stopped(blindrec, 2, *flags, "--out", tmp_path / "out")
    again = blindrec("resume", tmp_path / "out", "--backend", "inprocess", "--json", "-").result
    assert again["releases_sha256"] == whole["releases_sha256"]
    assert (whole["spent_max"], whole["unit"]) == (1.0, "person-history")
    assert 0 < whole["by_period"][0]["spent"] < whole["by_period"][1]["spent"] < 1


def test_a_counter_of_too_little_noise_or_of_more_periods_is_no_plan() -> None:
    by_periods = {periods: resolve(months(periods=periods, schedule="counter")) for periods in (11, 12)}
    agreement, query = by_periods[12].agreement, queries_of(by_periods[12], 1)[0]
    assert Agreement.of_content(agreement.content()) == agreement
    agreement.require_noise(query)
    with pytest.raises(WithheldError):  # since an empty sum would be nothing but noise that goes on
        Totals().require_enough(query, 0)
    shorter = by_periods[11].agreement
    noise = present(shorter.rounds[0].noise)
    rounds = tuple(part._replace(noise=noise, epsilon=shorter.rounds[0].epsilon) for part in agreement.rounds)
    broken = replace(agreement, rounds=rounds, budget=12 * present(rounds[0].epsilon))
    with complains("is none of the 12 rounds that were agreed as one plan"):
        broken.require_noise(broken.stamped(queries_of(by_periods[11], 1)[0]))
    for wrong in (
        {"counter": 11},
        {"rounds": (*agreement.rounds[:11], rounds[11]), "budget": Fraction(9)},
        {"delta": 0.0},
    ):
        with complains("a counter"):
            replace(agreement, **wrong)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"design": "set", "trust": "local"}, "schedule counter is about design totals and trust two-servers, not set"),
        ({"design": "set", "trust": "shuffled"}, "schedule counter is about design totals"),
        ({"design": "pair-totals"}, "schedule counter is about design totals"),
        ({"noise": "devices"}, "noise is devices, who leave while that of schedule counter goes on"),
        ({"delta": 0}, "delta is 0, but the noise of schedule counter is Gaussian"),
        ({"ageing": 0.3}, "schedule counter adds up all periods"),
        ({"item_arrivals": 0.1}, "schedule counter keeps the likes of items that went"),
    ],
)
def test_what_a_counter_lacks_is_refused(changes: dict[str, Any], words: str) -> None:
    with complains(words):
        resolve(months(**{"schedule": "counter", **changes}))


def test_servers_and_devices_refuse_other_noise_and_a_plan_that_breaks_its_promise(tmp_path: Path) -> None:
    """As the plan has it nobody refuses; a plan of less noise is refused as a whole, though each round is agreed."""
    resolved = resolve(months())
    agreement, (query, *_) = resolved.agreement, queries_of(resolved, 3)
    assert cohort(resolved, tmp_path).share(SIDES[0], query, 0, 600).refused == 0
    louder = {**query.parameters, DEVIATION: 2 * query.parameters[DEVIATION]}
    for wrong in (replace(query, parameters=louder), replace(query, epsilon=Fraction(1, 2)), replace(query, period=4)):
        with complains("is none of the 3 rounds that were agreed as one plan"):
            agreement.require_noise(wrong)
    alone = resolve(months(periods=2)).agreement.rounds[0]
    rounds = tuple(alone._replace(period=period) for period in (1, 2, 3))
    broken = replace(agreement, rounds=rounds, budget=3 * present(alone.epsilon))
    asked = replace(query, epsilon=alone.epsilon, parameters={**query.parameters, DEVIATION: alone.sum_round.deviation})
    with complains("is none of the 3 rounds", "which together keep epsilon 1 and delta 1e-06"):
        broken.require_noise(broken.stamped(asked))
    holds = replace(agreement, rounds=rounds[:2], budget=3 * present(alone.epsilon))
    holds.require_noise(holds.stamped(asked))
