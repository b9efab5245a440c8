"""The commands of studies: `blindrec plan`, what designs need, and `blindrec compare`, what trust models are worth."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic.fields import FieldInfo

from coordinator.protocol.budget import parse_epsilon
from coordinator.protocol.errors import InputError
from coordinator.protocol.trust_models import LOCAL
from scenarios.commands.flags import BackendFlags, Output, Setting, With, with_fields
from scenarios.config.files import names_of_columns
from scenarios.config.identity import import_helpers, read_settings
from scenarios.config.mechanism_settings import all_settings, custom_designs, shared_settings
from scenarios.config.scenario import MOST_USERS as MOST_SIMULATED
from scenarios.config.scenario import Scenario
from scenarios.config.settings import Target
from scenarios.experiments import MAIN_JOB
from scenarios.log import console
from scenarios.show.records import STDOUT
from scenarios.show.tables import printed
from scenarios.store.run_folder import require_counts
from scenarios.studies.compare.comparison_settings import Comparison
from scenarios.studies.years.years_settings import Years

_FROM_COMPARISON = ("held_out", "split_by", "features", "feature_columns")
_OF_FILE = ("columns", "like_from", "duplicates", "bad_lines", "unrated", *_FROM_COMPARISON)
WORLD = ("like", "class_shares", "cluster_shares", *_OF_FILE)
"""Fields that a plan takes as a run does."""
TRUST = ("trust", "delta", "expected_answers", "own_questions")
"""Fields of whom devices trust that a plan takes as a run does."""
RISK_FIELDS = (
    *("columns", "duplicates", "bad_lines", "unrated", "min_ratings", "like_from", "epsilon", "delta", "relation"),
    *("people", "trust_models", "mechanisms", "seed", "likes", "sensed", "curated", "top", "co_liked"),
)
"""Settings of a comparison that risk depends on."""
OF_SUMS = ("noise", "most_likes")
"""Settings of two servers' sums that a plan takes, beside those that several mechanisms share."""
_PLANNED = {
    name: (Comparison if name in _FROM_COMPARISON else Scenario).model_fields[name] for name in (*WORLD, *TRUST)
} | {name: all_settings()[name] for name in (*shared_settings(), *OF_SUMS)}


_TARGETS: tuple[tuple[str, Any, str], ...] = (
    ("items", int, "Items N of the catalogue [200]."),
    ("rated", int, "Items w that a user rated [20]."),
    ("epsilon", str, "Privacy in nats; inf for none [1, or sought: --users]."),
    ("success", float, "P(all items right) to reach [0.95]."),
    ("accuracy", float, "Share of items right to reach, instead or as well."),
    ("users", int, "Users there are: shows what they achieve."),
    ("ratings", Path, "What lists are worth on each rung to people like a file's; --users: as many."),
    ("worth", float, "Of a file: lists are to be worth this share of those of --of [0.95]."),
    ("of", Target, "Of a file: popularity, or best (the best list without privacy) [popularity]."),
)


@with_fields({name: FieldInfo(annotation=kind, description=line) for name, kind, line in _TARGETS} | _PLANNED)
def plan(
    *,
    block_model: Annotated[
        bool, typer.Option("--block-model", help="Plan for a block model of the file's shape instead.")
    ] = False,
    design: Annotated[str | None, typer.Option(help="Your own design, to compare: package.module:Name.")] = None,
    setting: Setting = None,
    malicious: Annotated[float | None, typer.Option(help="Share of users that lies: what designs need then.")] = None,
    cost: Annotated[bool, typer.Option("--cost", help="Time the recommended design here, and scale.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Run the recommended design at the planned users.")] = False,
    details: Annotated[bool, typer.Option("--details", help="Of a file: print all rows, too.")] = False,
    repeat: Annotated[int, typer.Option(help="Seeds of the check.")] = 5,
    seed: Annotated[int | None, typer.Option(help="First seed of the check [0].")] = None,
    backend_flags: BackendFlags,
    output: Output,
    **others: Any,
) -> None:
    """Compute how many users each design needs, and which to use, from exact moments and before anything is run.

    With --users and no --epsilon it looks for the smallest epsilon instead. Designs that do not protect all that a
    device holds are shown for comparison, never recommended. For a file it says what `blindrec data` says of lists;
    with --block-model it plans for a block model of its shape, which says nothing of them.
    """
    from scenarios.studies.plan_of_file import planned
    from scenarios.studies.planner.plan import DesignPlan, check_plan, measure_cost, show_check, show_cost, show_plan
    from scenarios.studies.planner.request import PlanRequest
    from scenarios.studies.planner.withstanding import check_share, show_withstanding, withstanding

    require_counts(repeat, None)
    if seed is not None and not 0 <= seed < 1 << 63:
        raise InputError(f"seed is {seed}; it must be at least 0 and below 2^63")
    if malicious is not None:
        check_share(malicious)
        if others["trust"] not in (None, LOCAL):
            raise InputError(f"malicious is {malicious:g}, which plans know of nobody's trust alone; leave one out")
    world = {name: others.pop(name) for name in (*WORLD, *TRUST, *(name for name, *_ in _TARGETS))}
    request = PlanRequest(
        settings=others,
        custom=_custom_design(design, setting or ()),
        block_model=block_model,
        **{**world, "columns": names_of_columns(world["columns"]), "bad_lines": world["bad_lines"] or "refuse"},
    )
    opening = partial(backend_flags.session, lambda: 0.0, sharing=True)
    made, result = planned(request, opening, {"malicious": malicious, "cost": cost, "check": check})
    screen = printed()
    screen.quiet = output.json == STDOUT
    if not isinstance(made, DesignPlan):
        output.deliver("plan", result, partial(made.show, printed(), details=details))
        return
    show_plan(screen, made, f"blindrec plan: {made.target.description}", result["not_for"])
    if malicious is not None:
        result["withstanding"] = withstanding(made, malicious, request.custom)
        show_withstanding(screen, result["withstanding"])
    if made.recommended is not None and made.best is not None and (cost or check):
        spent, needed = parse_epsilon(made.best["epsilon"]), made.best["users"]
        if cost:
            result["cost"] = measure_cost(made.recommended.at(spent), needed)
            show_cost(screen, result["cost"])
        if check:
            if needed > MOST_SIMULATED:
                raise InputError(f"users is {needed} for the check; at most {MOST_SIMULATED} can be simulated")
            checked = made.recommended.at(spent, users=needed, seed=seed or 0).scenario
            with backend_flags.session(lambda: repeat * MAIN_JOB.work(checked)) as session:
                result["check"] = check_plan(checked, session, repeat=repeat, console=console())
            show_check(screen, result["check"])
    output.deliver("plan", result, lambda: None)  # whose tables stand there already


