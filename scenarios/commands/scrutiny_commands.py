"""The commands of scrutiny: `blindrec check`, `audit` and `amplify` of mechanisms, `adversary` of recommenders."""

import math
from collections.abc import Callable, Mapping, Sequence
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
from coordinator.protocol.trust_models import LOCAL, SHUFFLED, TWO_SERVERS, require_trust
from scenarios.backends.selection import InProcess
from scenarios.commands.flags import Json, Output, with_fields
from scenarios.config.identity import read_settings
from scenarios.config.signals import BAD_INPUT
from scenarios.log import step
from scenarios.show.records import STDOUT, check_target, deliver
from scenarios.show.tables import percent, printed, remark, show_table
from scenarios.studies.scrutiny.verdicts import (
    FAILED,
    HELD,
    Amplification,
    Audit,
    CentralAudit,
    Conformance,
    Scrutiny,
    ServersAudit,
    in_words,
)

if TYPE_CHECKING:
    from scenarios.studies.scrutiny.composing import Composition

NATS = "epsilon in nats of one release"
STYLES = {HELD: "green", FAILED: "bold red"}


def check(
    mechanism: Annotated[str, typer.Argument(help="A mechanism's name, or your own package.module:Name.")],
    setting: Annotated[
        list[str] | None, typer.Option(help="A setting of it, name=value; repeat for several [all it has].")
    ] = None,
    epsilon: Annotated[
        str | None, typer.Option(help="Enumerate its channel at this epsilon alone [0.1, 1 and 3].")
    ] = None,
    trust: Annotated[
        str | None,
        typer.Option(
            help="What is checked: local, the mechanism; shuffled, what a shuffler makes of its epsilon; two-servers, "
            "shares and the noise of sums [what it is made for]."
        ),
    ] = None,
    json: Json = None,
) -> None:
    """Check that a mechanism keeps what every mechanism must keep; exit code 2 if something failed.

    Its exact channel is enumerated over all that a device of a tiny catalogue can have rated, its sampler counted, its
    queries asked on several layouts, its ledger read, and wrong queries tried. With --trust shuffled the levels of its
    channel are held against an enumeration, and its bound of delta against what is really given away.
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


def audit(
    design: Annotated[
        str | None, typer.Option(help="A mechanism's name, or your own package.module:Name [all that are found].")
    ] = None,
    epsilon: Annotated[
        str | None, typer.Option(help="What one release may cost, in nats; behind a shuffler the central epsilon [1].")
    ] = None,
    setting: Annotated[
        list[str] | None, typer.Option(help="A setting of it, name=value; repeat for several [its default].")
    ] = None,
    releases: Annotated[
        int | None,
        typer.Option(
            help="Releases of each attack; shuffled, or two servers: of all [1000000; 8000000, 100000]; of periods, "
            "people [4000]."
        ),
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(help="Queries that the attacks over several rounds look at [4].")
    ] = None,
    periods: Annotated[
        int | None,
        typer.Option(help="Attack histories instead: sets of everybody who is asked in so many periods, and sums."),
    ] = None,
    items: Annotated[
        int | None, typer.Option(help="Items of the catalogue [5; two servers: 6; periods: 9724].")
    ] = None,
    rated: Annotated[
        int | None, typer.Option(help="Items that a device rated at most [3]; of periods, likes of a person [20].")
    ] = None,
    confidence: Annotated[float, typer.Option(help="Probability that all lower bounds of a mechanism hold.")] = 0.999,
    trust: Annotated[
        str,
        typer.Option(
            help="Who gets the releases: local, the server itself; shuffled, a shuffler before it; two-servers, two "
            "that add up shares."
        ),
    ] = LOCAL,
    users: Annotated[
        int | None,
        typer.Option(help="Shuffled, or two servers: devices of a round [200; two servers: 20]; periods [10000]."),
    ] = None,
    audit_delta: Annotated[
        float | None,
        typer.Option(help="Shuffled, or two servers: delta of claim and measurement [0.001, at most 1 / users]."),
    ] = None,
    epsilon_local: Annotated[
        str | None, typer.Option(help="Shuffled: each device's epsilon in nats; the central one follows.")
    ] = None,
    own_questions: Annotated[
        bool, typer.Option("--own-questions", help="Shuffled: devices draw their questions, and report them.")
    ] = False,
    *,
    output: Output,
) -> None:
    """Attack a mechanism's real releases: epsilon claimed, exact and measured; exit code 2 if more leaks.

    Two inputs that an attacker distinguishes best are given to devices by a fair coin; what they release, also asked
    again, beside devices whose inputs are known, and over several rounds, is held against what is claimed. With --trust
    shuffled rounds of devices go through the shuffler, and with two-servers through both that add up shares; what is
    handed on, or published, is held against the central epsilon. With --periods the answers of all periods are put
    together: averaged, linked, and searched for a change.
    """
    require_trust(trust)
    if periods is not None:
        history: dict[str, Any] = {"epsilon": epsilon, "periods": periods, "items": items, "rated": rated}
        history |= {"releases": releases, "users": users, "confidence": confidence}
        other: dict[str, Any] = {"design": design, "setting": setting, "rounds": rounds, "audit_delta": audit_delta}
        other |= {"epsilon_local": epsilon_local, "own_questions": own_questions or None, "figure": output.figure}
        _audit_histories(history, other | {"trust": None if trust == LOCAL else trust}, output)
        return
    theirs: list[tuple[str, dict[str, Any]]] = [
        (LOCAL, {"rounds": rounds}),
        (f"{SHUFFLED} or {TWO_SERVERS}", {"users": users, "audit_delta": audit_delta}),
        (SHUFFLED, {"epsilon_local": epsilon_local, "own_questions": own_questions or None}),
    ]
    common: dict[str, Any] = {"epsilon": epsilon, "releases": releases, "items": items}
    for models, values in theirs:
        for name, value in values.items():
            if value is not None and trust not in models:
                raise InputError(f"{name} is {value}, which is about --trust {models}; the trust is {trust}")
            common[name.removeprefix("audit_")] = value
    options: dict[str, Any] = {name: value for name, value in common.items() if value is not None}
    options |= {"settings": read_settings(setting or ()), "rated": rated or 3, "confidence": confidence}
    all_names, audit_one, show = _of_trust(trust)
    names = [design] if design else all_names(**({"own_questions": True} if own_questions else {}))
    if trust != LOCAL:  # bounds of all mechanisms hold together
        options["confidence"] = 1 - (1 - confidence) / len(names)
    audits = []
    for number, name in enumerate(names, 1):
        with step(f"{name}, {number} of {len(names)}"):
            audits.append(audit_one(name, **options))
    passed, records = all(result.held for result in audits), [result.as_json() for result in audits]
    record = records[0] if design else {"held": passed, "audits": records}
    output.deliver("audit", record, lambda: show(printed(), audits, confidence))
    if not passed:
        raise typer.Exit(BAD_INPUT)


def _audit_histories(options: Mapping[str, Any], other: Mapping[str, Any], output: Output) -> None:
    """Attack what people report over periods; exit code 2 if it tells more of a history than epsilon allows."""
    from scenarios.studies.scrutiny.history_audit import NO_EPSILON, columns_of, history_audit

    if named := [f"{name} is {value}" for name, value in other.items() if value is not None]:
        raise InputError(f"{named[0]}, which is not about --periods; leave one of them out")
    result = history_audit(**{name: value for name, value in options.items() if value is not None})
    deliver(output.json, result.as_json())
    if output.json != STDOUT:
        columns = ["practice", "attack", "epsilon", "right", "by law", "at most", "belief", "advantage"]
        title = f"epsilon {result.epsilon:g}, asked in {result.periods} periods; epsilon of a history, exact, in nats"
        show_table(printed(), columns, columns_of(result.attacks), title=title, words=columns[:2])
        meanings = dict.fromkeys(f"{row.attack}: {row.meaning}" for row in result.attacks)
        remark(
            printed(),
            *(result.failures or ["nothing contradicts an epsilon"]),
            *meanings,
            f"memoized: {NO_EPSILON}",
            "belief: median of the attacker's, in what is true; advantage: true alarms less false ones. "
            "Of sums delta is 1e-06.",
        )
    if result.failures:
        raise typer.Exit(BAD_INPUT)


def _of_trust(trust: str) -> tuple[Callable[..., list[str]], Callable[..., Scrutiny], Callable[..., None]]:
    """Return what names all mechanisms of a trust model, what audits one, and what shows audits."""
    if trust == SHUFFLED:
        from scenarios.studies.scrutiny.shuffled_audit import shuffled_audit, shuffled_names

        return shuffled_names, shuffled_audit, show_central_audits
    if trust == TWO_SERVERS:
        from scenarios.config.mechanism_settings import shared_names
        from scenarios.studies.scrutiny.servers_audit import servers_audit

        return shared_names, servers_audit, show_central_audits
    from scenarios.studies.scrutiny.audit import audit as local_audit
    from scenarios.studies.scrutiny.audit import every_name

    return every_name, local_audit, show_audits


def in_nats(value: float | None) -> str:
    """Return an epsilon in words."""
    if value is None:
        return "none"
    return "inf" if math.isinf(value) else f"{value:.4f}"


def show_audits(console: Console, audits: Sequence[Audit], confidence: float) -> None:
    """Print a table with a row for each mechanism; of one alone the three epsilons, and a row for each attack."""
    if len(audits) == 1:
        show_audit(console, audits[0])
        return
    rows = []
    for audit in audits:
        strongest = max(audit.attacks, key=lambda attack: attack.measured / attack.times).name
        figures = [in_nats(value) for value in (audit.claimed, audit.exact, audit.measured)]
        rows.append([audit.design, *figures, strongest, "NO" if audit.failures else "yes"])
    columns = ["mechanism", "claimed", "exact", "measured, at least", "by attack", "held"]
    title = f"{NATS}, bounds of each mechanism hold together with probability {confidence:g}"
    show_table(console, columns, rows, title=title, words=["mechanism", "by attack", "held"])
    remark(console, *(f"{audit.design}: {line}" for audit in audits for line in audit.failures), *_power(audits))


def show_audit(console: Console, audit: Audit) -> None:
    """Print one audit: the three epsilons, and a row for each attack."""
    claimed, exact, measured = (in_nats(value) for value in (audit.claimed, audit.exact, audit.measured))
    title = f"{audit.design}: claimed {claimed}, exact {exact}, measured {measured}"
    title += f"; {NATS}, bounds hold together with probability {audit.confidence:g}"
    rows = []
    for attack in audit.attacks:
        most = "" if attack.right_at_most is None else percent(attack.right_at_most)
        bounds = [in_nats(attack.claimed), in_nats(attack.measured)]
        rows.append([attack.name, attack.meaning, *bounds, percent(attack.right), most])
    columns = ["attack", "what is distinguished", "claimed", "measured, at least", "guessed right", "at most"]
    show_table(console, columns, rows, title=title, words=["attack", "what is distinguished"])
    remark(
        console,
        f"promised: {audit.guarantee}",
        *(audit.failures or ["nothing contradicts the claim"]),
        *_power([audit]),
    )


def show_central_audits(console: Console, audits: Sequence[CentralAudit], confidence: float) -> None:
    """Print a row for each mechanism under a central promise: what is claimed, given away at least, and measured."""
    first = audits[0]
    if isinstance(first, ServersAudit):
        figures_of = {"answered": "answered", "noise": "noise", "deviation": "noise_deviation"}
        leak = "what one dose of noise tells of a device, by its exact law"
        counted = f", counted on {first.honest_noise:,} honest ones" if first.honest_noise else ""
        sends = f"a device sends {first.bytes_per_device:,} bytes to both servers, and has no local epsilon"
        notes = [
            f"neighbours {first.neighbours}; {sends}; {first.answered:,} devices answered{counted}",
            f"trusted: {first.trusted}; {first.if_trust_fails}",
        ]
    else:
        figures_of = {"devices": "amplified_for", "local": "epsilon_local"}
        leak = "what the multiset tells of a device where all others hold one input that is known"
        left = "if the shuffler tells who sent what, the local epsilon is left"
        notes = [f"neighbours: one user's ratings are replaced; {left}"]
    rows = []
    for audit in audits:
        values = [getattr(audit, name) for name in figures_of.values()]
        cells = [f"{cell:,}" if isinstance(cell, int) else cell for cell in values]
        cells = [in_nats(cell) if isinstance(cell, float) else cell for cell in cells]
        figures = [in_nats(value) for value in (audit.epsilon, audit.epsilon_at_least, audit.measured)]
        rows.append([audit.design, *cells, *figures, "NO" if audit.failures else "yes"])
    columns = ["mechanism", *figures_of, "claimed", "given away", "measured, at least", "held"]
    title = f"central epsilon in nats of one round at delta {first.delta:g}, "
    title += f"bounds hold together with probability {confidence:g}"
    show_table(console, columns, rows, title=title, words=["mechanism", "noise", "held"])
    lines = [f"{audit.design}: {line}" for audit in audits for line in audit.failures]
    measured = f"what is measured is the best event among {first.attacks[0].plays:,} rounds"
    games = "; ".join(f"{attack.name}: {attack.meaning}" for attack in first.attacks)
    verdicts = lines or ["nothing contradicts the claim"]
    remark(console, *verdicts, f"given away: {leak}; {measured}", f"attacks: {games}", *notes)


def _power(audits: Sequence[Audit]) -> list[str]:
    """Return which leaks would have been found, a line; none where nothing is claimed."""
    powers = [audit.power for audit in audits if audit.power is not None]
    return [in_words(powers)] if powers else []


def amplify(
    mechanism: Annotated[
        str, typer.Argument(help='A mechanism\'s name, your own package.module:Name, or "any" local randomizer.')
    ],
    users: Annotated[int, typer.Option(help="Honest users that answer.")] = 100_000,
    epsilon: Annotated[str | None, typer.Option(help="Central epsilon in nats: find the local one [1].")] = None,
    epsilon_local: Annotated[
        str | None, typer.Option(help="Or each device's epsilon in nats: find the central one.")
    ] = None,
    delta: Annotated[
        float | None, typer.Option(help=f"Of the central guarantee, at most 1 / users [{DELTA_IN_WORDS}].")
    ] = None,
    setting: Annotated[
        list[str] | None, typer.Option(help="A setting of it, name=value; repeat for several [its default].")
    ] = None,
    items: Annotated[int, typer.Option(help="Items of the catalogue.")] = 200,
    rated: Annotated[int | None, typer.Option(help="Items that a device rated, typically [20, or all].")] = None,
    own_questions: Annotated[
        bool, typer.Option("--own-questions", help="Devices draw their questions from private coins, and report them.")
    ] = False,
    json: Json = None,
) -> None:
    """Show what a shuffler makes of a mechanism's epsilon, certified: the local epsilon for a central one, or back.

    All devices answer the same question, and a shuffler passes their reports on without senders. Then the server, who
    sees which reports there are, learns less of a device than its own epsilon allows. If the shuffler tells who sent
    what, each device's own epsilon is left. One device's ratings are replaced; how many users answer is public.
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


