"""One seed of the main job, from its population to how it came out: the flat record, and the tables of its folder."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from actors.keeper import Spent, once_a_reason
from actors.ratings import BlockRatings, StoredRatings
from coordinator.protocol.arrays import Floats, Indices, Ints
from coordinator.protocol.budget import Epsilon, add, as_float, as_json
from coordinator.protocol.coins import derive
from coordinator.protocol.composition import PERSON_HISTORY
from coordinator.protocol.decoding.estimates import Estimates
from coordinator.protocol.decoding.line import kmeans_on_line
from coordinator.protocol.mechanism import ELIMINATE, POSTERIOR, TWO_ROUNDS, UNTIL_LEARNED
from coordinator.protocol.statistics.scores import ScoreStatistic
from coordinator.protocol.trust_models import CURATOR, LOCAL, SHUFFLED, TWO_SERVERS
from scenarios.backends.selection import InProcess
from scenarios.backends.session import Backend
from scenarios.config.accounts import most_spent
from scenarios.config.custom_kinds import CustomSettings
from scenarios.config.resolve import ResolvedRun
from scenarios.config.scenario import Scenario, TrustSettings
from scenarios.data.datasets import lines_skipped
from scenarios.data.metrics import best_matching, clustering_scores, score_advice, what_clusters_follow
from scenarios.data.populations import Population, liked_share, populate, resolved_run
from scenarios.data.rating_periods import MONTH
from scenarios.experiment.experiment import Record, Running
from scenarios.families.main.run import TOP, MainResult, run
from scenarios.log import write_line
from scenarios.store.journal import Journal, shared_ledger
from scenarios.theory.liars import Prediction, by_level, influence_of, predict_round, universal_limit
from scenarios.theory.predictors import predictor

if TYPE_CHECKING:
    import pandas as pd


TOP_ITEMS = 50  # Length of the list whose items are compared; all items where there are fewer


def ranks(scores: Floats) -> Ints:
    """Return every item's rank by falling score, from 1, int64, shape (N,); of equal scores the lower item comes first.

    >>> ranks(np.array([0.1, 0.7, 0.1])).tolist()
    [2, 1, 3]
    """
    rank = np.empty(scores.size, np.int64)
    rank[np.argsort(-scores, kind="stable")] = np.arange(1, scores.size + 1)
    return rank


def top_share(scores: Floats, truth: Floats, top: int = TOP_ITEMS) -> float:
    """Return which share of the ``top`` items of highest score belong to the truly most popular ones.

    >>> top_share(np.array([5.0, 4.0, 3.0, 2.0]), np.array([0.4, 0.1, 0.3, 0.1]), top=2)
    0.5
    """
    length = min(top, truth.size)
    last = np.sort(truth)[truth.size - length]
    return int(np.count_nonzero(truth[ranks(scores) <= length] >= last)) / length


def _mean_ranks(values: Floats) -> Floats:
    """Return ranks from 1 on, ties at their mean rank; scipy.stats has it, and takes a second to load."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2)[inverse])


def rank_correlation(scores: Floats, truth: Floats) -> float | None:
    """Return Spearman's rank correlation, ties at their mean rank; None where either has one value only."""
    estimated, true = (_mean_ranks(values) for values in (scores, truth))
    return float(np.corrcoef(estimated, true)[0, 1]) if np.ptp(estimated) and np.ptp(true) else None


def ranked(scenario: Scenario) -> bool:
    """Return whether scores rank items by popularity; of a custom mechanism a larger estimate is liked more."""
    return scenario.mechanism.ranks or isinstance(scenario.settings, CustomSettings)


def list_scores(run: MainResult) -> dict[str, Any]:
    """Return how well a run's list by score is the list by popularity; None where scores rank by something else."""
    if not ranked(run.scenario):
        return {"top_50": None, "rank_correlation": None}
    scores, truth = run.outcome.model.score, liked_share(run.population)
    return {"top_50": top_share(scores, truth), "rank_correlation": rank_correlation(scores, truth)}


