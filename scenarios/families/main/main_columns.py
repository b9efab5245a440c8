"""The record of a run of the main job: every column, declared once, in the order of the printed table."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from actors.keeper import once_a_reason
from coordinator.protocol.budget import as_json
from coordinator.protocol.mechanism import POSTERIOR
from coordinator.protocol.trust_models import CURATOR, LOCAL, TRUST, TWO_SERVERS
from scenarios.experiment.common_columns import (
    ACTORS,
    ANSWERED,
    ATTACK,
    DELTA,
    EPSILON,
    GUARANTEE,
    ITEMS,
    LEFT_OUT_OF_FILE,
    LIES,
    MALICIOUS,
    MECHANISM,
    NEIGHBOURS,
    REFUSED,
    RELEASES,
    ROUNDS,
    SECONDS,
    SEED,
    TRUST_MODEL,
    USERS,
    WHERE,
    of_held_out,
)
from scenarios.families.main.run import MainResult
from scenarios.families.main.run_scores import (
    file_scores,
    known_truth,
    list_scores,
    lying_scores,
    periods_of,
    spent_of,
    unlearned,
)
from scenarios.show.columns import Average, Column, read_by, record_of

_CENTRAL = {name: "epsilon (central) [nats]" for name, model in TRUST.items() if model.central}
COLUMNS: tuple[Column[MainResult], ...] = (
    Column("design", "", "what is asked, released and estimated", value=lambda run: run.scenario.design),
    read_by(SEED, lambda run: run.scenario.seed),
    read_by(TRUST_MODEL, lambda run: run.resolved.account.trust.name),
    GUARANTEE,
    NEIGHBOURS,
    DELTA,
    Column(
        "agreement_digest",
        "agreement of all parties",
        "digest of what was promised, which devices, whoever stands between them and the server, and every query carry",
        value=lambda run: run.resolved.agreement.digest.hex(),
    ),
    MECHANISM,
    Column("channel", "channel", "name of the exact channel; says if it is claimed and not checked"),
    replace(EPSILON, label="epsilon (local) [nats]", words_under=_CENTRAL),
    Column(
        "epsilon_local",
        "epsilon (local) [nats]",
        "epsilon of a device's own reports, added up, if the shuffler reveals who sent them",
    ),
    Column(
        "amplified_for",
        "  answers of a round that this counts on",
        "answers of a round that a central epsilon counts on",
    ),
    Column("smallest_round", "  answers of the smallest round", "answers of the smallest round", Average.COUNT),
    Column("smallest_round_reason", "  why rounds are no smaller", "why no round is smaller"),
    Column("bound", "  bound of the amplification", "which bound of the amplification holds"),
    Column(
        "composition", "", "how several answers of a device are composed: exact, certified as one plan; or added up"
    ),
    Column(
        "noise_deviation",
        "  deviation of the noise of a total",
        "standard deviation of the noise of a total; of a counter, of one of all periods so far",
        Average.MEAN,
    ),
    Column(
        "pair_deviation",
        "  and of that of a pair",
        "standard deviation of the noise of a total of a pair",
        Average.MEAN,
    ),
    Column("honest_noise", "  devices whose noise is enough", "devices whose noise together is enough"),
    Column(
        "bytes_per_device", "  bytes that a device sends to both servers", "bytes that a device sends to both servers"
    ),
    Column("noise", "", "who adds the noise of sums of shares"),
    Column("proofs", "  proofs of devices' vectors", "what proves that a device's vector is possible"),
    Column("trusted", "trusted", "who is trusted with what"),
    Column("if_trust_fails", "  if that is misplaced", "what is left of the guarantee if that trust is misplaced"),
    Column(
        "person_epsilon",
        "epsilon of a person [nats]",
        "epsilon of a person, over all devices drawn from that person",
        Average.WORST,
    ),
    Column(
        "person_delta",
        "  delta of a person",
        "delta of a person, over all devices drawn from that person",
        Average.WORST,
        unless_one="copies_max",
    ),
    Column(
        "copies_max",
        "",
        "devices that were drawn from one person at most",
        Average.WORST,
        value=lambda run: run.population.copies_max,
    ),
    Column("questions", "questions a device", unless_one="questions"),
    Column(
        "own_questions",
        "questions drawn by devices themselves",
        value=lambda _: True,
        when=lambda run: run.scenario.own_questions,
    ),
    Column("epsilon_per_question", "epsilon of a question [nats]", "epsilon of one question", unless_one="questions"),
    Column("spent_max", "", "epsilon that a device has spent at most"),
    Column("spent_mean", "", "epsilon that a device has spent on average"),
    Column(
        "unit",
        "epsilon is of",
        "which data are neighbours over time: person-history, one person's ratings of all periods are replaced; "
        "person-period, those of one period",
    ),
    Column("periods", "periods", "periods of time, such as months, for all of which a device has one budget"),
    Column("period_kind", "periods are of kind", "periods of a file: month, quarter, year, or days such as 30d"),
    Column("schedule", "who answers in which period", "who answers in which period, under which part of the budget"),
    Column(
        "drift",
        "chance that an item moves in a period",
        "probability that an item moves to another cluster from one period to the next",
    ),
    Column(
        "item_arrivals", "share of items that is new in a period", "share of items that new ones replace in a period"
    ),
    Column("churn", "share of people who leave in a period", "share of people who leave in a period; as many come"),
    Column(
        "ageing",
        "relative drift by which estimates age",
        "relative drift of shares by which estimates of earlier periods lose information",
    ),
    Column("policy", "policy", value=lambda run: run.scenario.policy, unless_one="rounds"),
    Column(
        "policy_error",
        "policy went astray",
        "why the policy ended the run early; null if it did not",
        value=lambda run: run.outcome.failure,
    ),
    replace(ROUNDS, average=Average.COUNT, unless_one="rounds"),
    Column(
        "answers_per_device",
        "answers a device, at most",
        value=lambda run: run.scenario.answers_per_device,
        unless_one="answers_per_device",
    ),
    Column("dropout", value=lambda run: run.scenario.dropout),
    Column("straggler_share", value=lambda run: run.scenario.straggler_share),
    Column("straggler_delay", value=lambda run: run.scenario.straggler_delay),
    Column("deadline", value=lambda run: run.scenario.deadline),
    read_by(USERS, lambda run: run.scenario.users),
    Column("asked", "", "devices that were asked", Average.COUNT),
    ANSWERED,
    replace(REFUSED, average=Average.COUNT),
    Column(
        "refused_because",
        "  because",
        "why, once a reason: how many, what they were asked for, had spent and had left [nats]; there only if some "
        "refused",
    ),
    Column("missing", "missing", "devices that dropped out or answered too late", Average.COUNT),
    read_by(ITEMS, lambda run: run.scenario.items),
    Column("rated", "rated items (public)", value=lambda run: run.scenario.rated),
    Column(
        "from_the_file",
        "public constants taken from the file",
        "public constants that were taken from the file itself",
        value=lambda run: ", ".join(run.population.from_the_file) or None,
    ),
    *LEFT_OUT_OF_FILE,
    Column("clusters", "clusters", "clusters that items are sorted into", value=lambda run: run.scenario.clusters),
    Column("decoder", value=lambda run: run.scenario.decoder),
    Column("theta", value=lambda run: run.scenario.value("theta")),
    Column(
        "confidence",
        value=lambda run: run.scenario.confidence,
        when=lambda run: POSTERIOR in run.resolved.mechanism.decoders,
    ),
    Column(
        "unlearned",
        "items not learned",
        "items about which nothing was learned",
        Average.COUNT,
        value=unlearned,
    ),
    Column(
        "undecided",
        "items not decided, but guessed",
        "items that did not reach the confidence; accuracy counts the likeliest cluster of these, too",
        Average.COUNT,
    ),
    Column(
        "accuracy",
        "share of items right",
        "share of items in the right cluster, up to the clusters' names",
        Average.MEAN,
        most=1,
        share=True,
    ),
    Column(
        "accuracy_predicted",
        "share of items right, predicted",
        "the same share as predicted before the run",
        Average.FORMULA,
        share=True,
    ),
    Column(
        "accuracy_worst",
        "  at the end of the worst period",
        "share of items right at the end of the period in which it is smallest",
        Average.MEAN,
        most=1,
        share=True,
    ),
    Column(
        "exact",
        "all items right",
        "whether all items are right; over seeds, the share of seeds",
        Average.SHARE,
        share=True,
    ),
    MALICIOUS,
    ATTACK,
    Column("lied_about", "items lied about", "items that the liars lie about", Average.COUNT),
    LIES,
    Column(
        "labels_wrong",
        "labels wrong, clusters not swapped",
        "items with the wrong label, where clusters may not be swapped",
        Average.MEAN,
    ),
    Column(
        "labels_wrong_predicted",
        "labels wrong, not swapped, predicted",
        "the same number as predicted before the run",
        Average.FORMULA,
    ),
    Column(
        "all_right",
        "all labels right, not swapped",
        "whether all labels are right, where clusters may not be swapped",
        Average.SHARE,
    ),
    Column("decided_wrong", "decided items with a wrong label", "decided items with a wrong label", Average.MEAN),
    Column("promoted_rank", "mean rank of promoted items", "mean rank of the promoted items", Average.MEAN),
    Column(
        "promoted_rank_predicted",
        "mean rank of promoted items, predicted",
        "the same rank as predicted before the run",
        Average.FORMULA,
    ),
    Column(
        "tipping_share",
        "share of liars that tips an item",
        "share of liars at which an item gets the wrong label however many users there are",
        Average.FORMULA,
    ),
    Column(
        "tipping_limit",
        "share of liars that tips any design",
        "that share for the best mechanism there can be",
        Average.FORMULA,
    ),
    Column("ari", "adjusted Rand index", "adjusted Rand index of the learned clusters and the true ones", Average.MEAN),
    Column(
        "nmi",
        "normalised mutual information",
        "normalised mutual information of the learned clusters and the true ones",
        Average.MEAN,
        most=1,
    ),
    Column(
        "advice_liked",
        "devices like of their own top 10",
        "share of the ten items ranked first that a device likes",
        Average.MEAN,
        most=1,
        share=True,
    ),
    Column(
        "random_liked",
        "devices like of random items",
        "share of random items that a device likes",
        Average.FORMULA,
        share=True,
    ),
    Column("clusters_follow", "clusters follow", "what clusters of a file follow: popularity, taste or noise"),
    Column(
        "popularity_share",
        "variance of popularity between clusters",
        "share of the variance of items' numbers of ratings that lies between clusters",
        Average.MEAN,
        most=1,
    ),
    Column(
        "taste_share",
        "variance of taste between clusters",
        "share of the variance of items' like rates that lies between clusters",
        Average.MEAN,
        most=1,
    ),
    Column(
        "noiseless_ari",
        "agreement with clusters without noise (ARI)",
        "adjusted Rand index with the clusters at epsilon inf",
        Average.MEAN,
    ),
    Column(
        "top_50",
        "true top 50 items among the estimated",
        "share of the 50 most liked items among the 50 highest scores",
        Average.MEAN,
        most=1,
        unless_known="accuracy",
    ),
    Column(
        "rank_correlation",
        "rank correlation with popularity",
        "rank correlation of scores with numbers of likes",
        Average.MEAN,
        unless_known="accuracy",
    ),
    *of_held_out(held_out="held out: a share, or likes of each", hit_rate="hit rate at 10"),
    Column(
        "periods_withheld",
        "  periods withheld, their shares spent",
        "periods in which too few answered for their answers to be read; their shares of the budget are spent",
    ),
    Column(
        "by_period",
        "",
        "each period that was asked about: who was asked, who answered, of how many everything was withheld, the most "
        "that a device had spent by then, and the share of items right at its end",
    ),
    read_by(SECONDS, lambda run: run.costs.seconds),
    Column("devices_per_second", "devices a second", "devices that answered, by the time of the rounds", Average.MEAN),
    Column("bytes_per_answer", "", "bytes of packed releases for each answer"),
    read_by(RELEASES, lambda run: run.outcome.releases_sha256),
    Column(
        "words_server_sha256",
        "  of the shares of the server of words",
        "digest of the shares that the server of words received",
        Average.NOTHING,
    ),
    Column(
        "seeds_server_sha256",
        "  of the shares of the server of seeds",
        "digest of the shares that the server of seeds received",
        Average.NOTHING,
    ),
    *WHERE,
    *ACTORS,
)
"""Columns of a record. In a block model all items of a cluster are equally popular: clusters tell more than lists."""


def record(run: MainResult, noiseless: MainResult | None = None) -> dict[str, Any]:
    """Return a run's result: its columns, and the settings of its mechanism."""
    parts = {**_answers(run), **_guarantee(run), **_learned(run, noiseless or run)}
    return {**run.scenario.settings.model_dump(mode="json"), **record_of(COLUMNS, run, parts)}


