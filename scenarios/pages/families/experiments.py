"""What a page tells of a run, of online recommendation and of two tiers: one record each, or means over seeds."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from scenarios.pages.promise import Believed, Promise, promised, trusted
from scenarios.pages.subject import Subject
from scenarios.pages.told import Told
from scenarios.pages.values import NOTHING, Grid, Traced, interval_in, lines_of, percent, shown, words, written

Beside = tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Where the keys of an experiment's record go; the first result that it has is the main one."""

    results: Beside  # Keys of what was measured, each with those of predictions, bounds and rivals beside it
    asked: tuple[str, ...]
    budget: tuple[str, ...]
    epsilons: tuple[tuple[str, str], ...]  # Keys of epsilons, and whose they are
    people: str  # Key of their number


def _keys(names: str) -> tuple[str, ...]:
    return tuple(names.split())


_HIDDEN = frozenset({"trust_model", "guarantee", "intervals", "runs", "level", "convergence", "validated"})
LAYOUTS = {
    "run": Layout(
        results=(
            ("accuracy", ("accuracy_predicted",)),
            ("hit_rate", ("popularity_hit_rate", "random_hit_rate")),
            ("ndcg", ("popularity_ndcg", "random_ndcg")),
            ("exact", ()),
            ("ari", ()),
            ("nmi", ()),
            ("advice_liked", ("random_liked",)),
            ("top_50", ()),
            ("rank_correlation", ()),
            ("noiseless_ari", ()),
        ),
        asked=_keys(
            "design mechanism channel decoder policy rounds questions answers_per_device users asked answered refused "
            "missing items rated clusters policy_error repeat"
        ),
        budget=("epsilon", "epsilon_per_question", "copies_max", "person_epsilon", "spent_max", "spent_mean"),
        epsilons=(("epsilon", "one device"), ("person_epsilon", "one person, all devices behind which they stand")),
        people="answered",
    ),
    "online": Layout(
        results=(
            ("loss", ("loss_bound", "loss_random")),
            ("epsilon_proved", ("epsilon_exact", "epsilon_needed")),
            ("privacy_loss_of_run", ("privacy_loss_of_peers",)),
            ("voter_loss", ("voter_epsilon",)),
            ("peers_alive", ("peers",)),
        ),
        asked=_keys(
            "recommender clients rounds skipped objects voters refused peers peers_measured diversity radius repeat"
        ),
        budget=("epsilon_proved", "epsilon_exact", "voter_epsilon", "voter_loss", "budget"),
        epsilons=(
            ("epsilon_exact", "one voter, one client: exact worst case"),
            ("epsilon_proved", "one voter, one client: as proved"),
            ("voter_epsilon", "one voter, all clients together"),
        ),
        people="voters",
    ),
    "two-tier": Layout(
        results=(
            ("rmse", ("rmse_public_only", "rmse_baseline")),
            ("hit_rate", ("popularity_hit_rate",)),
            ("ndcg", ("popularity_ndcg",)),
        ),
        asked=_keys(
            "mechanism users items ratings public private answered unseen_items test_ratings evaluated rank "
            "regularisation weight iterations repeat"
        ),
        budget=("epsilon",),
        epsilons=(("epsilon", "one private device"),),
        people="answered",
    ),
}


def told_of_experiment(subject: Subject) -> Told:
    """Return what a page tells of an experiment's record."""
    record, family = subject.record, subject.family
    layout = LAYOUTS[family]
    promise = promised(record)
    used = {*layout.asked, *layout.budget, *_HIDDEN}
    used |= {name for key, others in layout.results for name in (key, *others, f"{key}_error")}
    rest = [key for key, value in record.items() if key not in used and not isinstance(value.value, (list, dict))]
    main = next(((key, others) for key, others in layout.results if record.get(key)), None)
    epsilons = [
        Believed(words=whose, epsilon=one) for name, whose in layout.epsilons if (one := _epsilon(record, name))
    ]
    return Told(
        headline=_headline(record, family, main),
        trust=trusted(record.get("trust_model")),
        asked=lines_of(record, layout.asked, family),
        budget=lines_of(record, layout.budget, family),
        rest=lines_of(record, rest, family),
        promises=[promise],
        believed=[] if promise.kind in ("deniability", "silent") else epsilons,
        whole=promise.kind != "part",
        people=shown(record.get(layout.people)),
        result=NOTHING if main is None else _named(record, main[0], family),
        beside=NOTHING if main is None else _beside(record, main[1], family),
        grids=[_results(record, layout.results, family), *_seeds(record, layout, family)],
        warnings=_warnings(record, promise, epsilons),
    )