def _custom_design(design: str | None, setting: Sequence[str]) -> dict[str, Any] | None:
    """Return a custom design with its settings, as a scenario takes them."""
    if design is None and not setting:
        return None
    if design is None or ":" not in design:
        remedy = "leave it out, or name your own, package.module:Name"
        raise InputError(f"design is {design!r}; a plan compares all of blindrec's already; {remedy}")
    return {"design": design, **read_settings(setting)}


COMPARE_HELP = """Compare what recommendations are worth under each trust model, on one split of one file of ratings.

It ends in a table: who is trusted, what lists are worth then, how many people it takes for the target (--worth, --of),
how surely a guess about a person is right, and what is left if who is trusted lies; then what to do, by a rule that it
prints. All rows stand behind --details. Numbers of people are measured in steps of ten until the target is bracketed.

\b
  none      whoever learns has all ratings: popularity, item kNN, SVD, EASE, and a random list
  curator   a trusted curator publishes noisy counts of likes, or of pairs of items
  two-servers  each sees random shares, and both publish noisy sums; they must not collude
  shuffled  a shuffler hides who sent which report from the server, and cannot read them
  two-tier  a few people's ratings are public, and the others may add what devices answer
  local     nobody is trusted: every device answers one question under its whole epsilon
  coordinator  sees all votes, hides them from clients (p-REC): a panel of losses beside the rows
  ladder    stands for none, curator, two-servers, shuffled and local, the rungs of trust

Likes and dislikes are held out once, for all rows; devices rank what they have not rated, and the first ten are held
against the likes held out. With --features a device weighs scores by features of what it likes itself: nothing is
sent for that. Other numbers of people than the file's are drawn from it with replacement; the noise is that of so many
people, and nobody in the file is protected.

\b
  blindrec compare ratings.csv --worth 0.95 --of popularity
  blindrec compare ratings.csv --features movies.csv --figure worth.png
  blindrec compare ratings.csv --trust-models none,local --mechanisms EASE,set --out worth
  blindrec compare ratings.csv --trust-models ladder --epsilon 0.5,1,2,4 --figure ladder.png
  blindrec compare ratings.csv --by activity,rarity --epsilon 1,4 --scale 1,100
  blindrec compare ratings.csv --design oue:OUE --setting odds=2 --scale 1,10

With --out every finished row is kept in the folder at once, and the same command goes on there; with more --seeds,
--epsilon, --scale or rows, too.
"""
_COMPARED = {name: field for name, field in Comparison.model_fields.items() if name != "ratings"}