def lying_scores(run: MainResult) -> dict[str, Any]:
    """Return what liars did to a run; nothing if nobody lied."""
    collusion, scenario, model = run.job.collusion, run.scenario, run.outcome.model
    if collusion is None:
        return {}
    state, nameless = run.outcome.state, run.resolved.mechanism.paired
    lies = sum(collusion.share * counts.answered for counts in state.counts)
    promoted = (collusion.wishes > 0) & (collusion.ordered and not nameless)
    scores: dict[str, Any] = {
        "malicious": scenario.malicious,
        "attack": scenario.attack or "untargeted",
        "lied_about": int(np.count_nonzero(collusion.wishes)),
        "lies": lies,
        "promoted_rank": float(ranks(model.score)[promoted].mean()) if promoted.any() else None,
    }
    if run.population.truth is None:
        return scores
    predicted, influence = prediction_of(run), influence_of(run.resolved, collusion.makes_up)
    if influence is not None and influence.tips_only and (collusion.wishes < 0).any():
        influence = None  # the formula is for items that all should seem liked more
    world, local = run.resolved.world, run.resolved.mechanism.trust != TWO_SERVERS  # the limit is about local privacy
    scores |= {
        "labels_wrong_predicted": predicted.wrong if predicted else None,
        "promoted_rank_predicted": predicted.rank if predicted else None,
        "tipping_share": influence.tipping(scores["lied_about"]) if influence else None,
        "tipping_limit": universal_limit(run.resolved.block, world.epsilon) if world.epsilon and local else None,
    }
    if scenario.clusters != len(scenario.like[0]):
        return scores
    should = by_level(run.resolved.block)[run.population.truth]
    wrong = model.cluster != (renamed(should, model.cluster, len(scenario.like[0])) if nameless else should)
    return scores | {
        "labels_wrong": int(wrong.sum()),
        "all_right": not bool(wrong.any()),
        "decided_wrong": None if run.decided is None else int((wrong & run.decided).sum()),
    }


def renamed(labels: Ints, like: Indices, clusters: int) -> Ints:
    """Return labels under the names that make most of them equal to others, each from 0 to ``clusters`` - 1.

    >>> renamed(np.array([0, 0, 1, 1]), np.array([1, 1, 0, 1], np.int32), 2).tolist()
    [1, 1, 0, 0]
    """
    both = np.bincount(labels * clusters + like, minlength=clusters**2).reshape(clusters, clusters)
    names: Ints = best_matching(both)[1]
    return names[labels]


def prediction_of(run: MainResult) -> Prediction | None:
    """Return what should have come out among liars; None where nobody lies or nothing is predicted."""
    collusion, resolved, answered = run.job.collusion, run.resolved, run.statistic.answered
    if collusion is None or resolved.account.groups:
        return None
    influence = influence_of(resolved, collusion.makes_up)
    if influence is None or influence.tips_only or not answered or resolved.world.clusters != influence.levels.size:
        return None
    assert run.population.truth is not None  # looked at by the caller
    share, labels = run.scenario.malicious or 0.0, run.population.truth
    return predict_round(influence, resolved, share=share, labels=labels, wishes=collusion.wishes, users=answered)


def predict(resolved: ResolvedRun, answered: int) -> float | None:
    """Return the predicted share of items right; None where nothing is predicted."""
    prediction = predictor(resolved) if answered else None
    return prediction.accuracy(answered) if prediction else None


