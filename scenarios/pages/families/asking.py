"""What a page tells of what needs no run: a plan, a file of ratings, and an audit of mechanisms."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from scenarios.pages.belief import Believed, each
from scenarios.pages.grids import Grid, grid_of, lines_of
from scenarios.pages.promise import Promise, promised, trusted
from scenarios.pages.subject import Subject
from scenarios.pages.told import Told
from scenarios.pages.traced import NOTHING, Traced, shown, shown_interval

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
_AUDITED = ("design", "mechanism", "epsilon", "claimed", "exact", "measured", "confidence", "private", "guarantee")


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
        remarks=[shown(one)] if (one := record.get("not_for")) else [],
    )


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
    several = next((rows for _, value in record.items() if (rows := value.rows()) and "claimed" in rows[0].value), [])
    rows = several or [record]
    first = rows[0]
    over = [row for row in rows if _exceeds(row)]
    said = "An attack on real releases shows at least {} nats of the claimed {} ({})."
    keys = [key for key, value in record.items() if not value.rows()]
    names = [Markup("{} {}").format(shown(_name(row)), _shown_audit(row)) for row in rows]
    return Told(
        headline=[
            *(
                Markup(said).format(shown(row.get("measured")), shown(row.get("claimed")), shown(_name(row)))
                for row in rows[:1]
            ),
            Markup("In no row does the attack or the channel exceed the claim.")
            if not over
            else Markup("The claim does not hold for {}.").format(Markup(", ").join(shown(_name(row)) for row in over)),
        ],
        trust=trusted(one) if (one := first.get("trust_model")) else Markup("nobody, unless it is named"),
        asked=lines_of(record, keys),
        promises=[promised(first) if first.get("guarantee") else Promise(kind="local", about="what was claimed")],
        believed=[
            Believed(words=whose, epsilon=one)
            for name, whose in (
                ("claimed", "as claimed"),
                ("exact", "by the exact channel"),
                ("measured", "as attacked"),
            )
            if len(rows) == 1 and (one := first.get(name)) is not None
        ],
        people=shown(first.get("releases")),
        result=names[0],
        beside=Markup("claimed {}, exact {}").format(shown(first.get("claimed")), shown(first.get("exact"))),
        grids=_grids(grid_of("Claimed, exact and measured epsilon [nats]", rows, _AUDITED)),
        warnings=[Markup("The claim is exceeded: {}.").format(_shown_audit(row)) for row in over],
    )


def _exceeds(row: Traced) -> bool:
    """Return whether a measured or exact epsilon is above the claimed one."""
    claimed = row.get("claimed")
    every = [one.number() for name in ("measured", "exact") if (one := row.get(name))]
    return claimed is not None and any(one > claimed.number() * (1 + 2**-50) for one in every)


def _name(row: Traced) -> Traced | None:
    return row.get("design") or row.get("mechanism") or row.get("name")


def _shown_audit(row: Traced) -> Markup:
    return Markup("measured at least {}").format(shown(row.get("measured")))


def _rows(record: Traced, name: str) -> list[Traced]:
    return found.rows() if (found := record.get(name)) else []


def _grids(*found: Grid | None) -> Sequence[Grid]:
    return [one for one in found if one]
