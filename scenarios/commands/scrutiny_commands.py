"""The commands of scrutiny: `blindrec check`, `audit` and `amplify` of mechanisms, `adversary` of recommenders."""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic.fields import FieldInfo
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from coordinator.protocol.budget import DELTA_IN_WORDS, parse_epsilon
from coordinator.protocol.errors import InputError
from coordinator.protocol.trust_models import LOCAL, SHUFFLED, TRUST, TWO_SERVERS
from scenarios.backends.selection import InProcess
from scenarios.commands.flags import Json, Output, with_fields
from scenarios.config.identity import read_settings
from scenarios.config.signals import BAD_INPUT
from scenarios.log import step
from scenarios.show.records import STDOUT, check_target, deliver
from scenarios.show.tables import Cell, percent, printed, remark, show_rows, show_table
from scenarios.studies.scrutiny.verdicts import FAILED, HELD, Audit, Conformance, in_words

if TYPE_CHECKING:
    from scenarios.studies.scrutiny.composing import Composition
    from scenarios.studies.scrutiny.shuffling import Amplification

NATS = "epsilon in nats of one release"
STYLES = {HELD: "green", FAILED: "bold red"}


def check(
    mechanism: Annotated[str, typer.Argument(help="A mechanism's name, or your own package.module:Name.")],
    setting: Annotated[
        list[str] | None, typer.Option(help="A setting of the mechanism, name=value; repeatable [all its settings].")
    ] = None,
    epsilon: Annotated[
        str | None, typer.Option(help="Enumerate its channel at this epsilon only [0.1, 1 and 3].")
    ] = None,
    trust: Annotated[
        str | None,
        typer.Option(
            help="What to check: local, the mechanism itself; shuffled, its amplified epsilon; two-servers, shares and "
            "the noise of sums [the trust model that it is made for]."
        ),
    ] = None,
    json: Json = None,
) -> None:
    """Check a mechanism against the rules that every mechanism must keep; exit code 2 if a check fails.

    The checks enumerate its exact channel over all ratings that a device can have in a tiny catalogue, compare its
    sampler with that channel, ask its queries on several layouts, read its ledger, and try invalid queries. With
    --trust shuffled they compare the channel's levels with an enumeration, and its bound of delta with the exact one.
    """
    from scenarios.studies.scrutiny.shuffled_checks import check as check_all

    check_target(json)
    nats = None if epsilon is None else parse_epsilon(epsilon)
    if epsilon is not None and nats is None:
        raise InputError("epsilon is inf; a channel is checked at a finite one")
    result = check_all(mechanism, settings=read_settings(setting or ()), epsilon=nats, trust=trust)
    deliver(json, result.as_json())
    if json != STDOUT:
        show_conformance(printed(), result)
    if not result.held:
        raise typer.Exit(BAD_INPUT)


def show_conformance(console: Console, result: Conformance) -> None:
    """Print what was checked: a table a choice of settings, a row a check."""
    for label, rows in groupby(result.rows, key=lambda row: row.mechanism):
        table = Table("check", "verdict", "what was found")
        table.title, table.title_justify, table.box, table.pad_edge = Text(label), "left", box.SIMPLE_HEAD, False
        table.columns[0].no_wrap = table.columns[1].no_wrap = True
        table.columns[2].overflow = "fold"
        for row in rows:
            table.add_row(row.check, Text(row.verdict, style=STYLES.get(row.verdict, "")), Text(row.told))
        console.print(table)
    failed = f"{len(result.failures)} of {len(result.rows)} checks failed"
    console.print("nothing failed" if result.held else failed, highlight=False)


