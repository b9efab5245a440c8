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
"""World fields that `plan` shares with `run`."""
TRUST = ("trust", "delta", "expected_answers", "own_questions")
"""Trust fields that `plan` shares with `run`."""
RISK_FIELDS = (
    *("columns", "duplicates", "bad_lines", "unrated", "min_ratings", "like_from", "epsilon", "delta", "relation"),
    *("people", "trust_models", "mechanisms", "seed", "likes", "sensed", "curated", "top", "co_liked"),
)
"""Settings of a comparison that risk depends on."""
OF_SUMS = ("noise", "most_likes")
"""Settings of two servers' sums that `plan` takes, besides the settings that several mechanisms share."""
_PLANNED = {
    name: (Comparison if name in _FROM_COMPARISON else Scenario).model_fields[name] for name in (*WORLD, *TRUST)
} | {name: all_settings()[name] for name in (*shared_settings(), *OF_SUMS)}


_TARGETS: tuple[tuple[str, Any, str], ...] = (
    ("items", int, "Items N of the catalogue [200]."),
    ("rated", int, "Items w that a user rated [20]."),
    ("epsilon", str, "Epsilon in nats; inf for no privacy [1; with --users the smallest that suffices]."),
    ("success", float, "Target: P(all items right) [0.95]."),
    ("accuracy", float, "Target: share of items right, instead of --success or with it."),
    ("users", int, "Number of users: shows what they achieve."),
    ("ratings", Path, "A ratings file: how good lists are on each rung for people like its own, --users of them."),
    ("worth", float, "With a file: reach this share of the quality of --of [0.95]."),
    ("of", Target, "With a file: popularity, or best (the best list without privacy) [popularity]."),
)


@with_fields({name: FieldInfo(annotation=kind, description=line) for name, kind, line in _TARGETS} | _PLANNED)
def plan(
    *,
    block_model: Annotated[
        bool, typer.Option("--block-model", help="Plan for a block model of the file's size instead.")
    ] = False,
    design: Annotated[str | None, typer.Option(help="Compare your own design too: package.module:Name.")] = None,
    setting: Setting = None,
    malicious: Annotated[float | None, typer.Option(help="Share of users that lie: what designs need then.")] = None,
    cost: Annotated[bool, typer.Option("--cost", help="Time the recommended design here and extrapolate.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Run the recommended design with the planned users.")] = False,
    details: Annotated[bool, typer.Option("--details", help="With a file: print all rows, too.")] = False,
    repeat: Annotated[int, typer.Option(help="Seeds of the check.")] = 5,
    seed: Annotated[int | None, typer.Option(help="First seed of the check [0].")] = None,
    backend_flags: BackendFlags,
    output: Output,
    **others: Any,
) -> None:
    """Compute from exact moments, without a run, how many users each design needs and which design to use.

    With --users and no --epsilon it finds the smallest epsilon instead. Designs that do not protect all of a device's
    data are shown for comparison, never recommended. For a file it gives the answer of `blindrec data`; with
    --block-model it plans for a block model of the file's size, which says nothing about lists.
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


COMPARE_HELP = """Compare the quality of recommendations under each trust model, on one split of one ratings file.

It ends in a table: whom devices trust, how good lists are then, how many people the target needs (--worth, --of), how
sure a guess about a person can be, and what protection is left if the trusted party lies; below it a recommendation,
with its rule. --details prints all rows. It tries numbers of people in steps of ten until some reach the target and
some miss it.

\b
  none      the learner has all ratings: popularity, item kNN, SVD, EASE, and a random list
  curator   a trusted curator publishes noisy counts of likes, or of pairs of items
  two-servers  each sees random shares, and both publish noisy sums; they must not collude
  shuffled  a shuffler that cannot read reports hides from the server who sent which
  two-tier  a few people's ratings are public, and the other people's devices may add answers
  local     nobody is trusted: every device answers one question with its whole epsilon
  coordinator  sees all votes, hides them from clients (p-REC): a separate panel of losses
  ladder    stands for none, curator, two-servers, shuffled and local, the rungs of trust

All rows share one split of likes and dislikes. Devices rank the items that they have not rated, and the first ten are
compared with the held-out likes. With --features a device also weighs scores by features of its own likes, and sends
nothing for that. Other numbers of people are drawn from the file with replacement: the noise is that of so many people,
and nobody in the file is protected.

\b
  blindrec compare ratings.csv --worth 0.95 --of popularity
  blindrec compare ratings.csv --features movies.csv --figure worth.png
  blindrec compare ratings.csv --trust-models none,local --mechanisms EASE,set --out worth
  blindrec compare ratings.csv --trust-models ladder --epsilon 0.5,1,2,4 --figure ladder.png
  blindrec compare ratings.csv --by activity,rarity --epsilon 1,4 --scale 1,100
  blindrec compare ratings.csv --design oue:OUE --setting odds=2 --scale 1,10

With --out every finished row is stored in the folder at once; the same command resumes there, also with more --seeds,
--epsilon, --scale or rows.
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
        typer.Option("--lists", help="Also write everybody's lists into --out; this learns every row a second time."),
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

Two histories of a person are equally likely. The attacker sees what a rung releases, knows everybody else's data, and
guesses by the likelihood ratio of the exact channel: no test is better. The histories are those of two people (whose),
or one person's with and without a liked item (like). The table shows how often the guess is right for both: on average,
and at least so often for one person in ten; then for any two histories (worst), and the bound by epsilon and delta
alone (at most). Below each rung it shows the same if the trusted party lies.

\b
  curator, two-servers  noisy sums; one of two servers knows its own noise
  shuffled              everybody's reports without senders, or with them if it lies
  local                 a device's report

Nothing is held out: a history is all that a person likes. A * marks upper bounds: the attacker is also given others'
reports, or which likes a device kept. Rows whose channel has no such test show only the bound.

\b
  blindrec risk ratings.csv
  blindrec risk ratings.csv --epsilon 1,4 --people 10000
  blindrec risk ratings.csv --trust-models shuffled,local --mechanisms set,pairs --out risk

With --out every finished row is stored in the folder at once; the same command resumes there, also with more --epsilon
or rows.
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


YEARS_HELP = """Show the price of asking every period: people that each schedule needs on each rung, at one epsilon.

Every period has new lists, and one epsilon covers all periods together. It ends in a table: whom devices trust, how
good lists are under the best schedule, how many people reach the target in every period, how sure a guess about a
person can be, and what protection is left if the trusted party lies; then the people that every schedule needs.

\b
  once      everybody answers once, on arrival
  split     everybody answers in every period, with equal shares of epsilon
  rotate    everybody answers once, in one of the periods
  front     more in the first period, then what renews what ages: of epsilon, or
            locally of people, who answer once
  stay:L    everybody answers in L periods from arrival on, then is silent

Without a file the study uses a synthetic world in which shares of likes drift. A file needs times: the study goes
through its months or years, and compares lists with the likes of the next one.

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