def show_amplification(console: Console, result: Amplification) -> None:
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
        str | None, typer.Option(help="Epsilon in nats of a period: find that of all periods [1].")
    ] = None,
    epsilon_horizon: Annotated[
        str | None, typer.Option(help="Or the epsilon in nats of all periods: find what each may have.")
    ] = None,
    periods: Annotated[int, typer.Option(help="How often everybody answers, such as the months of a year.")] = 12,
    trust: Annotated[
        str, typer.Option(help="Whom devices trust: local, nobody; shuffled; two-servers; or curator.")
    ] = LOCAL,
    delta: Annotated[
        float | None, typer.Option(help=f"Of a period, and of all alike; 0 adds up [{DELTA_IN_WORDS}].")
    ] = None,
    design: Annotated[
        str, typer.Option(help='Behind a shuffler: a mechanism\'s name, your own package.module:Name, or "any".')
    ] = "set",
    users: Annotated[int, typer.Option(help="Behind a shuffler: honest users that answer every period.")] = 10_000,
    setting: Annotated[
        list[str] | None, typer.Option(help="A setting of the design, name=value; repeat for several [its default].")
    ] = None,
    items: Annotated[int, typer.Option(help="Items of the catalogue.")] = 200,
    rated: Annotated[
        int | None,
        typer.Option(
            help="Items that a device rated, typically [20, or all]. Of sums, likes of a person, for noise of whole "
            "numbers [noise of a normal law]."
        ),
    ] = None,
    own_questions: Annotated[
        bool, typer.Option("--own-questions", help="Devices draw their questions from private coins, and report them.")
    ] = False,
    json: Json = None,
) -> None:
    """Compose epsilon over periods in which the same people answer, exactly: a year's from a month's, or back.

    Local answers compose as randomized response does, Gaussian sums of two servers or a curator by their distances, and
    shuffled reports by the privacy profile of their bound, certified from above. All of it holds whatever is asked
    later, as long as each period keeps what was promised. Epsilon of all periods is about a person's history: ratings
    of all periods may be replaced by any others.
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
        ["one period", PERSON_PERIOD, f"{result.epsilon:.4f}", f"{delta:g}"],
        [f"all {count}, composed", result.unit, f"{result.epsilon_horizon:.4f}", f"{delta:g}"],
        [f"all {count}, added up", result.unit, f"{result.epsilon_added:.4f}", f"{min(count * delta, 1):g}"],
    ]
    if result.trust_model == LOCAL:
        rows[0][-1] = rows[2][-1] = "0"
        left = "nobody is trusted, so that no trust can fail"
    elif result.epsilon_local is None or result.epsilon_left is None:
        left = "if both servers collude, or the curator lies, nothing is left"
    else:
        rows.append(["one, if the shuffler tells", PERSON_PERIOD, f"{result.epsilon_local:.4f}", "0"])
        rows.append([f"all {count}, if it tells", result.unit, f"{result.epsilon_left:.4f}", "0"])
        left = "if the shuffler tells who sent what, local epsilons add up"
    settings = "".join(f", {name} {value}" for name, value in result.settings.items())
    subject = f", {result.design}{settings}, {result.users:,} users" if result.design and result.users else ""
    show_table(
        console,
        ["periods", "unit", "epsilon", "delta"],
        rows,
        title=f"trust {result.trust_model}{subject}: epsilon in nats",
        words=["periods", "unit"],
    )
    surest = f"{result.belief_at_most:.8g}"
    remark(
        console,
        f"who sees all of it, from even odds, is at most {surest} sure of a history, but for delta",
        f"{PERSON_PERIOD}: one person's ratings of one period are replaced",
        f"{result.unit}: one person's ratings of all periods are replaced",
        left,
    )


ADVERSARY_HELP = """Set an adversary of the p-REC paper against recommenders; print the bound beside the measurement.

\b
  theorem-6      loss: R rounds in which nobody can know, then voters halve; the least of all
  slow-halving   loss: every split repeated until the wrong half is out, B log2(N/P)
  claim-1        privacy: P adjacent steps between two clients, which must leak ln T (p-rec-sim)
  theorem-15     privacy: 2P adjacent steps between two groups of peers, randomly configured, too

Voters' and client's behaviour is written down in advance; recommendations are drawn, or given, and their likelihood is
computed with the coordinator's own code.

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
    recommender: Annotated[str | None, typer.Option(help="Names, by ',' [those the adversary is about].")] = None,
    *,
    repeat: Annotated[int, typer.Option(help="Runs of an adversary that is random.")] = 60,
    output: Output,
    **numbers: int | None,
) -> None:
    """Set an adversary against recommenders; see `ADVERSARY_HELP`."""
    from scenarios.families.online.adversaries import rows_against, show_rows

    names = None if recommender is None else tuple(part.strip() for part in recommender.split(","))
    rows = rows_against(name, names, numbers, repeat, InProcess(1))
    record = {"adversary": name, "rows": rows}
    output.deliver("adversary", record, lambda: show_rows(printed(), rows, f"blindrec adversary {name}"))


adversary.__doc__ = ADVERSARY_HELP
