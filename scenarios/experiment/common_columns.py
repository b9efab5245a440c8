"""Columns that the records of several families share; each family says how it reads them."""

from typing import Any

from scenarios.backends.session import SessionResult
from scenarios.show.columns import Average, Column

TRUST_MODEL: Column[Any] = Column("trust_model", "trust model", "who has to be trusted so that the guarantee holds")
GUARANTEE: Column[Any] = Column(
    "guarantee", "guarantee", "what is guaranteed, in words", beside=("neighbours", "delta")
)
NEIGHBOURS: Column[Any] = Column(
    "neighbours",
    "",
    "which two sets of data epsilon compares: replace, one person's ratings by any others; or add-remove, one person "
    "more or less",
)
DELTA: Column[Any] = Column(
    "delta",
    "",
    "what the chance of an event may exceed e^epsilon times its chance with neighbouring data by; null where nothing "
    "is guaranteed",
)
MECHANISM: Column[Any] = Column("mechanism", "mechanism", "what randomizes a device's answer")
EPSILON: Column[Any] = Column(
    "epsilon", "epsilon [nats]", 'privacy parameter of what the untrusted party sees, in nats; "inf" is no noise'
)
USERS: Column[Any] = Column("users", "users", "devices that are simulated, or that are needed")
ITEMS: Column[Any] = Column("items", "items", "items that are asked about")
SEED: Column[Any] = Column("seed", "", "first seed, from which every random number follows", Average.FIRST)
ANSWERED: Column[Any] = Column(
    "answered", "answered", "answers that were used; a device may give several", Average.COUNT
)
REFUSED: Column[Any] = Column(
    "refused",
    "refused",
    "devices that refused, for lack of budget or because their ledger could not be written; online, voters that stay "
    "away",
)
ROUNDS: Column[Any] = Column("rounds", "rounds", "rounds of queries; online, recommendations to a client")
MALICIOUS: Column[Any] = Column("malicious", "share of liars", "share of devices that lie")
ATTACK: Column[Any] = Column("attack", "attack", "what the liars want")
LIES: Column[Any] = Column("lies", "answers that are lies", "share of the answers that are lies", Average.MEAN)
SECONDS: Column[Any] = Column("seconds", "seconds", "time by the clock", Average.MEAN)
RELEASES: Column[Any] = Column(
    "releases_sha256",
    "SHA-256 of all releases",
    "digest of all releases, equal on every backend",
    Average.NOTHING,
)


WHERE: tuple[Column[SessionResult[Any]], ...] = (
    Column("backend", "", "where it ran, inprocess or ray", value=lambda run: run.backend),
    Column("workers", "", "blocks of devices that are worked on at a time", value=lambda run: run.layout.workers),
    Column("retries", "", "blocks of devices asked again, as a process died", value=lambda run: run.costs.retries),
    Column("restarts", "", "times that the coordinator was started again", value=lambda run: run.costs.restarts),
)
"""Where a run ran, and what became of its processes; no answer depends on it."""


ACTORS: tuple[Column[SessionResult[Any]], ...] = (
    Column("actors", "", "processes of devices; null without Ray", value=lambda run: run.costs.actors),
    Column("devices_per_actor", "", "devices of a process at most", value=lambda run: run.layout.devices_per_actor),
)


LEFT_OUT_OF_FILE: tuple[Column[Any], ...] = (
    Column(
        "lines_skipped",
        "bad lines of the file left out",
        "lines of the file that could not be read and were left out",
    ),
    Column(
        "lines_unrated",
        "lines of the file without a rating, left out",
        "lines of the file that hold no rating, or the one of --unrated, and were left out",
    ),
)


def of_held_out(*, held_out: str, hit_rate: str) -> tuple[Column[Any], ...]:
    """Return columns of lists on held-out likes."""

    def score(name: str, label: str, meaning: str) -> Column[Any]:
        return Column(name, label, meaning, Average.MEAN, most=1)

    popular = "what most training users like"
    return (
        Column("held_out", held_out),
        Column("split_by", "  chosen by"),
        Column("people_left_out", "  people who come after the date", "people who come after the date of the split"),
        Column("items_unseen", "  items rated after the date only", "items that were rated after that date only"),
        score("hit_rate", hit_rate, "share of people of whose held-out likes one is among the ten items ranked first"),
        Column("hit_rate_error"),
        score("popularity_hit_rate", "  by popularity of training likes", f"hit rate of recommending {popular}"),
        Column("popularity_hit_rate_error", "", "standard error of popularity's hit rate"),
        score("random_hit_rate", "  by chance", "hit rate of a random order"),
        score("ndcg", "NDCG at 10", "normalised discounted cumulative gain at 10 of held-out likes"),
        Column("ndcg_error"),
        score("popularity_ndcg", "  by popularity of training likes", f"NDCG of recommending {popular}"),
        Column("popularity_ndcg_error", "", "standard error of popularity's NDCG"),
        score("random_ndcg", "  by chance", "NDCG of a random order"),
        Column("evaluated", "users with held-out likes", "people with held-out likes, over whom the mean is taken"),
    )


EVERY_RESULT = {
    "people": "persons of a file",
    "backend_reason": "why this backend was chosen",
    "provenance": "the command, when it ended, versions, and the digest of a file of ratings",
    "repeat": "number of seeds",
    "runs": "the records of the single seeds",
    "intervals": "the intervals of 95 % of means over seeds, by column",
    "level": "confidence of the intervals",
}
IN_TABLES = {
    "epsilon_added": "sum of the epsilons of all periods",
    "epsilon_horizon": "epsilon of all periods together, composed exactly, at the same delta as a period's",
    "epsilon_left": "what is left of epsilon over all periods if trust fails; null where nothing is",
    "period": "which period of time, from 1",
    "spent": "the most that a device had spent by the end of a period, by what it was asked [nats]: of its local "
    "epsilon, and of sums of the central one",
    "withheld": "that nothing of a period was learned, because too few devices answered; its share stays spent",
    "error": "held-out error after an iteration",
}
"""Of tables of a run, and of all its periods."""