_AUDIT: dict[str, tuple[type, str]] = {
    "design": (str, "A mechanism's name, or your own package.module:Name [all mechanisms]."),
    "epsilon": (str, "Epsilon of one release in nats; behind a shuffler the central epsilon [1]."),
    "releases": (
        int,
        (
            "Releases per attack; shuffled, or two servers: of all attacks [1000000; 8000000, 100000]; with --periods, "
            "people [4000]."
        ),
    ),
    "rounds": (int, "Queries that multi-round attacks see [4]."),
    "periods": (int, "Attack whole histories instead: sets and sums of people who answer in this many periods."),
    "items": (int, "Items of the catalogue [5; two servers: 6; periods: 9724]."),
    "rated": (int, "Most items that a device rated [3]; with --periods, likes of a person [20]."),
    "users": (int, "Shuffled, or two servers: devices of a round [200; two servers: 20]; periods [10000]."),
    "audit_delta": (
        float,
        "Shuffled, or two servers: delta of claim and measurement [0.001, at most 1 / users].",
    ),
    "epsilon_local": (str, "Shuffled: each device's epsilon in nats, which determines the central one."),
    "own_questions": (bool, "Shuffled: devices draw their questions, and report them."),
}


@with_fields({name: FieldInfo(annotation=kind, description=line) for name, (kind, line) in _AUDIT.items()})
def audit(
    *,
    setting: Annotated[
        list[str] | None, typer.Option(help="A setting of the mechanism, name=value; repeatable [its defaults].")
    ] = None,
    confidence: Annotated[float, typer.Option(help="Joint confidence of all lower bounds of a mechanism.")] = 0.999,
    trust: Annotated[
        str,
        typer.Option(
            help="Who receives the releases: local, the server; shuffled, a shuffler; two-servers, two servers that "
            "add up shares."
        ),
    ] = LOCAL,
    output: Output,
    **options: Any,
) -> None:
    """Attack a mechanism's real releases: claimed, exact and measured epsilon; exit code 2 if it leaks too much.

    A fair coin gives a device one of the two inputs that are easiest to tell apart, and attackers guess which one from
    its releases: of one round, of a repeated query, of several rounds, and beside devices with known inputs. With
    --trust shuffled the attackers see only the shuffler's output, and with two-servers only what the two publish; the
    claim is then the central epsilon. With --periods they combine the answers of all periods: they average them, link
    them, and search for a change.
    """
    from scenarios.studies.scrutiny.audit import audit as audit_one
    from scenarios.studies.scrutiny.audit import design_names

    design, periods = options.pop("design"), options["periods"]
    if periods is not None and output.figure is not None:
        raise InputError(f"figure is {output.figure}, which is not about --periods; leave one of them out")
    options |= {"trust": trust, "confidence": confidence, "settings": read_settings(setting or ()) or None}
    options["delta"] = options.pop("audit_delta")
    names = [design] if design or periods else design_names(trust, own_questions=bool(options["own_questions"]))
    if trust != LOCAL:  # bounds of all mechanisms hold together
        options["confidence"] = 1 - (1 - confidence) / len(names)
    audits = []
    for number, name in enumerate(names, 1):
        with step(f"{name or 'histories'}, {number} of {len(names)}"):
            audits.append(audit_one(name, **options))
    passed, records = all(result.held for result in audits), [result.as_json() for result in audits]
    record = records[0] if design or periods else {"held": passed, "audits": records}
    output.deliver("audit", record, lambda: show_audits(printed(), audits, confidence))
    if not passed:
        raise typer.Exit(BAD_INPUT)


def in_nats(value: float | None) -> str:
    """Return an epsilon in words: with four decimals, or of a small or huge one the first digits."""
    if value is None:
        return "none"
    return f"{value:.4f}" if not value or 0.001 <= value < 1e9 else f"{value:.3g}"