def _guarantee(run: MainResult) -> dict[str, Any]:
    """Return the guarantee that holds after the run, the trust model, and epsilon per question."""
    asks, counts, copies = run.outcome.state.asked, run.outcome.state.counts, run.population.copies_max
    resolved, mechanism, custom = run.resolved, run.resolved.mechanism, run.resolved.custom
    guarantee, first = resolved.account.after(asks, counts), asks[0].query
    local = mechanism.private and mechanism.trust != CURATOR
    # Many bits may be one answer, under one epsilon that is not split over them
    joint = custom is not None or (local and first.questions > 1 and not run.scenario.settings.splits)
    split = resolved.account.trust.name == LOCAL and not joint
    return {
        **({"mechanism": custom[0].name, "channel": custom[1].how} if custom else {}),
        "epsilon": as_json(guarantee.epsilon),
        "guarantee": guarantee.text,
        "neighbours": guarantee.neighbours,
        "delta": guarantee.delta,
        "questions": 1 if joint else first.questions,
        "epsilon_per_question": as_json(first.epsilon_per_question) if split else None,
        "person_epsilon": as_json(None if guarantee.epsilon is None else run.population.person_epsilon()),
        **resolved.account.columns(asks, counts, copies or 1),
        **spent_of(run, asks),
    }


