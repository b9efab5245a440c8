"""The main job as an experiment, `blindrec run`: its record's columns, what makes a run the same, and one seed."""

from pathlib import Path
from typing import Any

from rich.console import Console

from coordinator.protocol.errors import InputError, PolicyError
from coordinator.protocol.trust_models import CURATOR, TRUST
from scenarios.config.compatibility import check
from scenarios.config.files import file_sha256
from scenarios.config.identity import import_object
from scenarios.config.mechanism_settings import code_digest
from scenarios.config.resolve import ResolvedRun, resolve
from scenarios.config.scenario import Scenario
from scenarios.experiment.experiment import Experiment, NamedCode
from scenarios.log import write_line
from scenarios.show.tables import Average, Column
from scenarios.store.manifest import FOLDER, MANIFEST, RUN, Manifest
from scenarios.store.run_folder import require_source
from scenarios.store.whole_files import size_of

LYING = (
    Column("malicious", "share of liars"),
    Column("attack", "attack"),
    Column("lied_about", "items lied about", Average.COUNT),
    Column("lies", "answers that are lies", Average.MEAN),
    Column("labels_wrong", "labels wrong, clusters not swapped", Average.MEAN),
    Column("labels_wrong_predicted", "labels wrong, not swapped, predicted", Average.FORMULA),
    Column("all_right", "all labels right, not swapped", Average.SHARE),
    Column("decided_wrong", "decided items with a wrong label", Average.MEAN),
    Column("promoted_rank", "mean rank of promoted items", Average.MEAN),
    Column("promoted_rank_predicted", "mean rank of promoted items, predicted", Average.FORMULA),
    Column("tipping_share", "share of liars that tips an item", Average.FORMULA),
    Column("tipping_limit", "share of liars that tips any design", Average.FORMULA),
)
"""Columns of a record with liars; others have none of these keys."""


