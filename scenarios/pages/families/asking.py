"""What a page tells of what needs no run: a plan, a file of ratings, and an audit of mechanisms."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from coordinator.protocol.public_half import LOCAL
from scenarios.pages.promise import Believed, Promise, each, kind_of, merged, promised, trusted
from scenarios.pages.subject import Subject
from scenarios.pages.told import Told
from scenarios.pages.values import NOTHING, Grid, Traced, grid_of, lines_of, shown, shown_interval

_DESIGNS = (
    "design",
    "decoder",
    "users",
    "epsilon",
    "accuracy",
    "exact",
    "users_here",
    "trust_model",
    "private",
    "note",
)
_NEEDED = ("epsilon", "people", "kept", "people_for_pairs", "use", "people_here")
_LEARNABLE = ("epsilon", "design", "decoder", "users", "accuracy", "users_here")
_AUDITED = ("design", "claimed", "exact", "measured", "confidence", "held", "guarantee")


def told_of_plan(subject: Subject) -> Told:
    """Return what a page tells of a plan."""
    record = subject.record
    best = record.get("recommended")
    said = Markup("No design that protects all that a device holds reaches this target.")
    result = NOTHING
    if best is not None:
        names = (best.get(name) for name in ("design", "decoder", "users", "epsilon"))
        result = Markup("{} ({}): {} users at epsilon {}").format(*map(shown, names))
        said = Markup("Recommended is {}.").format(result)
    binding = next((row for row in _rows(record, "bounds") if row.value.get("binds")), None)
    least = (
        Markup("any private learner needs {} users ({})").format(
            shown(binding.get("users")), shown(binding.get("name"))
        )
        if binding
        else NOTHING
    )
    keys = [key for key, value in record.items() if key != "recommended" and not value.rows()]
    return Told(
        headline=[Markup("The target: {}.").format(shown(record.get("target"))), said],
        trust=trusted(best.get("trust_model") if best else None),
        asked=lines_of(record, keys),
        promises=[promised(best) if best else Promise(kind="local", about="designs that may be recommended")],
        believed=each("one person, with the recommended design", [best.get("epsilon") if best else None]),
        people=shown(best.get("users")) if best else NOTHING,
        result=result,
        beside=least,
        grids=_grids(
            grid_of("Every design: what it needs", _rows(record, "designs"), _DESIGNS),
            grid_of("Lower bounds: users that any epsilon-LDP learner needs", _rows(record, "bounds")),
        ),
        warnings=[_with_liars(liars)] if (liars := record.get("withstanding")) else [],
        remarks=[shown(one)] if (one := record.get("not_for")) else [],
    )


def _with_liars(liars: Traced) -> Markup:
    """Return what a plan says of a share of users who lie; the rest of it is about honest ones."""
    said = Markup("no design is known to reach the target")
    if best := liars.get("recommended"):
        names = (best.get(name) for name in ("design", "pool_size", "users"))
        said = Markup("{} in pools of {} takes {} users").format(*map(shown, names))
    told = "What is recommended holds if everybody is honest. If a share of {} lies, {}."
    return Markup(told).format(shown(liars.get("malicious")), said)


def told_of_data(subject: Subject) -> Told:
    """Return what a page tells of a file of ratings."""
    record = subject.record
    worth, learnable = _rows(record, "worth"), _rows(record, "learnable")
    keys = [key for key, value in record.items() if not value.rows()]
    first = worth[0] if worth else None
    last = worth[-1] if worth else None
    need = (
        Markup("popularity's worth takes {}{} people at epsilon {}").format(
            shown(last.get("people")),
            shown_interval(last.get("people_low"), last.get("people_high")),
            shown(last.get("epsilon")),
        )
        if last
        else NOTHING
    )
    return Told(
        headline=[
            Markup("A file of {} ratings by {} people of {} items.").format(
                *(shown(record.get(key)) for key in ("ratings", "users", "items"))
            ),
            Markup("Where nobody is trusted, {}; these people could use: {}.").format(need, shown(last.get("use")))
            if last
            else Markup("It holds too few ratings to say what could be learned."),
        ],
        trust=Markup("nobody, if its people answered"),
        asked=lines_of(record, keys),
        promises=[Promise(kind="local", about="what the recipe's mechanisms would promise at each epsilon")],
        believed=each("one person", [row.get("epsilon") for row in (*worth, *learnable)]),
        people=shown(record.get("users")),
        result=need,
        beside=Markup("{} people are here").format(shown(first.get("people_here"))) if first else NOTHING,
        grids=_grids(
            grid_of("What recommendations take where nobody is trusted, by formulas", worth, _NEEDED),
            grid_of("What could be learned, in a block model", learnable, _LEARNABLE),
        ),
        remarks=[shown(one)] if learnable and (one := learnable[0].get("not_for")) else [],
    )


def told_of_audit(subject: Subject) -> Told:
    """Return what a page tells of an audit: what was claimed, what is exact, and what an attack measured."""
    record = subject.record
    rows = _rows(record, "audits") or [record]
    first, one = rows[0], len(rows) == 1
    failures = [
        Markup("{}: {}").format(shown(row.get("design")), shown(told)) for row in rows if (told := _failed(row))
    ]
    verdict = "Something leaks more than was claimed." if failures else "Nothing leaks more than was claimed."
    audited = Markup(", ").join(shown(row.get("design")) for row in rows)
    measured = Markup("at least {}").format(shown(first.get("measured"))) if one else NOTHING
    beside = Markup("claimed {}, exact {}").format(shown(first.get("claimed")), shown(first.get("exact")))
    numbers = Markup("An attack on real releases shows a privacy loss of {} ({}) [nats].").format(measured, beside)
    every = merged((kind_of(str(row.value.get("guarantee", LOCAL))), str(row.value["design"])) for row in rows)
    return Told(
        headline=[
            Markup("Attacks on real releases of {}.").format(audited),
            *([numbers] if one else []),
            Markup(verdict),
        ],
        trust=Markup("nobody"),
        asked=lines_of(record, [key for key, value in record.items() if key != "failures" and not value.rows()]),
        promises=[promised(first)] if one and first.get("guarantee") else every,
        believed=[
            Believed(words=whose, epsilon=found)
            for name, whose in (("claimed", "one release, as claimed"), ("exact", "one release, by its exact channel"))
            if one and (found := first.get(name)) is not None
        ],
        people=shown(attacks[0].get("plays")) if one and (attacks := _rows(first, "attacks")) else NOTHING,
        result=measured,
        beside=beside if one else NOTHING,
        grids=_grids(
            grid_of(
                "Privacy loss as claimed, as the channel has it, and as attacks show at least [nats]", rows, _AUDITED
            ),
            *(
                grid_of(f"Attacks on {row.value['design']}", attacks)
                for row in rows
                if (attacks := _rows(row, "attacks"))
            ),
        ),
        warnings=failures,
    )


def _failed(row: Traced) -> Traced | None:
    """Return what is not as it was claimed, if anything."""
    failures = row.get("failures")
    return failures if failures is not None and failures.value else None


def _rows(record: Traced, name: str) -> list[Traced]:
    return found.rows() if (found := record.get(name)) else []


def _grids(*found: Grid | None) -> Sequence[Grid]:
    return [one for one in found if one]