def show_audits(console: Console, audits: Sequence[Audit], confidence: float) -> None:
    """Print a row for each mechanism; of releases of one mechanism, and of histories, a row for each attack."""
    first = audits[0]
    if first.view == "periods":
        show_histories(console, first)
    elif len(audits) == 1 and "guarantee" in first.facts:
        show_attacks(console, first)
    else:
        central = "delta" in first.facts
        beside, notes = _about_rounds(first) if central else ({}, [*_power(audits)])
        columns = ["mechanism", *beside, "claimed", "given away" if central else "exact", "measured, at least"]
        title = f"central epsilon in nats of one round at delta {first['delta']:g}, " if central else f"{NATS}, "
        title += f"bounds{'' if central else ' of each mechanism'} hold together with probability {confidence:g}"
        rows = []
        for audit in audits:
            values = [audit[name] for name in beside.values()]
            cells = [f"{value:,}" if isinstance(value, int) else value for value in values]
            cells = [in_nats(cell) if isinstance(cell, float) else cell for cell in cells]
            figures = [in_nats(value) for value in (audit.claimed, audit.exact, audit.measured)]
            strongest = max(audit.attacks, key=lambda attack: attack.measured / attack.times).name
            ends = [*([] if central else [strongest]), "NO" if audit.failures else "yes"]
            rows.append([audit.design, *cells, *figures, *ends])
        columns += ["held"] if central else ["by attack", "held"]
        show_table(console, columns, rows, title=title, words=["mechanism", "noise", "by attack", "held"])
        lines = [f"{audit.design}: {line}" for audit in audits for line in audit.failures]
        remark(console, *(lines or ["nothing contradicts the claim"] * central), *notes)


def _about_rounds(audit: Audit) -> tuple[Mapping[str, str], list[str]]:
    """Return extra columns for a table of central guarantees, by heading, and notes below it."""
    if audit.view == TWO_SERVERS:
        columns = {"answered": "answered", "noise": "noise", "deviation": "noise_deviation"}
        leak = "what one dose of noise tells of a device, by its exact law"
        counted = f", counted on {audit['honest_noise']:,} honest ones" if audit["honest_noise"] else ""
        sends = f"a device sends {audit['bytes_per_device']:,} bytes to both servers, and has no local epsilon"
        notes = [
            f"neighbours {audit['neighbours']}; {sends}; {audit['answered']:,} devices answered{counted}",
            f"trusted: {audit['trusted']}; {audit['if_trust_fails']}",
        ]
    elif audit.view == SHUFFLED:
        columns = {"devices": "amplified_for", "local": "epsilon_local"}
        leak = "what the multiset tells of a device where all others hold one input that is known"
        notes = [f"neighbours: one user's ratings are replaced; {TRUST[SHUFFLED].left}"]
    else:
        columns, leak, notes = {}, "by its exact law", []
    measured = f"what is measured is the best event among {audit.attacks[0].plays:,} rounds"
    games = "; ".join(f"{attack.name}: {attack.meaning}" for attack in audit.attacks)
    return columns, [f"given away: {leak}; {measured}", f"attacks: {games}", *notes]


def show_attacks(console: Console, audit: Audit) -> None:
    """Print one audit of releases: the three epsilons, and a row for each attack."""
    claimed, exact, measured = (in_nats(value) for value in (audit.claimed, audit.exact, audit.measured))
    title = f"{audit.design}: claimed {claimed}, exact {exact}, measured {measured}"
    title += f"; {NATS}, bounds hold together with probability {audit.confidence:g}"
    columns: list[tuple[str, Cell]] = [
        ("attack", lambda row: row["name"]),
        ("what is distinguished", lambda row: row["meaning"]),
        ("claimed", lambda row: in_nats(row["claimed"])),
        ("measured, at least", lambda row: in_nats(row["measured"])),
        ("guessed right", lambda row: percent(row["right"])),
        ("at most", lambda row: "" if row["right_at_most"] is None else percent(row["right_at_most"])),
    ]
    show_rows(console, columns, audit.as_json()["attacks"], title=title, words=["attack", "what is distinguished"])
    verdicts = audit.failures or ["nothing contradicts the claim"]
    remark(console, f"promised: {audit['guarantee']}", *verdicts, *_power([audit]))