def record(run: MainResult, noiseless: MainResult | None = None) -> dict[str, Any]:
    """Return a run's result."""
    scenario, statistic, asks, counts = run.scenario, run.statistic, run.outcome.state.asked, run.outcome.state.counts
    resolved, account, first = run.resolved, run.resolved.account, asks[0].query
    mechanism, custom, questions = resolved.mechanism, resolved.custom, first.questions
    trust, local = account.trust.name, mechanism.private and mechanism.trust != CURATOR
    guarantee, copies = account.after(asks, counts), run.population.copies_max
    # Many bits may be one answer, under one epsilon that is not split over them.
    joint = custom is not None or (local and questions > 1 and not scenario.settings.splits)
    answers = statistic.answered * questions
    per_question = None if trust != LOCAL or joint else as_json(first.epsilon_per_question)
    return {
        "design": scenario.design,
        **({"mechanism": custom[0].name, "channel": custom[1].how} if custom else {}),
        **{name: getattr(scenario, name) for name in ("decoder", "items", "rated", "users", "clusters")},
        "theta": scenario.value("theta"),
        **scenario.settings.model_dump(mode="json"),
        **({"confidence": scenario.confidence} if POSTERIOR in mechanism.decoders else {}),
        "answers_per_device": scenario.answers_per_device,
        **{name: getattr(scenario, name) for name in ("dropout", "straggler_share", "straggler_delay", "deadline")},
        "epsilon": as_json(guarantee.epsilon),
        "from_the_file": ", ".join(run.population.from_the_file) or None,
        "questions": 1 if joint else questions,
        **({"own_questions": True} if scenario.own_questions else {}),
        "epsilon_per_question": per_question,
        "policy": scenario.policy,
        "policy_error": run.outcome.failure,
        "rounds": len(asks),
        "unlearned": _unlearned(run),
        "undecided": None if run.decided is None else int((~run.decided).sum()),
        "seed": scenario.seed,
        "trust_model": trust,
        "guarantee": guarantee.text,
        "neighbours": guarantee.neighbours,
        "delta": guarantee.delta,
        "agreement_digest": resolved.agreement.digest.hex(),
        "copies_max": copies,
        "person_epsilon": as_json(run.population.person_epsilon()),
        **account.columns(asks, counts, copies or 1),
        **_periods(run),
        **_transcripts(run),
        "asked": statistic.devices,
        "answered": statistic.answered,
        "refused": statistic.refused,
        **({"refused_because": "; ".join(once_a_reason(run.refusals))} if run.refusals else {}),
        "missing": statistic.missing,
        **(_known_truth(run) if run.population.truth is not None else _real(run, noiseless or run)),
        **lying_scores(run),
        **list_scores(run),
        "seconds": run.costs.seconds,
        "devices_per_second": statistic.devices / run.costs.seconds,
        **_spent(run.spent),
        "bytes_per_answer": run.outcome.size / answers if answers else None,  # through the coordinator
        "retries": run.costs.retries,
        "restarts": run.costs.restarts,
        "releases_sha256": run.outcome.releases_sha256,
        "backend": run.backend,
        "workers": run.layout.workers,
        "actors": run.costs.actors,
        "devices_per_actor": run.layout.devices_per_actor,
    }


def _transcripts(run: MainResult) -> dict[str, str]:
    """Return the digest of all shares that each of two servers got; nothing where there are none."""
    if run.resolved.account.trust.name != TWO_SERVERS:
        return {}
    vectors, seeds = run.outcome.transcripts
    return {"words_server_sha256": vectors, "seeds_server_sha256": seeds}


def _periods(run: MainResult) -> dict[str, Any]:
    """Return what a run over periods did, and the share of items right at the end of each; nothing of other runs."""
    scenario, state = run.scenario, run.outcome.state
    if run.resolved.asking is None:
        return {}
    rows, spent = list[dict[str, Any]](), Fraction(0)
    asks = state.asked
    periods = sorted({ask.query.period for ask in asks})
    for period, estimates in zip(periods, state.by_period, strict=True):
        rounds = [index for index, ask in enumerate(asks) if ask.query.period == period]
        until = [ask for ask in asks if ask.query.period <= period]
        spent = most_spent(until, [ask.query.epsilon or Fraction(0) for ask in until], run.resolved.asking.answers)
        rows.append(
            {
                "period": period,
                "asked": sum(state.counts[index].asked for index in rounds),
                "answered": sum(state.counts[index].answered for index in rounds),
                "spent": as_json(spent if run.resolved.account.budget is not None else None),
                **_right(run, period, estimates),
            }
        )
    worst = min((row["accuracy"] for row in rows if "accuracy" in row), default=None)
    return {
        **{name: getattr(scenario, name) for name in ("periods", "schedule", "ageing")},
        **({"drift": scenario.drift} if scenario.ratings is None else {"period_kind": scenario.period or MONTH}),
        "unit": PERSON_HISTORY,
        "accuracy_worst": worst,
        "by_period": rows,
    }


