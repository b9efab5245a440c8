"""Frequency oracles beside pure-ldp's and OpenDP's, on one core: users a second, and whether both release alike."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import chi2, norm

from benchmarks import pages
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


def compare(job: Job, outside: Outside) -> pd.DataFrame:
    """Time ours, the rivals and ours again, nothing at the same time; then hold reports against reports.

    Return a row for each of ours and each of its rivals. An `InputError` says that a rival's reports are not
    distributed as ours.
    """
    for name in OURS:
        _scenario(job, name, rated=job.rated, users=FEWEST_USERS)
    before = {name: users_a_second(job, name) for name in OURS}
    names = rivals_of(job)
    runs = {name: all_alike(job, name) for name in names}
    truth = runs["grr"].population.truth
    assert truth is not None  # a block model
    own_value = int(np.flatnonzero(truth == 0)[0])
    options = {"epsilon": job.epsilon, "values": job.items + 1, "own": own_value, "seed": 0}
    options |= {"seconds": job.seconds, "passes": job.passes}
    rows = int(runs["hadamard"].outcome.state.asked[0].query.parameters[ROWS])
    theirs = {
        "pure-ldp": outside("pure-ldp", "pure_ldp_oracles", options | {"oracles": list(names), "rows": rows}),
        "OpenDP": outside("OpenDP", "opendp_response", options),
    }
    ours = [{"oracle": name, "users": min(rate, users_a_second(job, name))} for name, rate in before.items()]
    rivals = [
        {"oracle": name, "rival": f"{rival} {result['version']}", "its_own": max(figures["rates"])}
        | asdict(_verdict(f"{rival}'s {name}", figures, runs[name], own_value, paired=name.startswith("hadamard")))
        for rival, result in theirs.items()
        for name, figures in result["oracles"].items()
    ]
    frame = pd.DataFrame(ours).merge(pd.DataFrame(rivals), how="left", on="oracle")
    return frame.assign(times=frame.users / frame.its_own)


def _verdict(name: str, figures: Mapping[str, Any], ours: MainResult, own_value: int, *, paired: bool) -> Equality:
    statistic: Any = ours.statistic
    counts = Counts(users=statistic.answered, counts=statistic.sums)
    theirs = Counts(users=figures["users"], counts=np.array(figures["counts"], np.int64))
    verdict = compared(counts, theirs, own_value=own_value, paired=paired)
    if not verdict.equal:
        raise InputError(
            f"{name} reports the held value {verdict.own_value:.1f} standard errors from ours, all others at "
            f"{verdict.others:.0f} with {verdict.freedom} degrees of freedom; the two do not release alike, mend "
            f"benchmarks/rivals/oracles.py"
        )
    return verdict


def table(job: Job, frame: pd.DataFrame) -> str:
    """Return the rows as a Markdown table."""
    head = (f"N = {job.items:,}, epsilon {job.epsilon:g}", "users a second", "rival", "its own", "times")
    cells = pd.DataFrame({"oracle": frame.oracle, "users": frame.users.map("{:,.0f}".format), "rival": frame.rival})
    cells["its_own"], cells["times"] = frame.its_own.map("{:,.0f}".format), frame.times.map("{:,.1f}".format)
    cells["held"] = frame.own_value.map("{:+.1f}".format)
    cells["others"] = frame.others.map("{:,.0f}".format) + frame.freedom.map(" of {:,.0f}".format)
    rows = cells.mask(cells.rival.isna(), cells[["oracle", "users"]]).fillna("").to_numpy().tolist()
    alarm = f"once in {1 / FALSE_ALARM:,.0f} times by chance"
    text = pages.table([*head, "held value, s.e. apart", "others, chi-square"], rows)
    return f"{text}\n\nBoth release alike; a comparison would say otherwise {alarm}."
