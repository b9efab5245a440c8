"""Frequency oracles beside pure-ldp's and OpenDP's, on one core: users a second, and whether both release alike."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.stats import chi2, norm

from coordinator.protocol.arrays import Ints
from coordinator.protocol.errors import InputError
from coordinator.protocol.mechanisms.oracles import ROWS
from scenarios.backends.selection import InProcess
from scenarios.config.scenario import Scenario
from scenarios.config.settings import validated
from scenarios.families.main.run import MainResult, run

# Whether two programs release alike: a test on how many reports speak for each value, where all users hold one value.
#
# Two tests, each with half of the false-alarm probability. The first is about the value that users hold: is it spoken
# for as often? The second about all others: is the sum of their squared differences, each over its variance, what
# chance makes of it? Under equality that sum is about chi-square with as many degrees of freedom. Counts of Hadamard
# sketches come in correlated pairs (two values whose exclusive or is that of the held one), which at most doubles its
# variance.
FALSE_ALARM = 1e-6  # Probability that two programs which release alike are told apart


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What the reports of users who all hold one value speak for."""

    users: int  # Users who reported
    counts: Ints  # Reports that speak for each value


@dataclass(frozen=True, slots=True, kw_only=True)
class Equality:
    """The verdict."""

    own_value: float  # Difference of the shares of reports that speak for the held value, over its standard error
    others: float  # Sum of squares of the same for all other values
    freedom: int  # How many these are
    equal: bool  # Whether both tests pass


def compared(counts: Counts, two: Counts, *, own_value: int, paired: bool = False) -> Equality:
    """Compare two programs' counts."""
    users = np.array([counts.users, two.users])
    rate = (counts.counts + two.counts) / users.sum()
    variance = rate * (1 - rate) * (1 / users).sum()
    gap = counts.counts / counts.users - two.counts / two.users
    apart = np.divide(gap, np.sqrt(variance), out=np.zeros_like(gap), where=variance > 0)
    others = float((np.delete(apart, own_value) ** 2).sum())
    freedom = apart.size - 1
    excess = (others - freedom) / (2**0.5 if paired else 1.0)
    alarm = FALSE_ALARM / 2
    low, high = chi2.ppf(alarm / 2, freedom), chi2.isf(alarm / 2, freedom)
    equal = abs(apart[own_value]) <= norm.isf(alarm / 2) and low <= freedom + excess <= high
    return Equality(own_value=float(apart[own_value]), others=others, freedom=freedom, equal=bool(equal))


OURS: dict[str, dict[str, Any]] = {
    "maxsense": {"design": "maxsense"},
    "grr": {"design": "grr"},
    "oue": {"design": "oue"},
    "olh": {"design": "olh"},
    "hadamard": {"design": "hadamard"},
    "hadamard-bit": {"design": "hadamard", "rows": 1},
    "subset": {"design": "subset"},
    "set": {"design": "set"},
}
"""What is timed, by name: the design and its settings."""
PURE_LDP = ("grr", "oue", "olh", "hadamard", "hadamard-bit")
"""What pure-ldp has: direct encoding, unary encoding, local hashing, the Hadamard mechanism and Hadamard response."""
HIGH_PRIVACY = 1.0  # Largest epsilon at which pure-ldp's Hadamard response is one bit, as ours with one row is at any
LEAST_SECONDS, FEWEST_USERS = 2.0, 20_000  # A run of ours is made twice as large until it takes so long
Outside = Callable[[str, str, Mapping[str, Any]], dict[str, Any]]
"""Takes a rival's name, its script and the job; returns what the script printed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What is compared."""

    items: int  # A device has one of ``items + 1`` private values, "none" among them
    rated: int
    epsilon: float  # Privacy parameter of a report [nats]
    users: int = 200_000  # Devices of ours whose reports are held against a rival's
    seconds: float = 5.0  # How long a pass of a rival lasts
    passes: int = 3  # Passes of a rival; the best one counts


def _scenario(job: Job, name: str, **world: Any) -> Scenario:
    return validated(Scenario, None, {"items": job.items, "epsilon": job.epsilon, **OURS[name], **world})


def users_a_second(job: Job, name: str) -> float:
    """Return the devices a second of a run on one thread, from the first question to what the server learned."""
    users = FEWEST_USERS
    while True:
        seconds = run(_scenario(job, name, rated=job.rated, users=users), InProcess(1)).costs.seconds
        if seconds >= LEAST_SECONDS:
            return users / seconds
        users *= 2