def _right(run: MainResult, period: int, estimates: Estimates) -> dict[str, Any]:
    """Return how right a period's estimates are; of a file, whose items have no true clusters, as a list."""
    ratings, value = run.population.ratings, estimates.value
    if isinstance(ratings, BlockRatings):
        truth = ratings.at(period).clusters
        return {"accuracy": clustering_scores(kmeans_on_line(value, run.resolved.world.clusters), truth).accuracy}
    popularity = liked_share(replace(run.population, ratings=ratings.at(period)))
    return {"top_50": top_share(value, popularity), "rank_correlation": rank_correlation(value, popularity)}


def _spent(stretches: Sequence[Spent]) -> dict[str, Any]:
    """Return what devices have spent, by their own ledgers [nats]: the most, and the mean."""
    total: Epsilon = Fraction(0)
    for first, stop, spent in stretches:
        total = add(total, None if spent is None else (stop - first) * spent)
    devices = sum(stop - first for first, stop, _ in stretches)
    most = None if total is None else max((spent or Fraction(0) for _, _, spent in stretches), default=Fraction(0))
    mean = total / devices if total is not None and devices else total
    return {"spent_max": as_json(most), "spent_mean": as_json(mean)}


def _unlearned(run: MainResult) -> int | None:
    """Return how many items a policy that goes on until every item is learned left unlearned; None for others."""
    if run.scenario.policy != UNTIL_LEARNED or not isinstance(run.statistic, ScoreStatistic):
        return None
    return int((run.statistic.sensed < run.scenario.value("answers_per_item")).sum())


def _known_truth(run: MainResult) -> dict[str, Any]:
    population, ratings = run.population, run.population.ratings
    assert population.truth is not None and isinstance(ratings, BlockRatings)  # noqa: PT018 (narrows types)
    block = run.resolved.block
    sizes = block.cluster_sizes
    liked = ratings.would_like(derive(run.scenario.seed, "devices"), run.advice)[run.advice >= 0]
    return {
        **asdict(clustering_scores(run.outcome.model.cluster, population.truth)),
        "accuracy_predicted": _predicted(run),
        "advice_liked": float(liked.mean()) if liked.size else None,
        "random_liked": float(block.class_shares @ block.like @ (sizes / sizes.sum())),
    }


def _predicted(run: MainResult) -> float | None:
    """Return the predicted share of items right, among liars if there are any; None where nothing is predicted."""
    if run.resolved.account.groups:
        return None  # each group has an epsilon of its own
    if run.scenario.malicious:
        return prospect.accuracy if (prospect := prediction_of(run)) else None
    # Clusters follow from the first round alone where the second one asks the same devices about pairs
    answered = run.outcome.state.counts[0].answered if run.scenario.policy == TWO_ROUNDS else run.statistic.answered
    return None if _unlearned(run) else predict(run.resolved, answered)


def _real(run: MainResult, noiseless: MainResult) -> dict[str, Any]:
    split, ratings = run.population.split, run.population.ratings
    assert split is not None and isinstance(ratings, StoredRatings)  # noqa: PT018 (narrows types)
    follows = what_clusters_follow(run.outcome.model.cluster, noiseless.outcome.model.cluster, split)
    return {
        **dict.fromkeys(("accuracy", "exact", "ari", "nmi", "accuracy_predicted")),
        **lines_skipped(run.scenario, split.train),
        **split.protocol,
        "clusters_follow": follows.verdict,
        "popularity_share": follows.popularity,
        "taste_share": follows.taste,
        "noiseless_ari": follows.noiseless_ari,
        **score_advice(run.advice, ratings, split),
    }


LISTED = 100_000  # Devices whose lists are written: of a file's people the first of each, so that more are rare