def _answers(run: MainResult) -> dict[str, Any]:
    """Return who was asked, who answered, and with how much."""
    statistic, outcome, asks = run.statistic, run.outcome, run.outcome.state.asked
    answers = statistic.answered * asks[0].query.questions
    shares = {}
    if run.resolved.account.trust.name == TWO_SERVERS:  # the digest of all shares that each of two servers got
        shares = dict(zip(("words_server_sha256", "seeds_server_sha256"), outcome.transcripts, strict=True))
    return {
        "rounds": len(asks),
        "asked": statistic.devices,
        "answered": statistic.answered,
        "refused": statistic.refused,
        **({"refused_because": "; ".join(once_a_reason(run.refusals))} if run.refusals else {}),
        "missing": statistic.missing,
        "devices_per_second": statistic.devices / run.costs.seconds,
        "bytes_per_answer": outcome.size / answers if answers else None,  # through the coordinator
        **shares,
    }


def _learned(run: MainResult, noiseless: MainResult) -> dict[str, Any]:
    """Return what was learned, beside the truth or beside a file's held-out likes."""
    return {
        "undecided": None if run.decided is None else int((~run.decided).sum()),
        **(file_scores(run, noiseless) if run.population.truth is None else known_truth(run)),
        **periods_of(run),
        **lying_scores(run),
        **list_scores(run),
    }