def all_alike(job: Job, name: str) -> MainResult:
    """Run a design on devices that all like one and the same item, and no other."""
    shares = (1 / job.items, 1 - 1 / job.items)
    world = {"rated": job.items, "like": ((1.0, 0.0),), "cluster_shares": shares, "users": job.users}
    return run(_scenario(job, name, **world), InProcess(1))


def rivals_of(job: Job) -> tuple[str, ...]:
    """Return what pure-ldp has that is comparable at the job's epsilon."""
    return tuple(name for name in PURE_LDP if name != "hadamard-bit" or job.epsilon <= HIGH_PRIVACY)


def compare(job: Job, outside: Outside, announce: Callable[[str], None]) -> dict[str, Any]:
    """Time ours, the rivals and ours again, nothing at the same time; then hold reports against reports.

    An `InputError` says that a rival's reports are not distributed as ours.
    """
    for name in OURS:
        _scenario(job, name, rated=job.rated, users=FEWEST_USERS)
    announce("blindrec's oracles")
    before = {name: users_a_second(job, name) for name in OURS}
    names = rivals_of(job)
    runs = {name: all_alike(job, name) for name in names}
    truth = runs["grr"].population.truth
    assert truth is not None  # a block model
    own_value = int(np.flatnonzero(truth == 0)[0])
    options = {"epsilon": job.epsilon, "values": job.items + 1, "own": own_value, "seed": 0}
    options |= {"seconds": job.seconds, "passes": job.passes}
    rows = int(runs["hadamard"].outcome.state.asked[0].query.parameters[ROWS])
    announce("pure-ldp's oracles")
    theirs = [outside("pure-ldp", "pure_ldp_oracles", options | {"oracles": list(names), "rows": rows})]
    announce("OpenDP's randomized response")
    theirs.append(outside("OpenDP", "opendp_response", options))
    announce("blindrec's oracles again")
    rates = {name: min(rate, users_a_second(job, name)) for name, rate in before.items()}
    labels = ("pure-ldp", "OpenDP")
    rivals = [
        _row(label, script_result["version"], name, figures, runs[name], own_value=own_value, ours=rates[name])
        for label, script_result in zip(labels, theirs, strict=True)
        for name, figures in script_result["oracles"].items()
    ]
    return {**asdict(job), "rows": rows, "users_per_second": rates, "rivals": rivals}


def _row(
    rival: str,
    version: str,
    name: str,
    figures: Mapping[str, Any],
    ours_run: MainResult,
    *,
    own_value: int,
    ours: float,
) -> dict[str, Any]:
    statistic: Any = ours_run.statistic
    counts = Counts(users=statistic.answered, counts=statistic.sums)
    two = Counts(users=figures["users"], counts=np.array(figures["counts"], np.int64))
    verdict = compared(counts, two, own_value=own_value, paired=name.startswith("hadamard"))
    if not verdict.equal:
        raise InputError(
            f"{rival}'s {name} reports the held value {verdict.own_value:.1f} standard errors from ours, all others at "
            f"{verdict.others:.0f} with {verdict.freedom} degrees of freedom; the two do not release alike, mend "
            f"benchmarks/rivals/oracles.py"
        )
    rate = max(figures["rates"])
    row = {"rival": rival, "version": version, "oracle": name, "users": figures["users"], "users_per_second": rate}
    return row | {"times": ours / rate, "held": verdict.own_value, "others": verdict.others, "freedom": verdict.freedom}


def table(figures: Mapping[str, Any]) -> str:
    """Return the figures as a Markdown table, one row an oracle and rival."""
    rates: Mapping[str, float] = figures["users_per_second"]
    rivals: Sequence[Mapping[str, Any]] = figures["rivals"]
    head = f"N = {figures['items']:,}, epsilon {figures['epsilon']:g} | users a second | rival | its own | times"
    lines = [f"| {head} | held value, s.e. apart | others, chi-square |", "|---|---|---|---|---|---|---|"]
    for name, rate in rates.items():
        beside = [
            f"{row['rival']} {row['version']} | {row['users_per_second']:,.0f} | {row['times']:,.1f} | "
            f"{row['held']:+.1f} | {row['others']:,.0f} of {row['freedom']:,}"
            for row in rivals
            if row["oracle"] == name
        ]
        lines.extend(f"| {name} | {rate:,.0f} | {cell} |" for cell in beside or ["| | | |"])
    alarm = f"once in {1 / FALSE_ALARM:,.0f} times by chance"
    return "\n".join([*lines, "", f"Both release alike; a comparison would say otherwise {alarm}."])