@with_fields(_COMPARED)
def compare(
    file: Annotated[Path, typer.Argument(help="MovieLens, Jester, or any CSV or Parquet file of ratings.")],
    *,
    backend_flags: BackendFlags,
    out: Annotated[Path | None, typer.Option(help="Folder to keep rows in: new, or of the same comparison.")] = None,
    lists: Annotated[
        bool,
        typer.Option("--lists", help="Write everybody's lists into --out, too; rows are learned once more for them."),
    ] = False,
    details: Annotated[bool, typer.Option("--details", help="Print all rows, too.")] = False,
    output: Output,
    setting: Setting = None,
    helpers: With = None,
    **values: Any,
) -> None:
    """Compare all trust models on a file; see `COMPARE_HELP`."""
    from scenarios.studies.compare.comparison import comparison
    from scenarios.studies.compare.lists import write_lists

    design = [path.strip() for path in (values.pop("design") or "").split(",") if path]
    custom = custom_designs(design, read_settings(setting or ()), import_helpers(helpers or ()))
    study = comparison({"ratings": file, "design": custom, **values})
    if lists and out is None:
        raise InputError("lists is True, but there is no folder to write them into; give --out")
    done = _deliver(study, backend_flags, out, output, details=details)
    if lists and out is not None:
        write_lists(out, study.settings, done.units)


compare.__doc__ = COMPARE_HELP


def _deliver(
    study: Any, backend_flags: BackendFlags, out: Path | None, output: Output, *, details: bool = False
) -> Any:
    """Measure a study, and deliver its result, with details that the answer leaves out."""
    from scenarios.studies.study import run_study

    done = run_study(study, backend_flags.session(study.work, sharing=True), out, console())

    def show() -> None:
        study.show(printed(), done.result, f"blindrec {study.family}")
        if details and done.result["answer"] is not None:
            study.details(printed(), done.result, f"blindrec {study.family}")

    output.deliver(study.family, done.result, show)
    return done


RISK_HELP = """Show how often the best attack guesses right on each rung, beside the bound that epsilon gives.

Two histories of a person are equally likely, and whoever sees what a rung lets out, and knows all that others hold,
guesses which one is true, by the likelihood ratio of the exact channel: no test is better. The histories are those of
two people (whose), or of one person with and without an item that it likes (like). It ends in a table of both, on
average and of one person in ten, of any two histories (worst), and by epsilon and delta alone (at most); below a rung,
if who is trusted lies.

\b
  curator, two-servers  noisy sums; one of two servers knows its own noise
  shuffled              everybody's reports without senders, or with them if it lies
  local                 a device's report

Nothing is held out: a history is all that a person likes. Numbers from above have a *, as reports of others are taken
as revealed, or the attacker is told which likes were kept; rows whose channel has no such test say the bound alone.

\b
  blindrec risk ratings.csv
  blindrec risk ratings.csv --epsilon 1,4 --people 10000
  blindrec risk ratings.csv --trust-models shuffled,local --mechanisms set,pairs --out risk

With --out every finished row is kept in the folder at once, and the same command goes on there, with more --epsilon or
rows, too.
"""


@with_fields({name: Comparison.model_fields[name] for name in RISK_FIELDS})
def risk(
    file: Annotated[Path, typer.Argument(help="MovieLens, Jester, or any CSV or Parquet file of ratings.")],
    *,
    backend_flags: BackendFlags,
    out: Annotated[Path | None, typer.Option(help="Folder to keep rows in: new, or of the same study.")] = None,
    output: Output,
    **values: Any,
) -> None:
    """Show how often guesses are right; see `RISK_HELP`."""
    from scenarios.studies.compare.risk.risk_study import risk as study_of

    _deliver(study_of({"ratings": file, **values}), backend_flags, out, output)


risk.__doc__ = RISK_HELP


YEARS_HELP = """Show what it costs to keep asking: people that each schedule takes on each rung, under one epsilon.

Lists are made anew every period, and one epsilon holds for all periods together. It ends in a table: who is trusted,
what lists are worth then under the best schedule, how many people it takes for the target in every period, how surely
a guess about a person is right, and what is left if who is trusted lies; then the people that every schedule takes.

\b
  once      everybody answers once, on arrival
  split     everybody answers in every period, under equal shares
  rotate    everybody answers once, in one of the periods
  front     most in the first period, then as much as wears off
  stay:L    everybody answers in L periods from arrival on, then is silent

Without a file it is a made world, in which shares of likes drift. A file needs times: its own months or years pass, and
lists are held against the likes of the next one.

\b
  blindrec years
  blindrec years --drift 0.3 --periods 24 --epsilon 4
  blindrec years ratings.csv --period month --out years
  blindrec years ratings.csv --period year --like-from 4 --schedule once,stay:4
"""


@with_fields({name: field for name, field in Years.model_fields.items() if name != "ratings"})
def years(
    file: Annotated[Path | None, typer.Argument(help="A file of ratings with times [a made world].")] = None,
    *,
    backend_flags: BackendFlags,
    out: Annotated[Path | None, typer.Option(help="Folder to keep units in: new, or of the same study.")] = None,
    details: Annotated[bool, typer.Option("--details", help="Print every schedule with intervals, too.")] = False,
    output: Output,
    **values: Any,
) -> None:
    """Show what it costs to keep asking; see `YEARS_HELP`."""
    from scenarios.studies.years.years_sweep import years as study_of

    _deliver(study_of({"ratings": file, **values}), backend_flags, out, output, details=details)


years.__doc__ = YEARS_HELP