def show_histories(console: Console, audit: Audit) -> None:
    """Print attacks on what people report over periods, a row each."""
    from coordinator.protocol.schedule import NO_EPSILON

    def share(name: str) -> Cell:
        return lambda row: "" if row[name] is None else f"{row[name]:.3f}"

    columns: list[tuple[str, Cell]] = [
        ("practice", lambda row: row["practice"] + ("" if row["trust_model"] == LOCAL else ", sums")),
        ("attack", lambda row: row["attack"]),
        ("epsilon", lambda row: "none" if row["epsilon_horizon"] is None else f"{row['epsilon_horizon']:.4g}"),
        *(("right", share("right")), ("by law", share("right_exact")), ("at most", share("right_at_most"))),
        *(("belief", share("belief")), ("advantage", share("advantage"))),
    ]
    title = f"epsilon {audit['epsilon']:g}, asked in {audit['periods']} periods; epsilon of a history, exact, in nats"
    rows = audit.as_json()["attacks"]
    show_rows(console, columns, rows, title=title, words=["practice", "attack"])
    remark(
        console,
        *(audit.failures or ["nothing contradicts an epsilon"]),
        *dict.fromkeys(f"{row['attack']}: {row['meaning']}" for row in rows),
        f"memoized: {NO_EPSILON}",
        "belief: median of the attacker's, in what is true; advantage: true alarms less false ones. "
        "Of sums delta is 1e-06.",
    )


def _power(audits: Sequence[Audit]) -> list[str]:
    """Return a line about the leaks that the audit would have found; none if nothing is claimed."""
    powers = [audit.power for audit in audits if audit.power is not None]
    return [in_words(powers)] if powers else []


def amplify(
    mechanism: Annotated[
        str, typer.Argument(help='A mechanism\'s name, your own package.module:Name, or "any" local randomizer.')
    ],
    users: Annotated[int, typer.Option(help="Honest users that answer.")] = 100_000,
    epsilon: Annotated[str | None, typer.Option(help="Central epsilon in nats: find the local one [1].")] = None,
    epsilon_local: Annotated[str | None, typer.Option(help="Or local epsilon in nats: find the central one.")] = None,
    delta: Annotated[
        float | None, typer.Option(help=f"Delta of the central guarantee, at most 1 / users [{DELTA_IN_WORDS}].")
    ] = None,
    setting: Annotated[
        list[str] | None, typer.Option(help="A setting of the mechanism, name=value; repeatable [its defaults].")
    ] = None,
    items: Annotated[int, typer.Option(help="Items of the catalogue.")] = 200,
    rated: Annotated[int | None, typer.Option(help="Items that a device rated, typically [20, or all].")] = None,
    own_questions: Annotated[
        bool, typer.Option("--own-questions", help="Devices draw their questions from private coins, and report them.")
    ] = False,
    json: Json = None,
) -> None:
    """Convert between a mechanism's local epsilon and its central epsilon behind a shuffler, by a certified bound.

    All devices answer the same question, and a shuffler passes their reports on without senders. The server sees only
    the multiset of reports, and learns less about a device than its local epsilon allows. If the shuffler reveals who
    sent what, only the local epsilon holds. Neighbours differ in one device's ratings; the number of answers is public.
    """
    from scenarios.studies.scrutiny.shuffling import amplified, local_epsilon

    if epsilon is not None and epsilon_local is not None:
        raise InputError(f"epsilon is {epsilon} and epsilon_local {epsilon_local}; give one, the other follows")
    check_target(json)
    find = partial(
        local_epsilon if epsilon_local is None else amplified,
        mechanism,
        users,
        delta=delta,
        settings=read_settings(setting or ()),
        items=items,
        rated=rated,
        own_questions=own_questions,
    )
    result = find(epsilon=epsilon_local or epsilon or "1")
    deliver(json, result.as_json())
    if json != STDOUT:
        show_amplification(printed(), result)


