"""A page of one or several results: what it says of each by its family, as HTML that loads nothing."""

import math
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from coordinator.protocol.errors import InputError
from coordinator.protocol.mechanisms import public_halves as publics
from coordinator.protocol.public_half import LOCAL
from coordinator.server.server_half import TRUST_LOCAL
from scenarios.config.files import brief
from scenarios.config.mechanism_settings import designs
from scenarios.families.two_tier.two_tier_scenario import GUARANTEES, NONE
from scenarios.pages.schema import Subject, read_subject
from scenarios.pages.traced import (
    EVEN,
    NOTHING,
    PRIORS,
    Believed,
    Cell,
    Grid,
    PrivacyPromise,
    Traced,
    each,
    grids_of,
    kind_of,
    lines_of,
    merged,
    promised,
    sentence,
    trusted,
    words,
)
from scenarios.show.picture import Picture
from scenarios.show.records import check_ending, pictures_of, rendered, write_target
from scenarios.show.tables import is_guaranteed
from scenarios.store.whole_files import to_json
from scenarios.studies.compare.comparison_settings import LADDER_NAME, PUBLIC_RATES, SHUFFLED, TWO_SERVERS
from scenarios.studies.compare.rows.trusted import PAIRS_WITH_EASE

Lines = Sequence[tuple[str, Cell]]  # Words and values
_SHOWN = 3  # Epsilons that the summary shows one by one
_DIGESTS = ("releases_sha256", "recommendations_sha256", "model_digest")
ALL = "all that one person's devices let out"
OPEN = {
    "shuffled": "all that the shuffler hands on (but for a probability delta)",
    "two-servers": "all that both servers publish (but for a probability delta)",
    "curator": "all that the curator publishes",
}
"""What epsilon bounds the reading of, by kind of promise; else `ALL`."""
_ABOUT = frozenset({"command", "ended", "run_sha256", "source_sha256", "versions"})