def items_table(run: MainResult) -> pd.DataFrame:
    """Return the learned items: item, score, standard_error, cluster; public, as devices receive it."""
    import pandas as pd  # noqa: PLC0415 (only where a folder is written)

    model, posterior = run.outcome.model, run.outcome.posterior
    table = pd.DataFrame({"item": run.population.item_labels.astype(str), "score": model.score})
    table = table.assign(standard_error=model.error, cluster=model.cluster)
    if posterior is not None:
        table["doubt"], table["decided"] = posterior.doubt, run.decided
    if (descriptions := run.population.descriptions) and descriptions.titles is not None:
        table.insert(1, "title", descriptions.titles.astype(str))
    if ranked(run.scenario):
        table["rank"], table["popularity"] = ranks(model.score), liked_share(run.population)
    return table


def rounds_table(run: MainResult) -> pd.DataFrame:
    """Return the rounds, in order: what was asked, of which devices, and how many answered."""
    import pandas as pd  # noqa: PLC0415 (only where a folder is written)

    state = run.outcome.state
    rows = [
        {
            "round": ask.query.round,
            **({"period": ask.query.period} if ask.query.period else {}),
            "design": ask.query.design,
            "epsilon": as_json(ask.query.epsilon),
            "pool": ask.query.items if ask.query.pool is None else ask.query.pool.size,
            "first_device": ask.first,
            "asked": counts.asked,
            "answered": counts.answered,
            "refused": counts.refused,
            "query_id": ask.query.id.hex(),
        }
        for ask, counts in zip(state.asked, state.counts, strict=True)
    ]
    return pd.DataFrame(rows).astype({"epsilon": float})


def lists_table(run: MainResult) -> pd.DataFrame:
    """Return the lists of at most `LISTED` devices: device, place from 1, item, and its title if a file has it."""
    # The last columns are for other evaluators: a score that falls by one a place, as devices tell nobody by what they
    # rank. In a deployment lists stay on devices; the experimenter knows them, because every device is simulated.
    import pandas as pd  # noqa: PLC0415 (only where a folder is written)

    advice, descriptions = run.advice[:LISTED], run.population.descriptions
    device, rank = np.nonzero(advice >= 0)
    items = advice[device, rank]
    table = pd.DataFrame({"device": device, "place": rank + 1, "item": run.population.item_labels[items].astype(str)})
    if descriptions and descriptions.titles is not None:
        table["title"] = descriptions.titles[items].astype(str)
    split, ratings = run.population.split, run.population.ratings
    assert split is not None and isinstance(ratings, StoredRatings)  # noqa: PT018 (narrows types)
    people = split.train.user_labels[ratings.user[device]].astype(str)
    scores = (advice.shape[1] - rank).astype(float)
    return table.assign(user_id=people, item_id=table["item"], rank=rank + 1, score=scores)


def tables_of(run: MainResult) -> dict[str, pd.DataFrame]:
    """Return the tables of a run's folder by their names: items and rounds; each has the digest of its run."""
    import pandas as pd  # noqa: PLC0415 (only where a folder is written)

    tables = {"items": items_table(run), "rounds": rounds_table(run)}
    if (split := run.population.split) is not None:  # with the likes that were held out, as other evaluators read them
        people, items = split.train.user_labels[split.holdout.owners], split.train.item_labels[split.holdout.items]
        tables["lists"] = lists_table(run)
        tables["holdout"] = pd.DataFrame({"user_id": people.astype(str), "item_id": items.astype(str)})
    for table in tables.values():
        table.attrs["releases_sha256"] = run.outcome.releases_sha256
    return tables