def _epsilon(record: Traced, name: str) -> Traced | None:
    """Return an epsilon; that of several devices or clients only where there are several."""
    found = record.get(name)
    if name == "voter_epsilon" and record.value.get("clients") == 1:
        return None
    if name == "person_epsilon" and found is not None and found.value == record.value.get("epsilon"):
        return None
    return found


_WHO = {
    "run": ("{} of {} devices answered questions of the design {}.", ("answered", "asked", "design")),
    "online": ("{} voters helped to serve clients by {}, {} rounds each.", ("voters", "recommender", "rounds")),
    "two-tier": (
        "{} public people taught a server, and {} private devices answered by {}.",
        ("public", "answered", "mechanism"),
    ),
}
_FOUND = {
    "accuracy": "The server put {} of {} items into the right cluster",
    "hit_rate": "Among ten recommendations was a held-out like for {} of people; {} items",
    "loss": "A client disliked {} of {} recommendations",
    "rmse": "Ratings were predicted with an error (RMSE) of {}, of {} items",
}
"""What the main result says; whole or in percent, with what it is of."""
_OF = {"loss": "rounds"}


def _headline(record: Traced, family: str, main: tuple[str, tuple[str, ...]] | None) -> list[Markup]:
    told, keys = _WHO[family]
    lines = [Markup(told).format(*(shown(record.get(key)) for key in keys))]
    if main is not None and main[0] in _FOUND:
        write = percent if main[0] in ("accuracy", "hit_rate") else written
        value = shown(record.get(main[0]), write) + interval_in(record, main[0], write)
        found = Markup(_FOUND[main[0]]).format(value, shown(record.get(_OF.get(main[0], "items"))))
        beside = [(words(key, family), one) for key in main[1] if (one := record.get(key))]
        more = [Markup("{}: {}").format(name.split(", ")[-1], shown(one, write)) for name, one in beside]
        lines.append(Markup("{} ({}).").format(found, Markup("; ").join(more)) if more else found + ".")
    return lines


def _measured(record: Traced, key: str) -> Markup:
    error = record.get(f"{key}_error")
    return shown(record.get(key)) + (Markup(" ± {}").format(shown(error)) if error else interval_in(record, key))


def _named(record: Traced, key: str, family: str) -> Markup:
    return Markup("{}: {}").format(words(key, family), _measured(record, key))


def _beside(record: Traced, keys: tuple[str, ...], family: str) -> Markup:
    return Markup("; ").join(_named(record, key, family) for key in keys if record.get(key)) or NOTHING


def _results(record: Traced, results: Beside, family: str) -> Grid:
    rows = [
        [Markup("{}").format(words(key, family)), _measured(record, key), _beside(record, others, family)]
        for key, others in results
        if record.get(key)
    ]
    how = "means with intervals over seeds" if record.get("level") else "of one seed, without intervals"
    return Grid(caption=f"What was measured, {how}", headings=["result", "measured", "beside it"], rows=rows)


def _seeds(record: Traced, layout: Layout, family: str) -> list[Grid]:
    runs = record.get("runs")
    keys = ["seed", *(key for key, _ in layout.results if record.get(key))]
    cells = [[shown(row.get(key)) for key in keys] for row in (runs.rows() if runs else [])]
    return [Grid(caption="Every seed", headings=[words(key, family) for key in keys], rows=cells)] if cells else []


def _warnings(record: Traced, promise: Promise, believed: list[Believed]) -> list[Markup]:
    found = []
    copies, person = record.get("copies_max"), record.get("person_epsilon")
    if copies is not None and copies.value != 1 and promise.kind == "local":
        told = "People were drawn with replacement: one person stands behind up to {} devices, and loses up to {} nats."
        found.append(Markup(told).format(shown(copies), shown(person)))
    if share := record.get("malicious"):
        told = "A share of {} of the devices lied (attack {}); what is predicted of items right holds for honest ones."
        found.append(Markup(told).format(shown(share), shown(record.get("attack"))))
    if error := record.get("policy_error"):
        found.append(Markup("The policy went astray: {}").format(shown(error)))
    if promise.kind in ("local", "curator") and all(one.says_nothing for one in believed) and believed:
        found.append(
            Markup("So large an epsilon bounds nothing that matters to a person: an even guess becomes certain.")
        )
    return found
