"""Runs over periods of time: a schedule's rounds, one budget for all of them, and a ledger that outlives the run."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import worlds
from faults import stopped
from runs import Command, account_of, alike, complains, here, planted_ratings, present, small, write_movielens

from actors.device import Cohort
from actors.keeper import Keeper
from actors.ratings import BlockRatings
from coordinator.protocol.agreement import Agreement, PlannedRound
from coordinator.protocol.coins import as_words, derive
from coordinator.protocol.decoding.estimates import Estimates
from coordinator.protocol.errors import AgreementError, InputError, WithheldError
from coordinator.protocol.schedule import SCHEDULES, Horizon, Panel, Schedule, Stay, schedule_of
from coordinator.protocol.trust import OPENER
from coordinator.server.rounds.scheduled import AgeingLearner, asking, renewal_share
from scenarios.config.custom_kinds import design_of
from scenarios.config.planned_periods import arriving_items
from scenarios.config.resolve import resolve
from scenarios.data.populations import liked_share, populate
from scenarios.families.main.main_columns import record
from scenarios.families.main.main_seed import tables_of
from scenarios.families.main.run import MainResult
from scenarios.studies.years.reports import HorizonGuarantee, answers_left, asking_plan, reports_of

FLAGS = ["run", "--design", "set", "--items", 40, "--rated", 5, "--users", 600, "--seed", 3, "--periods", 3]
FLAGS += ["--schedule", "split", "--drift", 0.1, "--backend", "inprocess"]


def months(**changes: Any) -> Any:
    """A small scenario of three periods."""
    return small(**{"design": "set", "users": 900, "periods": 3, "schedule": "split", "drift": 0.1, **changes})


@pytest.mark.parametrize(
    ("schedule", "rounds"),
    [
        ("once", [(1, 0, 900)]),
        ("split", [(1, 0, 900), (2, 0, 900), (3, 0, 900)]),
        ("rotate", [(1, 0, 300), (2, 300, 600), (3, 600, 900)]),
        ("stay:2", [(1, 0, 900), (2, 0, 900)]),
        ("front", [(1, 0, 687), (2, 687, 793), (3, 793, 900)]),
    ],
)
def test_a_schedule_says_which_devices_answer_about_which_period(schedule: str, rounds: list[Any]) -> None:
    run = here(months(schedule=schedule))
    asks = run.outcome.state.asked
    assert [(ask.query.period, ask.first, ask.stop) for ask in asks] == rounds
    share = Fraction(1, {"split": 3, "stay:2": 2}.get(schedule, 1))
    assert {ask.query.epsilon for ask in asks} == {share}
    assert [ask.query.round for ask in asks] == list(range(len(asks)))
    values = record(run)
    assert values["spent_max"] == values["epsilon"] == 1.0
    assert values["unit"] == "person-history"
    assert [row["period"] for row in values["by_period"]] == [ask.query.period for ask in asks]
    assert tables_of(run)["rounds"]["period"].tolist() == [ask.query.period for ask in asks]


def test_front_with_all_of_it_renewed_rotates_and_with_none_it_asks_once() -> None:
    for renewal, other in ((Fraction(1), "rotate"), (Fraction(0), "once")):
        horizon = Horizon(periods=4, alone=True, renewal=renewal)
        rounds = [asking(SCHEDULES[name], horizon, (1000, 0, 0, 0)).rounds for name in ("front", other)]
        assert rounds[0] == rounds[1]
    assert renewal_share(0.1) == Fraction(float(0.1**2 / (0.1**2 + 0.234**2))).limit_denominator(1000)
    assert renewal_share(float("inf")) == 1


@pytest.mark.parametrize("trust", ["local", "shuffled"])
def test_those_who_left_do_not_answer_and_as_many_come(trust: str) -> None:
    """Of 3,000 users 2,500 are there at a time, of whom a tenth leaves in each period."""
    scenario = months(users=3000, churn=0.1, trust=trust)
    resolved, run = resolve(scenario), here(scenario)
    rounds = present(resolved.asking).rounds
    assert [(part.first, part.stop, part.devices) for part in rounds] == [
        (0, 2500, 2500),
        (0, 2750, 2500),
        (0, 3000, 2025 + 225 + 250),
    ]
    assert [counts.answered for counts in run.outcome.state.counts] == [2500, 2500, 2500]
    assert alike(here(scenario, workers=2, devices_per_actor=800), run)
    values = record(run)
    assert values["spent_mean"] == pytest.approx(values["spent_max"] * 2500 / 3000)
    if trust == "shuffled":
        assert {part.honest for part in resolved.agreement.rounds} == {2250}
    else:
        assert here(months(users=3000)).outcome.state.counts[2].answered == 3000


@pytest.mark.parametrize(("schedule", "repeated"), [("memoize", 1.0), ("split", 0.0)])
def test_memoized_answers_stay_as_long_as_likes_do_and_tell_every_change(schedule: str, repeated: float) -> None:
    """Whatever the epsilon; the twin draws every answer anew, and says nothing of whose likes changed."""
    run = here(months(schedule=schedule, users=2000, epsilon=4, drift=0.02, chosen=4))
    ratings, secret = run.population.ratings, as_words(derive(0, "devices"))
    devices = Cohort(ratings, derive(0, "devices"), 0, 2000, run.job.plan.budget, agreement=run.resolved.agreement)
    answers, likes = [], []
    for ask in run.outcome.state.asked:
        answers.append(devices.answer(ask.query, 0, 2000).unpacked())
        rows = ratings.at(ask.query.period).rated(secret, 0, 2000)
        likes.append(rows.values.reshape(2000, -1))
    for before, after in ((0, 1), (1, 2), (0, 2)):
        same = (answers[before] == answers[after]).all(axis=1)
        stays = (likes[before] == likes[after]).all(axis=1)
        assert 200 < stays.sum() < 1950
        assert same[stays].mean() == pytest.approx(repeated, abs=0.01)
        assert same[~stays].mean() < 0.01
    assert {spent for *_, spent in run.spent} == {Fraction(12 if repeated else 4)}  # as devices' ledgers count answers


def test_a_result_of_memoized_answers_has_a_warning_and_no_epsilon(blindrec: Command) -> None:
    """Spec I 11; errors are those of one answer, since what one period does not know is not known after three."""
    ended = blindrec(*FLAGS, "--schedule", "memoize", "--json", "-")
    assert "warning: memoize keeps no epsilon for histories" in ended.err
    names = ("epsilon", "spent_max", "spent_mean", "person_epsilon")
    assert [ended.result[name] for name in names] == ["inf"] * 4
    assert {row["spent"] for row in ended.result["by_period"]} == {"inf"}
    assert (ended.result["neighbours"], ended.result["delta"]) == (None, None)
    standing = here(months(schedule="memoize", drift=0.0, ageing=0.0)).outcome
    assert standing.model.error == pytest.approx(standing.state.by_period[0].error)


def test_items_that_come_are_public_and_are_estimated_anew() -> None:
    scenario = months(item_arrivals=0.1, drift=0.0, ageing=0.0, users=200)
    resolved, run = resolve(scenario), here(scenario)
    ratings, came = run.population.ratings, arriving_items(resolved.scenario)
    assert isinstance(ratings, BlockRatings)
    assert [items.size for items in came] == [4, 4]
    for period, items in enumerate(came, 2):
        changed = np.flatnonzero(ratings.at(period).clusters != ratings.at(period - 1).clusters)
        assert set(changed.tolist()) <= set(items.tolist())
        information = run.outcome.state.by_period[period - 1].information
        others = np.setdiff1d(np.arange(40), np.concatenate(came[: period - 1]))
        assert np.allclose(information[items], information[others].mean() / period, rtol=0.3)
    assert renewal_share(0.1, 0.02) == Fraction(6, 25)


class Unequal(Schedule):
    """Half of the budget, then a quarter of it."""

    def panels(self, arrival: int, horizon: Horizon) -> tuple[Panel, ...]:
        """One panel."""
        shares = (Fraction(1, 2), Fraction(1, 4)) + (Fraction(0),) * (horizon.periods - 2)
        return (Panel(weight=Fraction(1), shares=shares),)


def test_shares_may_differ_and_a_period_that_would_ask_nobody_is_refused() -> None:
    asks = here(months(schedule=f"{__name__}:Unequal")).outcome.state.asked
    assert [ask.query.epsilon for ask in asks] == [Fraction(1, 2), Fraction(1, 4)]
    with complains("schedule rotate asks none of 2 devices in period 1"):
        asking(SCHEDULES["rotate"], Horizon(periods=3, alone=True), (2, 0, 0))


@pytest.mark.parametrize(
    ("schedule", "rounds"),
    [
        ("once", [(1, 0, 60), (2, 60, 90), (3, 90, 100)]),
        ("split", [(1, 0, 60), (2, 0, 90), (3, 0, 100)]),
        ("rotate", [(1, 0, 20), (2, 20, 55), (3, 55, 100)]),
        ("stay:2", [(1, 0, 60), (2, 0, 90), (3, 60, 100)]),
    ],
)
def test_those_who_come_later_stand_where_few_stretches_answer(schedule: str, rounds: list[Any]) -> None:
    asked = asking(schedule_of(schedule), Horizon(periods=3, alone=True), (60, 30, 10))
    assert [part[:3] for part in asked.rounds] == rounds
    arrivals = dict.fromkeys((1, 2, 3), 0)
    for group in asked.groups:
        arrivals[group.arrival] += group.stop - group.first
        assert not any(group.shares[: group.arrival - 1])
    assert arrivals == {1: 60, 2: 30, 3: 10}


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"policy": "fixed"}, "the schedule says who answers"),
    ({"design": "sign"}, "estimate no shares"),
    ({"decoder": "posterior"}, "labels of estimates that age are read by k-means"),
    ({"malicious": 0.1}, "what liars do over periods is not known"),
    ({"schedule": "never"}, "schedule 'never' is unknown"),
    ({"schedule": "memoize", "trust": "shuffled"}, "memoize is about design set and trust local, not set and shuffled"),
    ({"schedule": "memoize", "item_arrivals": 0.1}, "memoize repeats answers about items that went"),
    ({"schedule": "front", "trust": "shuffled", "design": "subset"}, "schedule front has unequal shares"),
    ({"schedule": "front", "trust": "shuffled", "chosen": 3}, "chosen is given, but behind a shuffler a plan"),
    ({"periods": None}, "schedule is 'split', which is about periods of time"),
    ({"periods": None, "schedule": "once", "drift": 0.0, "churn": 0.1}, "churn is 0.1, which is about periods of time"),
]


@pytest.mark.parametrize(("changes", "words"), REFUSED)
def test_what_does_not_go_with_periods_is_refused(changes: dict[str, Any], words: str) -> None:
    with complains(words):
        resolve(months(**changes))


def test_layouts_tell_the_same_and_periods_are_about_their_own_ratings() -> None:
    scenario = months()
    run = here(scenario)
    assert alike(here(scenario, workers=3, devices_per_actor=70), run)
    still = here(months(drift=0.0))
    first, second, third = (ask.query.id for ask in run.outcome.state.asked)
    assert len({first, second, third}) == 3
    assert run.outcome.releases_sha256 != still.outcome.releases_sha256
    assert run.outcome.state.asked[0].query == still.outcome.state.asked[0].query


def test_a_query_without_a_period_has_the_id_that_it_had_before() -> None:
    query = here(small(design="set", users=100)).outcome.state.asked[0].query
    assert query.period == 0
    assert replace(query, period=0).id == query.id
    assert len({replace(query, period=period).id for period in range(3)}) == 3


def _estimates(run: MainResult, period: int) -> Estimates:
    """What the rounds of a period alone say."""
    assert isinstance(run.resolved.learner, AgeingLearner)
    by_period, learner = run.outcome.state.by_period, run.resolved.learner
    if period == 1:
        return by_period[0]
    before, after = learner.aged(by_period[period - 2], 1), by_period[period - 1]
    return Estimates(weighted=after.weighted - before.weighted, information=after.information - before.information)


@pytest.mark.statistical
@pytest.mark.parametrize("design", ["set", "totals"])
def test_each_period_estimates_its_own_shares_within_four_errors(design: str) -> None:
    """20,000 devices, 40 items, 3 periods: two of 120 beyond 4 standard errors have a chance of 3e-5, by normal laws.

    The twin holds the last period's estimates against the shares of the first one.
    """
    scenario = months(users=20_000, epsilon=6, ageing="inf", drift=0.3, design=design)
    run, population = here(scenario), populate(resolve(scenario).scenario)
    scale, far = scenario.items / scenario.rated if design == "set" else 1.0, list[int]()
    for period in (1, 2, 3):
        truth = liked_share(replace(population, ratings=population.ratings.at(period))) * scale
        estimates = _estimates(run, period)
        far.append(int((np.abs(estimates.value - truth) > 4 * estimates.error).sum()))
    assert sum(far) <= 1
    first = liked_share(replace(population, ratings=population.ratings.at(1))) * scale
    estimates = _estimates(run, 3)
    assert (np.abs(estimates.value - first) > 4 * estimates.error).sum() > 5


@pytest.mark.statistical
def test_split_answers_err_by_their_people_once_and_not_by_a_third_of_them() -> None:
    """Three periods of a standing taste, hardly any noise: 40 errors' mean square is below 2, false alarm 2e-4.

    The twin takes the same people for different ones, as the filter does, and is above it.
    """
    scenario = months(design="totals", users=20_000, epsilon=30, drift=0.0, ageing=0.0)
    run = here(scenario)
    model, truth, filtered = run.outcome.model, liked_share(run.population), present(run.outcome.state.estimates).error
    assert np.square((model.score - truth) / model.error).mean() < 2
    assert np.square((model.score - truth) / filtered).mean() > 2
    sample = model.score * (1 - model.score) / 20_000
    assert np.square(model.error) == pytest.approx(np.square(filtered) + 2 / 3 * sample)
    others = here(scenario.model_copy(update={"schedule": "rotate"})).outcome
    assert others.model.error == pytest.approx(present(others.state.estimates).error)


def test_estimates_age_by_hand() -> None:
    learner = AgeingLearner(design=present(resolve(months()).design), clusters=2, ageing=0.5)  # type: ignore[arg-type]
    old = Estimates(weighted=np.full(20, 8.0), information=np.full(20, 10.0))  # values .8, so that q = .16
    aged = learner.aged(old, 2)
    assert aged.value == pytest.approx(old.value)
    assert 1 / aged.information == pytest.approx(1 / 10 + 2 * (0.5 * 0.8) ** 2)
    assert replace(learner, ageing=0.0).aged(old, 2).information == pytest.approx(old.information)


def test_one_plan_behind_a_shuffler_counts_all_periods() -> None:
    """Three answers are certified together: each under less than alone, and more than a third of it."""
    split, alone = (
        resolve(months(trust="shuffled", users=20_000, schedule=name)).account for name in ("split", "once")
    )
    assert split.agreement.composed
    assert split.agreement.answers == 3
    assert account_of(resolve(months(trust="shuffled", composition="added"))).agreement.composed is False
    third, whole = present(split.mechanism_epsilon) / 3, present(alone.mechanism_epsilon)
    assert whole / 3 < third < whole
    values = record(here(months(trust="shuffled", users=20_000)))
    assert values["epsilon"] == 1.0
    assert values["by_period"][-1]["spent"] == values["epsilon_local"]


@pytest.mark.parametrize("schedule", ["split", "front", "rotate", "stay:2"])
def test_behind_a_shuffler_devices_answer_as_the_study_of_years_has_it(schedule: str) -> None:
    """Local epsilons, sizes of reports and what is left if the shuffler lies; certified for all who answer."""
    scenario = months(trust="shuffled", schedule=schedule, users=3000, padded=4, expected_answers=1.0)
    resolved = resolve(scenario)
    horizon = Horizon(periods=3, alone=False, renewal=renewal_share(0.1))
    present_shares = np.triu(np.outer([1.0, 0.0, 0.0], np.ones(3)))
    plan = asking_plan(SCHEDULES.get(schedule, Stay(2)), horizon, present_shares, 3000)
    guarantee = HorizonGuarantee(trust_model="shuffled", epsilon=Fraction(1), delta=1e-6, items=40, likes=4)
    reports = reports_of(plan, guarantee)
    rounds = resolved.agreement.rounds
    assert [float(present(part.epsilon)) for part in rounds] == [of[0].local_epsilon for of in reports if of]
    assert {part.honest for part in rounds} == {group.honest for of in plan.groups for group in of}
    left = answers_left(SCHEDULES.get(schedule, Stay(2)), horizon, reports)
    run = here(scenario)
    values = record(run)
    assert values["epsilon_local"] == values["spent_max"] == pytest.approx(left)
    named = {(ask.query.period, int(ask.query.parameters["chosen"])) for ask in run.outcome.state.asked}
    assert named == {(part.period, size) for part, size in zip(rounds, resolved.account.sizes, strict=True)}
    assert alike(here(scenario, workers=2, devices_per_actor=700), run)
    assert Agreement.of_content(resolved.agreement.content()) == resolved.agreement


def test_a_period_of_too_few_answers_is_withheld_and_the_horizon_goes_on() -> None:
    """Of 600 devices a tenth may drop out: by their coins more do in two of three periods, whose shares are spent."""
    run = here(months(trust="shuffled", users=600, seed=3, dropout=0.1))
    values, learner, by_period = record(run), run.resolved.learner, run.outcome.state.by_period
    assert values["periods_withheld"] == "1, 3"
    assert [(row["answered"], row.get("withheld")) for row in values["by_period"]] == [(0, 600), (542, None), (0, 600)]
    assert values["by_period"][-1]["spent"] == values["spent_max"] == values["epsilon_local"]
    assert values["epsilon"] == 1.0
    assert values["smallest_round"] == 542
    assert isinstance(learner, AgeingLearner)
    assert not by_period[0].information.any()
    assert np.array_equal(by_period[2].information, learner.aged(by_period[1], 1).information)
    assert record(here(months(trust="shuffled", users=600, seed=3)))["periods_withheld"] is None
    with pytest.raises(WithheldError, match="no period had answers"):
        here(months(trust="shuffled", users=600, dropout=0.5))


@pytest.mark.parametrize("stored", [1, 2])
def test_a_run_with_a_withheld_period_goes_on_to_the_same_digest(
    stored: int, blindrec: Command, tmp_path: Path
) -> None:
    flags = [*FLAGS, "--trust", "shuffled", "--dropout", 0.1]
    whole = blindrec(*flags, "--json", "-").result
    stopped(blindrec, stored, *flags, "--out", tmp_path / "out")
    again = blindrec("resume", tmp_path / "out", "--backend", "inprocess", "--json", "-").result
    assert whole["periods_withheld"] == "1, 3"
    for name in ("releases_sha256", "by_period", "spent_max", "periods_withheld"):
        assert again[name] == whole[name]


@pytest.mark.parametrize(("users", "periods", "local"), [(600, 1, 20), (12, 2, 10)])
def test_a_plan_of_few_devices_or_a_large_epsilon_lets_shares_add_up(users: int, periods: int, local: int) -> None:
    plan = resolve(months(trust="shuffled", epsilon=20, users=users, periods=periods)).agreement
    assert {part.epsilon for part in plan.rounds} == {Fraction(local)}


def test_devices_and_shuffler_refuse_what_is_no_round_of_their_plan(tmp_path: Path) -> None:
    """Also a second question about a period, for which local epsilons would suffice: histories have one of each."""
    scenario = months(trust="shuffled", schedule="front", users=900)
    resolved, asks = resolve(scenario), here(scenario).outcome.state.asked
    agreement, (first, second, third) = resolved.agreement, [ask.query for ask in asks]
    assert present(first.epsilon) > present(second.epsilon) == present(third.epsilon)
    ratings = populate(resolved.scenario).ratings
    devices = Cohort(
        ratings, derive(0, "devices"), 0, 900, agreement.budget, keeper=worlds.keeper_on(tmp_path), agreement=agreement
    )
    openings, size = agreement.openings(OPENER), int(first.parameters["chosen"])
    settings = resolved.scenario.settings.model_copy(update={"chosen": size + 1})
    design = design_of(settings, resolved.world)
    larger = agreement.stamped(
        replace(design.query(round_number=0, public_seed=first.public_seed, epsilon=first.epsilon), period=1)
    )
    for query, words in (
        (replace(second, epsilon=first.epsilon), "agreed were 3 rounds in periods 1 to 3"),
        (replace(first, period=4), "agreed were 3 rounds in periods 1 to 3"),
        (larger, "is none of the 3 rounds that were agreed as one plan"),
    ):
        with complains(words):
            devices.answer(query, 0, 900)
    for query in (larger, replace(first, period=2)):
        with complains("is none of the 3 rounds that were agreed as one plan"):
            agreement.require_amplified(query, 900)
    with complains("is none of the 3 rounds"):
        agreement.require_amplified(first, 899)  # of which a device fewer counts than is certified
    again = replace(second, public_seed=bytes(16))
    assert devices.answer(second, 0, 900).refused == 0
    assert devices.answer(again, 0, 900).refused == 900  # also where the first period was never asked about
    assert devices.answer(third, 0, 900).refused == 0
    openings.note(second, 0, np.ones(900, np.bool_))
    with complains("opened an answer about period 2 before"):
        openings.note(again, 0, np.ones(900, np.bool_))
    openings.note(third, 0, np.ones(900, np.bool_))


PLAN = tuple(PlannedRound(period, 0, 40, Fraction(1, 12)) for period in range(1, 13))


def cohort(keeper: Keeper, agreement: Agreement) -> Cohort:
    scenario = resolve(months(periods=13, users=40)).scenario
    ratings = populate(scenario).ratings
    return Cohort(ratings, derive(0, "devices"), 0, 40, agreement.budget, keeper=keeper, agreement=agreement)


def test_a_thirteenth_question_of_a_plan_of_twelve_is_refused_by_new_processes_too(tmp_path: Path) -> None:
    """Whatever it is about: another period, another share, or other devices than were to be asked."""
    agreement = Agreement(budget=Fraction(1), users=40, rounds=PLAN)
    design = resolve(months(users=40)).design
    devices = cohort(worlds.keeper_on(tmp_path), agreement)
    queries = [
        agreement.stamped(
            replace(
                design.query(round_number=number, public_seed=bytes(16), epsilon=Fraction(1, 12)), period=number + 1
            )
        )
        for number in range(13)
    ]
    answers = [devices.answer(query, 0, 40) for query in queries[:12]]
    later = cohort(worlds.keeper_on(tmp_path), agreement)
    assert later.answer(queries[4], 0, 40) == answers[4]
    for query in (queries[12], replace(queries[3], period=0), replace(queries[3], epsilon=Fraction(1, 6))):
        with pytest.raises(AgreementError, match="agreed were 12 rounds in periods 1 to 12"):
            later.answer(query, 0, 40)
    more = Agreement(budget=Fraction(2), users=40, rounds=(*PLAN, PlannedRound(13, 0, 40, Fraction(1, 12))))
    with pytest.raises(AgreementError, match="the ledger of devices 0 to 39 was begun"):
        cohort(worlds.keeper_on(tmp_path), more).answer(more.stamped(queries[12]), 0, 40)


def test_rounds_that_ask_somebody_for_more_than_the_budget_are_no_agreement() -> None:
    agreement = Agreement(budget=Fraction(1), users=40, rounds=PLAN)
    assert Agreement.of_content(agreement.content()) == agreement
    assert agreement.digest != Agreement(budget=Fraction(1), users=40).digest
    assert "rounds" not in Agreement(budget=Fraction(1), users=40).content()
    with pytest.raises(InputError, match=r"rounds ask some device for 1\.08333 nats in all"):
        replace(agreement, rounds=(*PLAN, PlannedRound(13, 20, 21, Fraction(1, 12))))
    replace(agreement, rounds=(*PLAN[1:], PlannedRound(13, 0, 20, Fraction(1, 12))))


def test_a_run_that_forgets_earlier_periods_is_stored_and_resumed(blindrec: Command, tmp_path: Path) -> None:
    first = blindrec(*FLAGS, "--ageing", "inf", "--out", tmp_path / "out", "--json", "-").result
    again = blindrec("resume", tmp_path / "out", "--backend", "inprocess", "--json", "-").result
    assert first["ageing"] == again["ageing"] == "inf"
    assert again["releases_sha256"] == first["releases_sha256"]


def test_a_ledger_outlives_its_run_and_refuses_other_plans_and_other_devices(blindrec: Command, tmp_path: Path) -> None:
    kept = [*FLAGS, "--ledger", tmp_path / "ledger", "--json", "-"]
    first, again = blindrec(*kept).result, blindrec(*kept, "--workers", 2).result
    assert first["releases_sha256"] == again["releases_sha256"]
    assert first["spent_max"] == again["spent_max"] == 1.0
    for more, words in (
        (["--periods", 4], "was begun under agreement"),
        (["--schedule", "rotate"], "was begun under agreement"),
        (["--epsilon", 2], "was begun under agreement"),
        (["--users", 601], "is of devices with other users"),
        (["--churn", 0.1], "is of devices with other churn"),
        (["--churn", 1.1], "churn is 1.1"),
        (["--like", "0.9,0.3"], "is of devices with other like"),
    ):
        refusal = blindrec(*kept, *more)
        assert refusal.code != 0
        assert words in refusal.err
    assert (
        blindrec(*kept, "--seed", 4).result["spent_max"] == 1.0
    )  # whose devices are others, with a ledger of their own
    for owners in tmp_path.rglob("devices.json"):
        owners.write_text(owners.read_text().replace('"format": 5,', ""))
    assert "written by an earlier version of blindrec, in files that this one cannot read" in blindrec(*kept).err


@pytest.mark.parametrize("flag", [["--like-from", 4], ["--held-out", 2]])
def test_a_ledger_is_of_one_reading_of_a_file(flag: list[Any], blindrec: Command, tmp_path: Path) -> None:
    """Other likes would be answered anew, as the same question, by devices whose ledger takes it for a repeat."""
    file = write_movielens(tmp_path / "ratings.csv", planted_ratings(users=60, items=20, each=10))
    run = ["run", "--ratings", file, "--design", "set", "--backend", "inprocess", "--ledger", tmp_path / "ledger"]
    assert blindrec(*run).code == 0
    assert blindrec(*run).code == 0
    refusal = blindrec(*run, *flag)
    assert refusal.code != 0
    assert f"is of devices with other {str(flag[0]).strip('-').replace('-', '_')}" in refusal.err