def run_seed(scenario: Scenario, running: Running) -> Record:
    """Run one seed; with a ratings file and finite epsilon the same run without noise follows, to compare with."""
    first: ResolvedRun | None = running.resolved
    console, again = running.console, first is not None and first.scenario.seed == scenario.seed
    resolved = first.of(scenario.seed) if first is not None and (again or scenario.ratings is None) else None
    # a file completes a scenario for each seed anew, since it is split by the seed
    population = populate(resolved.scenario if resolved and scenario.ratings is None else scenario)
    filled = population.scenario
    if scenario.ratings is not None and scenario.rated is None:
        message = f"rated is {filled.rated}, the file's median; it is public in this run"
        write_line(console, message)
    resolved = resolved or resolved_run(population)
    if (custom := resolved.custom) and custom[1].warning:
        write_line(console, custom[1].warning)
    if line := person_warning(population):
        write_line(console, line)
    journal = None if running.out is None else Journal(running.out, filled.seed)
    ledger = None if scenario.ledger is None else shared_ledger(scenario.ledger, filled)
    if journal:
        journal.ledger = ledger or journal.ledger
        journal.check(console)
    ratings = population.ratings
    if running.session.name == "ray" and isinstance(ratings, BlockRatings):
        # This process has nothing else to do while others start: what advice is scored with is loaded or compiled
        nobody = derive(filled.seed, "devices"), np.empty((0, TOP), np.int32)
        threading.Thread(target=ratings.would_like, args=nobody, daemon=True, name="rehearsing").start()
    answers = population.ratings.users * scenario.answers_per_device
    with running.progress(answers, filled.seed) as told_answers, _kept(journal, running.session, filled.seed) as rounds:
        ran = run(
            scenario,
            running.session,
            devices_per_actor=running.devices_per_actor,
            population=population,
            resolved=resolved,
            progress=told_answers,
            rounds=rounds,
            ledger=journal.ledger if journal else ledger,
        )
    return Record(
        values=record(ran, _noiseless(ran, running.session)),
        scenario=ran.scenario.again(),
        tables=partial(tables_of, ran),
        failure=ran.outcome.failure,
    )


def person_warning(population: Population) -> str | None:
    """Return a line that warns where a person of a file stands behind several devices, which answer apart; or None."""
    epsilon, person = population.scenario.epsilon, population.person_epsilon()
    if population.copies_max < 2 or epsilon is None or person is None:
        return None
    return (
        f"warning: {population.scenario.users:,} devices are drawn from {population.people:,} people, so that one "
        f"person answers up to {population.copies_max:,} times: a person's epsilon is {as_float(person):,.6g}, not "
        f"{as_float(epsilon):g}. Leave --users out for a device each; or take the result as that of so many other "
        "people, and nobody in the file as protected"
    )


@contextmanager
def _kept(journal: Journal | None, session: Backend, seed: int) -> Iterator[Journal | None]:
    """Yield where rounds are kept: the journal, else on Ray one that lasts as long as the run."""
    # On Ray a coordinator may die and be replaced; in this process all end together.
    if journal is None and session.name == "ray":
        with tempfile.TemporaryDirectory(prefix="blindrec-") as folder:
            yield Journal(Path(folder), seed)
    else:
        yield journal


_UNSHUFFLED = {name: field.default for name, field in TrustSettings.model_fields.items() if name != "own_questions"}
"""Settings of a run in which devices answer the server themselves."""


def _noiseless(last: MainResult, session: Backend) -> MainResult | None:
    if last.population.split is None or last.scenario.epsilon is None:
        return None
    scenario = last.resolved.scenario
    changes: dict[str, Any] = dict.fromkeys(("epsilon", "malicious", "attack"))
    if scenario.trust == SHUFFLED:
        # of liars who hide nobody, but where the policy withstands them, too
        counted = {"assume_malicious": scenario.assume_malicious if scenario.policy == ELIMINATE else None}
        changes = {**_UNSHUFFLED, **counted, **changes}
    if last.resolved.asking is None:
        free = scenario.model_copy(update=changes)
        return run(free, InProcess(session.workers), population=replace(last.population, scenario=free))
    # A schedule says its rounds itself, and without a shuffler other people may be asked together
    fields = Scenario.model_fields
    changes |= {name: fields[name].default for name in ("policy", "rounds", "answers_per_device")}
    return run(scenario.model_copy(update=changes), InProcess(session.workers))