BOUNDS = {
    "two levels": "a channel whose chances have two levels",
    "finite channel": "its channel's matrix",
    "any randomizer": "any local randomizer, which may be far above what it gives away",
}
"""What was bounded from above, in words."""


def show_amplification(console: Console, result: "Amplification") -> None:
    """Print a central guarantee beside what is left of it if the shuffler lies."""
    settings = "".join(f", {name} {value}" for name, value in result.settings.items())
    rows = [
        ["the reports, and not who sent which", f"{result.epsilon:.4f}", f"{result.delta:g}"],
        ["who sent which, if the shuffler tells", f"{result.epsilon_local:.4f}", "0"],
    ]
    title = f"{result.design}{settings}: epsilon in nats of one release, {result.users:,} users"
    show_table(console, ["what the server sees", "epsilon", "delta"], rows, title=title, words=["what the server sees"])
    if result.epsilon_at_least is not None:
        remark(console, f"really given away where all others are known: about {result.epsilon_at_least:.4f}")
    remark(
        console,
        f"certified from above by the bound of {BOUNDS[result.bound]}; "
        "neighbours: one user's ratings are replaced, and how many answer is public",
    )
    if result.epsilon_local > 5:
        remark(console, "a local epsilon above 5 protects hardly anybody by itself: the shuffler is all there is")


def compose(
    epsilon: Annotated[
        str | None, typer.Option(help="Epsilon of one period in nats: find that of all periods [1].")
    ] = None,
    epsilon_horizon: Annotated[
        str | None, typer.Option(help="Or epsilon of all periods in nats: find that of each period.")
    ] = None,
    periods: Annotated[int, typer.Option(help="How often everybody answers, such as the months of a year.")] = 12,
    trust: Annotated[
        str, typer.Option(help="Whom devices trust: local, nobody; shuffled; two-servers; or curator.")
    ] = LOCAL,
    delta: Annotated[
        float | None, typer.Option(help=f"Delta, the same for one period and for all; 0 adds up [{DELTA_IN_WORDS}].")
    ] = None,
    design: Annotated[
        str | None,
        typer.Option(help='Behind a shuffler: a mechanism\'s name, your own package.module:Name, or "any" [set].'),
    ] = None,
    users: Annotated[int, typer.Option(help="Honest users that answer every period.")] = 10_000,
    setting: Annotated[
        list[str] | None, typer.Option(help="A setting of the design, name=value; repeat for several [its default].")
    ] = None,
    items: Annotated[int | None, typer.Option(help="Behind a shuffler: items of the catalogue [200].")] = None,
    rated: Annotated[
        int | None,
        typer.Option(
            help="Behind a shuffler: items that a device rated, typically [20, or all]. For sums: likes of a person, "
            "for discrete noise [continuous Gaussian noise]."
        ),
    ] = None,
    own_questions: Annotated[
        bool,
        typer.Option(
            "--own-questions", help="Behind a shuffler: devices draw questions from private coins, and report them."
        ),
    ] = False,
    json: Json = None,
) -> None:
    """Compose epsilon exactly over periods in which the same people answer: a year's from a month's, or back.

    Local answers compose as randomized response does, Gaussian sums of two servers or a curator by their distances, and
    shuffled reports by the privacy profile of their bound, certified from above. This holds for any later questions, as
    long as each period keeps its promise. Epsilon of all periods protects a person's history: neighbours differ in one
    person's ratings of all periods.
    """
    from scenarios.studies.scrutiny.composing import composed

    check_target(json)
    result = composed(
        epsilon,
        periods,
        trust,
        epsilon_horizon=epsilon_horizon,
        delta=delta,
        design=design,
        users=users,
        settings=read_settings(setting or ()),
        items=items,
        rated=rated,
        own_questions=own_questions,
    )
    deliver(json, result.as_json())
    if json != STDOUT:
        show_composition(Console(), result)