@dataclass(frozen=True, slots=False, kw_only=True)
class ReportSection:
    """What a page says of a result."""

    subject: Subject
    headline: Sequence[Markup]  # Sentences for who reads nothing else
    trust: Cell  # Who is trusted
    question: Lines  # What was asked, and of whom; what was spent of which budget; everything else that the record says
    budget: Lines = ()
    rest: Lines = ()
    promises: Sequence[PrivacyPromise]
    believed: Sequence[Believed] = ()  # The epsilons, and what they mean
    whole: bool = True  # Whether these epsilons are of a person's whole data
    people: Cell  # Cells of the summary: how many people, the main number, and what stands beside it
    result: Cell
    beside: Cell = NOTHING
    grids: Sequence[Grid] = ()  # Results
    warnings: Sequence[Cell] = ()  # What everybody must see, and what only readers of the details must
    remarks: Sequence[Cell] = ()

    @cached_property
    def pictures(self) -> Sequence[Picture]:
        """Its pictures."""
        return pictures_of(self.subject.family, self.subject.documents["result"], self.subject.tables)

    @property
    def first_pictures(self) -> Sequence[Picture]:
        """Those that stand before everything else: the ladder of trust, where several epsilons make curves of it."""
        return [
            one
            for one in self.pictures
            if one.name == LADDER_NAME and one.points is not None and one.points["x"].nunique() > 1
        ]

    @property
    def other_pictures(self) -> Sequence[Picture]:
        """Those that stand below its tables."""
        return [one for one in self.pictures if one not in self.first_pictures]

    @property
    def in_short(self) -> tuple[Markup, Markup] | None:
        """Its epsilons, and what an even guess can become, of several the ends; None where no epsilon bounds that."""
        if not self.believed or not self.whole:
            return None
        ends, joint = self.believed, Markup(", ")
        if len(ends) > _SHOWN:
            ends, joint = (ends[0], ends[-1]), Markup(" to ")
        return joint.join(one.epsilon for one in ends), joint.join(one.bound("at-most", EVEN) for one in ends)

    @property
    def seen(self) -> str:
        """What its epsilons bound the reading of."""
        kinds = {promise.kind for promise in self.promises}
        return OPEN.get(min(kinds), ALL) if len(kinds) == 1 else ALL

    @property
    def again(self) -> Markup | None:
        """The command that repeats an experiment from the scenario on the page; None where there is none."""
        repeat, family, document = self.subject.record.get("repeat"), self.subject.family, self.subject.scenario
        if document is None or family not in LAYOUTS:
            return None
        code = " --allow-code" if any(":" in str(document.get(name, "")) for name in ("design", "policy")) else ""
        seeds = Markup(" --repeat {}").format(repeat) if repeat else ""
        return Markup("blindrec {} scenario.json{}{} --backend inprocess").format(family, seeds, code)

    @property
    def scenario(self) -> str | None:
        """The scenario's file, as it is."""
        return None if self.subject.scenario is None else to_json(dict(self.subject.scenario)).rstrip()

    @property
    def origin(self) -> Lines:
        """What it was made with: digests, time, versions."""
        made, record = self.subject.of("versions"), self.subject.record
        result = Markup('<data value="{}" data-digest="sha256">{}</data>').format(record.place, self.subject.sha256)
        versions = [(name, one) for name, one in (made.get("versions") or made).items() if name not in _ABOUT]
        return [
            *(("ended", one) for one in made.all(["ended"])),
            ("SHA-256 of the result's file", result),
            *((words(str(one.name)), one) for one in record.all(_DIGESTS)),
            *(("SHA-256 of the file that was read", one) for one in made.all(["source_sha256"])),
            *versions,
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class PageLayout:
    """Where the keys of an experiment's record go; the first result that it has is the main one."""

    people: str  # Sentence of who took part, and the key of their number
    number: str
    results: Mapping[str, str]  # Keys of what was measured, each with those of predictions, bounds and rivals beside it
    question: str
    budget: str
    epsilons: Mapping[str, str]  # Keys of epsilons, and whose they are


_HIDDEN = frozenset(
    {"trust_model", "guarantee", "neighbours", "delta", "intervals", "runs", "level", "convergence", "validated"}
)
LAYOUTS = {
    "run": PageLayout(
        people="{answered} of {asked} devices answered questions of the design {design}.",
        number="answered",
        results={
            "accuracy": "accuracy_predicted",
            "hit_rate": "popularity_hit_rate random_hit_rate",
            "ndcg": "popularity_ndcg random_ndcg",
            **dict.fromkeys(("exact", "ari", "nmi"), ""),
            "advice_liked": "random_liked",
            **dict.fromkeys(("top_50", "rank_correlation", "noiseless_ari"), ""),
        },
        question="design mechanism channel decoder policy rounds questions answers_per_device users asked answered "
        "refused refused_because missing items rated clusters policy_error held_out split_by people_left_out repeat",
        budget="epsilon epsilon_per_question copies_max person_epsilon spent_max spent_mean",
        epsilons={"epsilon": "one device", "person_epsilon": "one person, all devices behind which they stand"},
    ),
    "online": PageLayout(
        people="{voters} voters helped to serve clients by {recommender}, {rounds} rounds each.",
        number="voters",
        results={
            "loss": "loss_bound loss_random",
            "epsilon_proved": "epsilon_exact epsilon_needed",
            "privacy_loss_of_run": "privacy_loss_of_peers",
            "voter_loss": "voter_epsilon",
            "peers_alive": "peers",
        },
        question="recommender clients rounds skipped objects voters refused peers peers_measured diversity radius "
        "repeat",
        budget="epsilon_proved epsilon_exact voter_epsilon voter_loss budget",
        epsilons={
            "epsilon_exact": "one voter, one client: exact worst case",
            "epsilon_proved": "one voter, one client: as proved",
            "voter_epsilon": "one voter, all clients together",
        },
    ),
    "two-tier": PageLayout(
        people="{public} public people taught a server, and {answered} private devices answered by {mechanism}.",
        number="answered",
        results={
            "rmse": "rmse_public_only rmse_baseline",
            "hit_rate": "popularity_hit_rate",
            "ndcg": "popularity_ndcg",
        },
        question="mechanism users items ratings public private answered unseen_items test_ratings held_out split_by "
        "people_left_out evaluated rank regularisation weight iterations repeat",
        budget="epsilon",
        epsilons={"epsilon": "one private device"},
    ),
}
_MAIN = {
    "accuracy": "The server put {accuracy:+percent} of {items} items into the right cluster",
    "hit_rate": "Among ten recommendations was a held-out like for {hit_rate:+percent} of people; {items} items",
    "loss": "A client disliked {loss:+} of {rounds} recommendations",
    "rmse": "Ratings were predicted with an error (RMSE) of {rmse:+}, of {items} items",
}
"""What the main result says, with what it is of."""


def section_of_experiment(subject: Subject) -> ReportSection:
    """Return what a page says of a run, of online recommendation and of two tiers: one record, or means over seeds."""
    record, family = subject.record, subject.family
    layout, promise = LAYOUTS[family], promised(record)
    results = {key: others.split() for key, others in layout.results.items()}
    used = {*layout.question.split(), *layout.budget.split(), *_HIDDEN}
    used |= {name for key, others in results.items() for name in (key, *others, f"{key}_error")}
    rest = [key for key, one in record.items() if key not in used and not isinstance(one.value, (list, dict))]
    have = [key for key in results if record.get(key)]
    main = have[0] if have else ""
    epsilons = {name: Believed(words=whose, epsilon=record.get(name)) for name, whose in layout.epsilons.items()}
    # What is of several devices or clients repeats what is of one
    one_client, one_device = record.value.get("clients") == 1, record.value.get("epsilon")
    repeats = {"voter_epsilon": one_client, "person_epsilon": record.value.get("person_epsilon") == one_device}
    believed = [one for name, one in epsilons.items() if one.epsilon and not repeats.get(name)]

    def measured(key: str) -> Markup:
        error = Markup(" ± {}").format(one) if (one := record.get(f"{key}_error")) else None
        return record.get(key).measured() if error is None else record.get(key).shown() + error

    def named(keys: Sequence[str]) -> Markup:
        parts = [Markup("{}: {}").format(words(key, family), measured(key)) for key in keys if record.get(key)]
        return Markup("; ").join(parts) if parts else NOTHING

    headline = [sentence(layout.people, record)]
    if main in _MAIN:
        spec = "{}: {:percent}" if main in ("accuracy", "hit_rate") else "{}: {}"
        beside = record.all(results[main])
        more = [Markup(spec).format(words(str(one.name), family).split(", ")[-1], one) for one in beside]
        brackets = Markup(" ({})").format(Markup("; ").join(more)) if more else ""
        headline.append(sentence(_MAIN[main], record) + brackets + ".")
    seeds = "means with intervals over seeds" if record.get("level") else "of one seed, without intervals"
    table = [(words(key, family), measured(key), named(results[key])) for key in have]
    grids = [Grid(caption=f"What was measured, {seeds}", headings=["result", "measured", "beside it"], rows=table)]
    if runs := [[*map(row.get, ("seed", *have))] for row in record.get("runs").rows()]:
        headings = [words(key, family) for key in ("seed", *have)]
        grids.append(Grid(caption="Every seed", headings=headings, rows=runs))
    return ReportSection(
        subject=subject,
        headline=headline,
        trust=trusted(record.get("trust_model")),
        question=lines_of(record, layout.question.split(), family),
        budget=lines_of(record, layout.budget.split(), family),
        rest=lines_of(record, rest, family),
        promises=[promise],
        believed=[] if promise.kind in ("deniability", "silent") else believed,
        whole=promise.kind != "part",
        people=record.get(layout.number),
        result=named([main]),
        beside=named(results.get(main, ())),
        grids=grids,
        warnings=_warnings(record, promise, believed),
    )


def _warnings(record: Traced, promise: PrivacyPromise, believed: Sequence[Believed]) -> list[Markup]:
    nothing = promise.kind in ("local", "curator") and believed and all(one.says_nothing for one in believed)
    every = {
        "People were drawn with replacement: one person stands behind up to {copies_max} devices, and loses up to "
        "{person_epsilon} nats.": record.value.get("copies_max") not in (None, 1) and promise.kind == "local",
        "A share of {malicious} of the devices lied (attack {attack}); what is predicted of items right holds for "
        "honest ones.": record.value.get("malicious"),
        "The policy went astray: {policy_error}": record.get("policy_error"),
        "So large an epsilon bounds nothing that matters to a person: an even guess becomes certain.": nothing,
    }
    return [sentence(template, record) for template, holds in every.items() if holds]


_DESIGNS = "design decoder users epsilon accuracy exact users_here trust_model private neighbours delta note"
_NEEDED = "epsilon mechanism features people people_to_beat here users_here"
_LEARNABLE = "epsilon design decoder users accuracy users_here"
_AUDITED = "design claimed exact measured confidence held guarantee"


def _plain(record: Traced, *but: str) -> list[str]:
    """Return the keys of a record under which no table stands."""
    return [key for key, one in record.items() if key not in but and not one.rows()]


def section_of_plan(subject: Subject) -> ReportSection:
    """Return what a page says of a plan."""
    record = subject.record
    if record.get("worth"):
        return section_of_data(subject)
    best, bounds = record.get("recommended"), record.get("bounds").rows()
    result, said = NOTHING, Markup("No design that protects all that a device holds reaches this target.")
    if best:
        result = sentence("{design} ({decoder}): {users} users at epsilon {epsilon}", best)
        said = Markup("Recommended is {}.").format(result)
    binding = [row for row in bounds if row.value.get("binds")]
    warnings = []
    if liars := record.get("withstanding"):
        best_of = "{recommended/design} in pools of {recommended/pool_size} takes {recommended/users} users"
        so = best_of if liars.get("recommended") else "no design is known to reach the target"
        honest = "What is recommended holds if everybody is honest. If a share of {malicious} lies, "
        warnings = [sentence(f"{honest}{so}.", liars)]
    return ReportSection(
        subject=subject,
        headline=[sentence("The target: {target}.", record), said],
        trust=trusted(best.get("trust_model")),
        question=lines_of(record, _plain(record, "recommended")),
        promises=[promised(best) if best else PrivacyPromise(kind="local", about="designs that may be recommended")],
        believed=each("one person, with the recommended design", [best.get("epsilon")]),
        people=best.get("users"),
        result=result,
        beside=sentence("any private learner needs {users} users ({name})", binding[0]) if binding else NOTHING,
        grids=grids_of(
            ("Every design: what it needs", record.get("designs").rows(), _DESIGNS.split()),
            ("Lower bounds: users that any epsilon-LDP learner needs", bounds, ()),
        ),
        warnings=warnings,
        remarks=record.all(["not_for"]),
    )


def section_of_data(subject: Subject) -> ReportSection:
    """Return what a page says of a file of ratings."""
    record = subject.record
    worth, learnable = record.get("worth").rows(), record.get("learnable").rows()
    advice = [sentence("{words}.", row) for row in record.get("advice").rows()]
    need, beside = NOTHING, NOTHING
    if worth:
        best = max(worth, key=lambda row: row.get("here").number())
        words = "{worth:percent} of popularity's worth takes {people:+} people at epsilon {epsilon} ({mechanism})"
        need, beside = sentence(words, best), sentence("{here:+percent} with {users_here} people", best)
    return ReportSection(
        subject=subject,
        headline=[
            sentence("A file of {ratings} ratings by {users} people of {items} items.", record),
            *(advice or [sentence("Nothing can be said of private advice: {worth_not}.", record)]),
        ],
        trust="nobody, if its people answered",
        question=lines_of(record, _plain(record)),
        promises=[PrivacyPromise(kind="local", about="what the recipe's mechanisms would promise at each epsilon")],
        believed=each("one person", [row.get("epsilon") for row in (*worth, *learnable)]),
        people=record.get("users"),
        result=need,
        beside=beside,
        grids=grids_of(
            ("What recommendations take where nobody is trusted, forecast", worth, _NEEDED.split()),
            ("What could be learned, in a block model", learnable, _LEARNABLE.split()),
        ),
        remarks=[*record.all(["rule"]), *(learnable[0].all(["not_for"]) if learnable else [])],
    )


def section_of_audit(subject: Subject) -> ReportSection:
    """Return what a page says of an audit: what was claimed, what is exact, and what an attack measured."""
    record = subject.record
    rows = record.get("audits").rows() or [record]
    first, one = rows[0], len(rows) == 1
    failures = [sentence("{design}: {failures}", row) for row in rows if row.value.get("failures")]
    verdict = Markup("{} leaks more than was claimed.").format("Something" if failures else "Nothing")
    attack = sentence("at least {measured}", first) if one else NOTHING
    beside = sentence("claimed {claimed}, exact {exact}", first) if one else NOTHING
    numbers = Markup("An attack on real releases shows a privacy loss of {} ({}) [nats].").format(attack, beside)
    audited = Markup(", ").join(row.get("design") for row in rows)
    every = merged((kind_of(str(row.value.get("guarantee", LOCAL))), str(row.value["design"])) for row in rows)
    attacks = [(f"Attacks on {row.value['design']}", row.get("attacks").rows(), ()) for row in rows]
    whose = {"claimed": "one release, as claimed", "exact": "one release, by its exact channel"}
    caption = "Privacy loss as claimed, as the channel has it, and as attacks show at least [nats]"
    return ReportSection(
        subject=subject,
        headline=[Markup("Attacks on real releases of {}.").format(audited), *([numbers] if one else []), verdict],
        trust="nobody",
        question=lines_of(record, _plain(record, "failures")),
        promises=[promised(first)] if one and first.get("guarantee") else every,
        believed=[Believed(words=whose[str(epsilon.name)], epsilon=epsilon) for epsilon in first.all([*whose]) if one],
        people=first.get("attacks").get(0).get("plays") if one else NOTHING,
        result=attack,
        beside=beside,
        grids=grids_of((caption, rows, _AUDITED.split()), *attacks),
        warnings=failures,
    )


_COMPARED = (
    "mechanism features epsilon neighbours delta epsilon_local users public ndcg to_popularity above to_above hit_rate "
)
_COMPARED += "hit_rate_to_popularity hit_rate_to_above recall coverage liar_likes liar_share"
_PAID = "by group trust_model mechanism features epsilon users people ndcg to_popularity"
_ABOUT_DATA = "ratings people_in_file items split_by held_out like_from min_ratings public_constants"


_TRUSTED = {
    "local": "If nobody is trusted",
    SHUFFLED: "If a shuffler is trusted not to say who sent what",
    TWO_SERVERS: "If one of two servers is trusted",
    "curator": "If a curator is trusted",
}
"""How a sentence about a trust model begins, from nobody to a curator."""


def people_in_words(rows: Sequence[Traced]) -> list[Markup]:
    """Return a sentence for each trust model and epsilon: how many people make a list as good as popularity's share."""
    best: dict[tuple[str, Any], Traced] = {}
    for row in rows:
        model, epsilon = str(row.value["trust_model"]), row.value["epsilon"]
        if model not in _TRUSTED or epsilon == "inf":
            continue
        name, users = (model, epsilon), row.value["users"]
        if name not in best or (users or math.inf) < (best[name].value["users"] or math.inf):
            best[name] = row
    sentences = []
    for model, begin in _TRUSTED.items():
        for row in (row for (name, _), row in best.items() if name == model):
            people = "{users:+about} people make" if not row.value["at_most"] else "at most {users:people} people make"
            low = "{users_low:about}" if row.get("users_low") else "fewer than {least:people}"
            high = "{users_high:about}" if row.get("users_high") else "more than {most:people}"
            if not row.value["at_most"] and "than" in low + high:
                people = f"{{users:about}} [{low}, {high}] people make"
            if row.value["users"] is None:  # more need not help: a curator counts only some likes of a person
                people = "no number of people up to {most:people} makes"
            text = f"{begin}, at epsilon {{epsilon}}, {people} a list as good as {{share:percent}} of popularity"
            with_features = " with features" if row.value["features"] else ""
            sentences.append(sentence(f"{text} ({{mechanism}}{with_features}).", row))
    return sentences


def section_of_comparison(subject: Subject) -> ReportSection:
    """Return what a page says of a comparison of trust models."""
    record = subject.record
    rows, panel = record.get("rows").rows(), record.get("coordinator")
    models: dict[str, list[Traced]] = {}
    for row in rows:
        models.setdefault(str(row.value["trust_model"]), []).append(row)
    values, compared = [row.value for row in rows], [row for row in rows if row.value.get("compared", True)]
    private = [row for row in compared if is_guaranteed(row.value)]
    best = max(private or models.get("none", []), key=lambda row: row.value["ndcg"], default=None)
    known = (row.value for row in models.get("none", ()))
    plain = next((n for n, row in enumerate(known) if row["mechanism"] == "popularity" and not row["features"]), None)
    popular = NOTHING if plain is None else sentence("NDCG {ndcg:+}", models["none"][plain])
    result = NOTHING
    if best is not None:
        features = " with features" if best.value["features"] else ""
        epsilon = " at epsilon {epsilon}" if best.get("epsilon") else ""
        who = f"{{trust_model}}, {{mechanism}}{features}{epsilon} by {{users:people}} people"
        result = sentence(f"{who}: NDCG {{ndcg:+}}", best)
    warnings = record.get("warnings").values()
    warned = {one.value for one in warnings}
    grids = grids_of(
        *((f"Trust model {name}", members, _COMPARED.split()) for name, members in models.items()),
        ("People for a share of plain popularity's NDCG", record.get("people").rows(), ()),
        ("Who pays: what lists are worth to groups of people", record.get("who_pays").rows(), _PAID.split()),
    )
    if panel:
        lines = lines_of(panel, _plain(panel))
        grids.append(Grid(caption="The coordinator's panel", headings=["what", "value"], rows=lines))
        grids += grids_of(*((f"The coordinator's panel: {words(key)}", one.rows(), ()) for key, one in panel.items()))
    both = "Best with an epsilon: {best}; plain popularity, which knows all ratings: {popular}."
    return ReportSection(
        subject=subject,
        headline=[
            *people_in_words(record.get("people").rows()),
            sentence("{ratings}: {people_in_file} people and {items} items, each mechanism on the same split.", record),
            sentence(both, record, best=result, popular=popular),
        ],
        trust=Markup(", ").join(trusted(members[0].get("trust_model")) for members in models.values()),
        question=lines_of(record, [*_ABOUT_DATA.split(), "duplicates", "from_the_file", "level"]),
        promises=merged((_kind_of_row(one), _named(one)) for one in values),
        believed=each("one person", [row.get("epsilon") for row in rows]),
        people=record.get("people_in_file"),
        result=result,
        beside=Markup("plain popularity {}").format(popular),
        grids=grids,
        warnings=warnings,
        remarks=[one for one in record.get("remarks").values() if one.value not in warned],
    )


def _named(row: Mapping[str, Any]) -> str:
    """Return a row's name, with what else its cells without a guarantee have in common."""
    name = f"{row['trust_model']}: {row['mechanism']}"
    if row.get("epsilon") is None or is_guaranteed(row):
        return name
    beyond = "without noise (epsilon inf)" if row["epsilon"] == "inf" else "where delta exceeds 1 / people"
    return f"{name} {beyond}"


def _kind_of_row(row: Mapping[str, Any]) -> str:
    """Return what a row of a comparison promises: in two tiers it is its mechanism's word that counts."""
    model, mechanism, epsilon = str(row["trust_model"]), str(row["mechanism"]), row.get("epsilon")
    if model == "none" or not (epsilon is None or is_guaranteed(row)):
        return "none"
    if model == "curator":
        return "approximate" if row.get("delta", mechanism == PAIRS_WITH_EASE) else "curator"
    if model in {SHUFFLED, TWO_SERVERS}:
        return model
    if model == PUBLIC_RATES:
        return "part"
    if model == "two-tier" and epsilon is None:
        return kind_of(GUARANTEES.get(mechanism.lower(), GUARANTEES[NONE]))
    return "local"


_SWEPT = {
    "settings": "Every setting",
    "schemes": "Every scheme",
    "points": "Every point",
    "summary": "Every point of the curves, means over seeds",
    "recommenders": "Every recommender",
    "fits": "Exponents",
    "ratios": "Ratios",
    "probes": "Shares of items right",
    "bounds": "Lower bounds",
    "attack": "What an attack guessed",
}
_MEASURED = ("accuracy", "hit_rate", "ndcg", "rmse", "loss", "mean")  # What a sweep measured, if it is not users
_PROVED = "epsilon_proved", "epsilon_most", "epsilon_exact"


def section_of_sweep(subject: Subject) -> ReportSection:
    """Return what a page says of a sweep of any kind."""
    record = subject.record
    tables = [(name, rows) for name in _SWEPT if (rows := record.get(name).rows())]
    main = tables[0][1] if tables else []
    model, level = record.get("trust_model"), record.get("interval") or record.get("confidence")
    result = _range(main, next((name for name in _MEASURED if any(row.get(name) for row in main)), "users"))
    kind = "A sweep of {sweep}" if record.get("sweep") else "A sweep of users that it takes"
    over = " over {varied}" if record.get("varied") else ""
    lists = [*_SWEPT, "trajectory", "versions", "interval"]
    epsilons = [*(row.get(name) for row in main for name in ("epsilon", "epsilon_proved")), record.get("epsilon")]
    return ReportSection(
        subject=subject,
        headline=[
            sentence(f"{kind}{over}.", record),
            Markup("Measured: {}.").format(result),
            *([Markup("Intervals have the level {}.").format(level)] if level else ()),
        ],
        trust=trusted(model) if model else "as its settings say",
        question=lines_of(record, _plain(record, *lists)),
        promises=merged(_promises_of(record, [row.value for row in main])),
        believed=each("one person, in such settings", epsilons),
        people=_range(main, "users"),
        result=result,
        grids=grids_of(*((_SWEPT[name], rows, ()) for name, rows in tables)),
    )


def _promises_of(record: Traced, rows: Sequence[Mapping[str, Any]]) -> Iterable[tuple[str, str]]:
    """Return what a sweep's settings promise: by design, by mechanism of two tiers, or by what is proved."""
    if any("design" in row for row in rows):
        return [(_kind_of_design(row), str(row["design"])) for row in rows if "design" in row]
    if record.value.get("trust_model") == "two-tier":
        names = [str(row.get("curve") or row.get("mechanism")).split(":")[0] for row in rows]
        return [(kind_of(GUARANTEES.get(name, LOCAL)), name) for name in names]
    if any("recommender" in row for row in rows):
        proved = [any(row.get(name) is not None for name in _PROVED) for row in rows]
        return [("curator" if one else "none", str(row["recommender"])) for one, row in zip(proved, rows, strict=True)]
    return [("local", "settings with a finite epsilon")]


def _kind_of_design(row: Mapping[str, Any]) -> str:
    half, public = designs().get(str(row["design"])), publics().get(str(row["design"]))
    if row.get("epsilon") == "inf" or (half is not None and not half.private):
        return "none"
    return kind_of(public.promise if public else LOCAL, half.trust if half else TRUST_LOCAL)


def _range(rows: Sequence[Traced], key: str) -> Markup:
    """Return the smallest and the largest of some rows' values, with the name of the column."""
    every = sorted((one for row in rows if (one := row.get(key))), key=Traced.number)
    if not every:
        return NOTHING
    ends = every[:1] if every[0].value == every[-1].value else [every[0], every[-1]]
    return Markup("{} {}").format(words(key), Markup(" to ").join(ends))


SECTIONS: Mapping[str, Callable[[Subject], ReportSection]] = {
    **dict.fromkeys(LAYOUTS, section_of_experiment),
    "sweep": section_of_sweep,
    "compare": section_of_comparison,
    "plan": section_of_plan,
    "data": section_of_data,
    "audit": section_of_audit,
}
"""By the command that a record is of."""


MOST_SUBJECTS = 24
_ID = re.compile(r'(\bid="|href="#|url\(#)')
_ROOT = re.compile(r"<svg\b[^>]*?(viewBox=\"[^\"]*\")[^>]*>")
_NOT_OURS = re.compile(r"<metadata>.*?</metadata>|<style[^>]*>.*?</style>", re.DOTALL)
_JOINED = "stroke-linejoin:round;stroke-linecap:butt"
"""What the plotting library says in a style sheet of its own, which would hold for the whole page."""


def report_of(paths: Sequence[Path]) -> str:
    """Return the page of some folders of `--out` and files of `--json`."""
    if not 1 <= len(paths) <= MOST_SUBJECTS:
        raise InputError(f"{len(paths)} results are given; a report takes from 1 to {MOST_SUBJECTS}")
    subjects = [read_subject(path, number) for number, path in enumerate(paths, 1)]
    with _of_files(paths):
        return _rendered([SECTIONS[one.family](one) for one in subjects])


@contextmanager
def _of_files(paths: Sequence[Path]) -> Iterator[None]:
    """Refuse results in which somebody has changed values so that nothing can be computed or drawn of them."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)  # a number overflows
            yield
    except InputError:
        raise
    except (ArithmeticError, AttributeError, LookupError, RuntimeWarning, TypeError, ValueError) as error:
        names, what = ", ".join(map(str, paths)), brief(f"{type(error).__name__}: {error}")
        raise InputError(
            f"{names} cannot be shown, for a value is none of such a result ({what}); make it anew"
        ) from None


def _rendered(sections: Sequence[ReportSection]) -> str:
    loader = PackageLoader("scenarios.pages")
    pages = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    sheet = Markup(pages.get_template("style.css").render())
    page = pages.get_template("page.html")
    return page.render(sections=sections, sheet=sheet, priors=PRIORS, even=EVEN, inline=inline)


def inline(picture: Picture, prefix: str) -> Markup:
    """Return a picture as a part of a page: with names for readers, and identifiers that no other picture has."""
    svg = rendered(picture, ".svg").decode()
    body = _NOT_OURS.sub("", svg[svg.index("<svg") :])
    body = _ID.sub(lambda match: match[1] + prefix, body).replace("xlink:href", "href")
    root = _ROOT.search(body)
    assert root is not None, "the plotting library writes a viewBox"
    opening = Markup(
        '<svg xmlns="http://www.w3.org/2000/svg" {view} style="{style}" role="img" '
        'aria-labelledby="{id}title {id}desc"><title id="{id}title">{title}</title><desc id="{id}desc">{alt}</desc>'
    )
    named = {"id": prefix, "title": picture.title, "alt": picture.alt}
    return opening.format(view=Markup(root[1]), style=_JOINED, **named) + Markup(body[root.end() :])


def write_report(results: Sequence[Path], out: Path, *, force: bool = False) -> Path:
    """Write the page of some results, over a file that is there by ``force`` alone; see `report_of`."""
    check_ending("out", out, (".html", ".htm"))
    if out.is_file() and not force:
        raise InputError(f"{out} is there already; name another file, or give --force to write over it")
    write_target("out", out, report_of(results).encode())
    return out