COLUMNS = (
    Column("seed", average=Average.FIRST),
    Column("trust_model", "trust model"),
    Column("guarantee", "guarantee", beside=("neighbours", "delta")),
    Column("agreement_digest", "agreement of all parties"),
    Column("mechanism", "mechanism"),
    Column("channel", "channel"),
    Column(
        "epsilon",
        "epsilon (local) [nats]",
        words_under={name: "epsilon (central) [nats]" for name, model in TRUST.items() if model.central},
    ),
    Column("epsilon_local", "epsilon (local) [nats]"),
    Column("amplified_for", "  answers of a round that this counts on"),
    Column("smallest_round", "  answers of the smallest round", Average.COUNT),
    Column("smallest_round_reason", "  why rounds are no smaller"),
    Column("bound", "  bound of the amplification"),
    Column("noise_deviation", "  deviation of the noise of a total", Average.MEAN),
    Column("pair_deviation", "  and of that of a pair", Average.MEAN),
    Column("honest_noise", "  devices whose noise is enough"),
    Column("bytes_per_device", "  bytes that a device sends to both servers"),
    Column("proofs", "  proofs of devices' vectors"),
    Column("trusted", "trusted"),
    Column("if_trust_fails", "  if that is misplaced"),
    Column("person_epsilon", "epsilon of a person [nats]", Average.WORST),
    Column("person_delta", "  delta of a person", Average.WORST, unless_one="copies_max"),
    Column("copies_max", average=Average.WORST),
    Column("questions", "questions a device", unless_one="questions"),
    Column("own_questions", "questions drawn by devices themselves"),
    Column("epsilon_per_question", "epsilon of a question [nats]", unless_one="questions"),
    Column("unit", "epsilon is of"),
    Column("periods", "periods"),
    Column("period_kind", "periods are of kind"),
    Column("schedule", "who answers in which period"),
    Column("drift", "chance that an item moves in a period"),
    Column("ageing", "relative drift by which estimates age"),
    Column("policy", "policy", unless_one="rounds"),
    Column("rounds", "rounds", Average.COUNT, unless_one="rounds"),
    Column("answers_per_device", "answers a device, at most", unless_one="answers_per_device"),
    Column("users", "users"),
    Column("asked", average=Average.COUNT),
    Column("answered", "answered", Average.COUNT),
    Column("refused", "refused", Average.COUNT),
    Column("refused_because", "  because"),
    Column("missing", "missing", Average.COUNT),
    Column("items", "items"),
    Column("rated", "rated items (public)"),
    Column("from_the_file", "public constants taken from the file"),
    Column("lines_skipped", "bad lines of the file left out"),
    Column("lines_unrated", "lines of the file without a rating, left out"),
    Column("clusters", "clusters"),
    Column("unlearned", "items not learned", Average.COUNT),
    Column("undecided", "items not decided, but guessed", Average.COUNT),
    Column("policy_error", "policy went astray"),
    Column("accuracy", "share of items right", Average.MEAN, most=1, share=True),
    Column("accuracy_predicted", "share of items right, predicted", Average.FORMULA, share=True),
    Column("accuracy_worst", "  at the end of the worst period", Average.MEAN, most=1, share=True),
    Column("exact", "all items right", Average.SHARE, share=True),
    *LYING,
    Column("ari", "adjusted Rand index", Average.MEAN),
    Column("nmi", "normalised mutual information", Average.MEAN, most=1),
    Column("advice_liked", "devices like of their own top 10", Average.MEAN, most=1, share=True),
    Column("random_liked", "devices like of random items", Average.FORMULA, share=True),
    Column("clusters_follow", "clusters follow"),
    Column("popularity_share", "variance of popularity between clusters", Average.MEAN, most=1),
    Column("taste_share", "variance of taste between clusters", Average.MEAN, most=1),
    Column("noiseless_ari", "agreement with clusters without noise (ARI)", Average.MEAN),
    Column("top_50", "true top 50 items among the estimated", Average.MEAN, most=1, unless_known="accuracy"),
    Column("rank_correlation", "rank correlation with popularity", Average.MEAN, unless_known="accuracy"),
    Column("held_out", "held out: a share, or likes of each"),
    Column("split_by", "  chosen by"),
    Column("people_left_out", "  people who come after the date"),
    Column("items_unseen", "  items rated after the date only"),
    Column("hit_rate", "hit rate at 10", Average.MEAN, most=1),
    Column("popularity_hit_rate", "  by popularity of training likes", Average.MEAN, most=1),
    Column("random_hit_rate", "  by chance", Average.MEAN, most=1),
    Column("ndcg", "NDCG at 10", Average.MEAN, most=1),
    Column("popularity_ndcg", "  by popularity of training likes", Average.MEAN, most=1),
    Column("random_ndcg", "  by chance", Average.MEAN, most=1),
    Column("evaluated", "users with held-out likes"),
    Column("seconds", "seconds", Average.MEAN),
    Column("devices_per_second", "devices a second", Average.MEAN),
    Column("releases_sha256", "SHA-256 of all releases", Average.NOTHING),
    Column("words_server_sha256", "  of the shares of the server of words", Average.NOTHING),
    Column("seeds_server_sha256", "  of the shares of the server of seeds", Average.NOTHING),
)
"""Columns of a record. In a block model all items of a cluster are equally popular: clusters tell more than lists."""


def _identity(scenario: Scenario) -> tuple[dict[str, Any], str | None]:
    """Return what makes a run the same: the scenario as given, a custom design's digest, and the ratings file's."""
    settings: dict[str, Any] = {name: scenario.flat()[name] for name in sorted(scenario.given())}
    if ":" in scenario.design:
        settings["design"] = scenario.mechanism.query_name(scenario.settings)
    if scenario.ratings is None:
        return settings, None
    settings["ratings"] = str(scenario.ratings.absolute())
    if scenario.features is not None:
        settings["features"] = str(scenario.features.absolute())
    return settings, file_sha256(scenario.ratings, "ratings file")


def _values(out: Path, stored: dict[str, Any], named: NamedCode) -> dict[str, Any]:
    """Return a stored scenario's values, with custom code as it is named again."""
    values = {name: value for name, value in stored.items() if name != "helpers"}
    design, policy = str(stored.get("design", "")), str(stored.get("policy", ""))
    if "@" in design:
        if named.design is None:
            name = design.partition("@")[0]
            raise InputError(
                f"the run in {out} is of a custom design, {name}; name it again: --design package.module:{name}"
            )
        values |= {"design": named.design} | ({"helpers": named.helpers} if named.helpers else {})
    elif named.design not in {None, design} or named.helpers:
        raise InputError(f"the run in {out} is of no custom design; leave --design and --with out")
    if ":" in policy and named.policy is None:
        raise InputError(f"the run in {out} follows a custom policy; name it again: --policy {policy}")
    if named.policy not in {None, policy}:
        raise InputError(f"the run in {out} follows policy {policy or 'one-round'}, not {named.policy}")
    return values