def show_composition(console: Console, result: "Composition") -> None:
    """Print epsilon of a period and of all periods, each with its unit, and what is left if trust fails."""
    from coordinator.protocol.composition import PERSON_PERIOD

    count, delta = result.periods, result.delta
    rows = [
        ["one period", PERSON_PERIOD, in_nats(result.epsilon), f"{delta:g}"],
        [f"all {count}, composed", result.unit, in_nats(result.epsilon_horizon), f"{delta:g}"],
        [f"all {count}, added up", result.unit, in_nats(result.epsilon_added), f"{min(count * delta, 1):g}"],
    ]
    if result.trust_model == LOCAL:
        rows[0][-1] = rows[2][-1] = "0"
    elif result.epsilon_local is not None and result.epsilon_left is not None:
        rows.append(["one, if the shuffler tells", PERSON_PERIOD, in_nats(result.epsilon_local), "0"])
        rows.append([f"all {count}, if it tells", result.unit, in_nats(result.epsilon_left), "0"])
    settings = "".join(f", {name} {value}" for name, value in result.settings.items())
    subject = f", {result.design}{settings}, {result.users:,} users" if result.design and result.users else ""
    show_table(
        console,
        ["periods", "unit", "epsilon", "delta"],
        rows,
        title=f"trust {result.trust_model}{subject}: epsilon in nats",
        words=["periods", "unit"],
    )
    surest = f"{result.right_at_most:.8g}"
    remark(
        console,
        f"of two equally likely histories, who sees all of it tells the true one at most {surest} of the time",
        f"{PERSON_PERIOD}: one person's ratings of one period are replaced",
        f"{result.unit}: one person's ratings of all periods are replaced",
        TRUST[result.trust_model].left,
    )


ADVERSARY_HELP = """Run an adversary of the p-REC paper against recommenders; print the bound beside the measurement.

\b
  theorem-6      loss: R rounds of pure chance, then voters halve; bounds every recommender
  slow-halving   loss: repeats every split until the wrong half is out, B log2(N/P)
  claim-1        privacy: P adjacent steps between two clients, which must leak ln T (p-rec-sim)
  theorem-15     privacy: 2P adjacent steps between two groups of peers, also randomly configured

The behaviour of voters and client is fixed in advance; recommendations are drawn or fixed, and the coordinator's own
code computes their likelihood.

\b
  blindrec adversary slow-halving --recommender p-rec,p-rec-lean
  blindrec adversary theorem-15 --peers 3 --diversity 2 --radius 1 --rounds 1000
"""

_NUMBERS = {
    "rounds": "Rounds T [1000; theorem-6 500].",
    "objects": "Objects m of a round [2].",
    "voters": "Voters N [256].",
    "peers": "Peers P [4; claim-1 10, theorem-15 3].",
    "diversity": "D [0; theorem-15 2].",
    "radius": "R [theorem-6 32, slow-halving 5, theorem-15 1, else 0].",
    "seed": "First seed [0].",
}


@with_fields({name: FieldInfo(annotation=int, description=line) for name, line in _NUMBERS.items()})
def adversary(
    name: Annotated[str, typer.Argument(help="theorem-6, slow-halving, claim-1 or theorem-15.")],
    recommender: Annotated[str | None, typer.Option(help="Names, by ',' [the adversary's own targets].")] = None,
    *,
    repeat: Annotated[int, typer.Option(help="Runs, if the adversary is random.")] = 60,
    output: Output,
    **numbers: int | None,
) -> None:
    """Run an adversary against recommenders; see `ADVERSARY_HELP`."""
    from scenarios.families.online.adversaries import rows_against, show_rows

    names = None if recommender is None else tuple(part.strip() for part in recommender.split(","))
    rows = rows_against(name, names, numbers, repeat, InProcess(1))
    record = {"adversary": name, "rows": rows}
    output.deliver("adversary", record, lambda: show_rows(printed(), rows, f"blindrec adversary {name}"))


adversary.__doc__ = ADVERSARY_HELP