class MainJob(Experiment[Scenario]):
    """Devices that rated items answer an untrusted server in rounds of queries."""

    name = RUN
    kind = Scenario
    columns = COLUMNS
    titled = "design"
    named = ("items", "users", "epsilon", "repeat", "accuracy", "accuracy_predicted", "hit_rate", "seconds")
    accepts_custom = True
    runner = "scenarios.families.main.main_seed:run_seed"
    help = """Run one experiment: devices answer, the server learns item clusters and scores, devices take advice.

Speed flags (--backend, --workers, --devices-per-actor) never change an answer. With --out every round is kept: a run
that was killed or interrupted goes on by blindrec resume FOLDER, or by the same command.
"""

    def check(self, scenario: Scenario) -> ResolvedRun:
        """Refuse what cannot be run, and a policy that cannot be imported; return the run of the first seed."""
        if ":" in scenario.policy:
            import_object(scenario.policy, "policy")
        if scenario.ratings is None:
            return resolve(scenario)
        check(scenario)  # before the file is read
        from scenarios.data.populations import populate, resolved_run  # noqa: PLC0415 (`--help` need not wait for it)

        population = populate(scenario)  # the file is read once, and kept; before devices start it can still be refused
        return resolved_run(population)

    def warn(self, scenario: Scenario, resolved: ResolvedRun, console: Console) -> None:
        """Warn of clusters that no number of users separates, and of what the file of ratings is like."""
        super().warn(scenario, resolved, console)
        if scenario.ratings is not None and scenario.features is not None:
            from scenarios.data.datasets import read_for, tell  # noqa: PLC0415 (`--help` need not wait for it)
            from scenarios.data.side_tables import descriptions_of  # noqa: PLC0415 (as above)

            if described := descriptions_of(scenario, read_for(scenario).item_labels):
                tell(described.remarks, console)
        from scenarios.theory.sufficient_users import warning  # noqa: PLC0415 (`--help` need not wait for it)

        if line := warning(resolved):
            write_line(console, line)

    def mark(self, scenario: Scenario, repeat: int) -> Manifest:
        """Return the mark of a run; custom code counts by its digest."""
        settings, source = _identity(scenario)
        code = code_digest(scenario.policy)
        return Manifest(kind=RUN, scenario=settings, source_sha256=source, code_sha256=code, repeat=repeat)

    def resumed(self, out: Path, mark: Manifest, named: NamedCode) -> Scenario:
        """Return the scenario of a run that was interrupted, with custom code named again."""
        values = _values(out, mark.scenario, named)
        try:
            check(scenario := Scenario.model_validate(values))
        except PolicyError:
            raise
        except ValueError as error:
            why = f" ({error})" if isinstance(error, InputError) and named.design else ""
            where = f"output folder {out}: the scenario in {out / FOLDER / MANIFEST}"
            raise InputError(f"{where} cannot be run{why}; run it in a new folder") from None
        if named.design and (design_name := _identity(scenario)[0]["design"]) != mark.scenario["design"]:
            raise InputError(
                f"design {named.design} is {design_name}, the run in {out} began with {mark.scenario['design']}: its "
                "source, its settings or what travels with it has changed; go on with those, or start in a new folder"
            )
        require_source(out, mark, _identity(scenario)[1], scenario.ratings)
        return scenario

    def work(self, scenario: Scenario) -> float:
        """Predict it: 0.5 microseconds for an answer, and 25 ns for every item that a device rated."""
        # Most of our local mechanisms took less, none half as much again; six times as much is assumed for a curator,
        # who gets ratings as they are, and ten times for a custom mechanism. A file of ratings has a user for every 256
        # bytes, and is run twice.
        users = scenario.users or (10**6 if scenario.ratings is None else size_of(scenario.ratings) // 256)
        a_device = scenario.answers_per_device * (0.5e-6 + 25e-9 * (scenario.rated or 20))
        slower = 10 if ":" in scenario.design else 6 if scenario.mechanism.trust == CURATOR else 1
        return users * a_device * slower * (1 if scenario.ratings is None else 2)
