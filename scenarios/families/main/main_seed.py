"""One seed of the main job, from its population to how it came out: the flat record, and the tables of its folder."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from actors.ratings import BlockRatings, StoredRatings
from coordinator.protocol.budget import as_float, as_json
from coordinator.protocol.coins import derive
from coordinator.protocol.mechanism import ELIMINATE
from coordinator.protocol.trust_models import SHUFFLED
from scenarios.backends.selection import InProcess
from scenarios.backends.session import Backend
from scenarios.config.accounts import MEMOIZED
from scenarios.config.custom_kinds import mechanism_with
from scenarios.config.resolve import ResolvedRun
from scenarios.config.scenario import Scenario, TrustSettings
from scenarios.data.populations import Population, liked_share, populate, resolved_run
from scenarios.experiment.experiment import Record, Running
from scenarios.families.main.main_columns import record
from scenarios.families.main.run import TOP, MainResult, run
from scenarios.families.main.run_scores import ranked, ranks
from scenarios.log import write_line
from scenarios.store.journal import Journal, shared_ledger

if TYPE_CHECKING:
    import pandas as pd


LISTED = 100_000  # Devices whose lists are written: of a file's people the first of each, so that more are rare


def items_table(run: MainResult) -> pd.DataFrame:
    """Return the learned items: item, score, standard_error, cluster; public, as devices receive it."""
    import pandas as pd  # noqa: PLC0415 (only where a folder is written)

    model, posterior = run.outcome.model, run.outcome.posterior
    table = pd.DataFrame({"item": run.population.item_labels.astype(str), "score": model.score})
    table = table.assign(standard_error=model.error, cluster=model.cluster)
    if posterior is not None:
        table["doubt"], table["decided"] = posterior.doubt, run.decided
    if (descriptions := run.population.descriptions) and descriptions.titles is not None:
        table.insert(1, "title", descriptions.titles.astype(str))
    if ranked(run.scenario):
        table["rank"], table["popularity"] = ranks(model.score), liked_share(run.population)
    return table


def rounds_table(run: MainResult) -> pd.DataFrame:
    """Return the rounds in order: query, devices asked, and number of answers."""
    import pandas as pd  # noqa: PLC0415 (only where a folder is written)

    state = run.outcome.state
    rows = [
        {
            "round": ask.query.round,
            **({"period": ask.query.period} if ask.query.period else {}),
            "design": ask.query.design,
            "epsilon": as_json(ask.query.epsilon),
            "pool": ask.query.items if ask.query.pool is None else ask.query.pool.size,
            "first_device": ask.first,
            "asked": counts.asked,
            "answered": counts.answered,
            "refused": counts.refused,
            "query_id": ask.query.id.hex(),
        }
        for ask, counts in zip(state.asked, state.counts, strict=True)
    ]
    return pd.DataFrame(rows).astype({"epsilon": float})


def lists_table(run: MainResult) -> pd.DataFrame:
    """Return the lists of at most `LISTED` devices: device, place from 1, item, and its title if a file has it."""
    # The last columns are for other evaluators: a score that falls by one a place, as devices tell nobody by what they
    # rank. In a deployment lists stay on devices; the experimenter knows them, because every device is simulated.
    import pandas as pd  # noqa: PLC0415 (only where a folder is written)

    advice, descriptions = run.advice[:LISTED], run.population.descriptions
    device, rank = np.nonzero(advice >= 0)
    items = advice[device, rank]
    table = pd.DataFrame({"device": device, "place": rank + 1, "item": run.population.item_labels[items].astype(str)})
    if descriptions and descriptions.titles is not None:
        table["title"] = descriptions.titles[items].astype(str)
    split, ratings = run.population.split, run.population.ratings
    assert split is not None and isinstance(ratings, StoredRatings)  # noqa: PT018 (narrows types)
    people = split.train.user_labels[ratings.user[device]].astype(str)
    scores = (advice.shape[1] - rank).astype(float)
    return table.assign(user_id=people, item_id=table["item"], rank=rank + 1, score=scores)


def tables_of(run: MainResult) -> dict[str, pd.DataFrame]:
    """Return the tables of a run's folder by their names: items and rounds; each has the digest of its run."""
    import pandas as pd  # noqa: PLC0415 (only where a folder is written)

    tables = {"items": items_table(run), "rounds": rounds_table(run)}
    if (split := run.population.split) is not None:  # with the likes that were held out, as other evaluators read them
        people, items = split.train.user_labels[split.holdout.owners], split.train.item_labels[split.holdout.items]
        tables["lists"] = lists_table(run)
        tables["holdout"] = pd.DataFrame({"user_id": people.astype(str), "item_id": items.astype(str)})
    for table in tables.values():
        table.attrs["releases_sha256"] = run.outcome.releases_sha256
    return tables


def run_seed(scenario: Scenario, running: Running) -> Record:
    """Run one seed; with a ratings file and finite epsilon the same run without noise follows, to compare with."""
    first: ResolvedRun | None = running.resolved
    console, again = running.console, first is not None and first.scenario.seed == scenario.seed
    resolved = first.of(scenario.seed) if first is not None and (again or scenario.ratings is None) else None
    # a file completes a scenario for each seed anew, since it is split by the seed
    population = populate(resolved.scenario if resolved and scenario.ratings is None else scenario)
    filled = population.scenario
    if scenario.ratings is not None and scenario.rated is None:
        message = f"rated is {filled.rated}, the file's median; it is public in this run"
        write_line(console, message)
    resolved = resolved or resolved_run(population)
    if (custom := resolved.custom) and custom[1].warning:
        write_line(console, custom[1].warning)
    if resolved.agreement.memoized:
        write_line(console, f"warning: {MEMOIZED}")
    elif line := person_warning(population):
        write_line(console, line)
    ledger = None if scenario.ledger is None else shared_ledger(scenario.ledger, filled)
    with _kept(running, filled.seed) as journal:
        if journal and running.out is not None:
            ledger = journal.ledger = ledger or journal.ledger
            journal.check()
        return _run_filled(scenario, running, population, resolved, journal, ledger)


def _run_filled(
    scenario: Scenario,
    running: Running,
    population: Population,
    resolved: ResolvedRun,
    journal: Journal | None,
    ledger: Path | None,
) -> Record:
    filled, ratings = population.scenario, population.ratings
    if running.session.name == "ray" and isinstance(ratings, BlockRatings):
        # This process has nothing else to do while others start: what advice is scored with is loaded or compiled
        nobody = derive(filled.seed, "devices"), np.empty((0, TOP), np.int32)
        threading.Thread(target=ratings.would_like, args=nobody, daemon=True, name="rehearsing").start()
    answers = population.ratings.users * scenario.answers_per_device
    if resolved.asking is not None:
        answers = sum(part.stop - part.first for part in resolved.asking.rounds)
    units = {"done": "answers are in", "unit": "answers"} if answers > population.ratings.users else {}
    with running.progress(answers, filled.seed, **units) as report:
        ran = run(
            scenario,
            running.session,
            devices_per_actor=running.devices_per_actor,
            population=population,
            resolved=resolved,
            progress=report,
            rounds=journal,
            ledger=ledger,
        )
    return Record(
        values=record(ran, _noiseless(ran, running.session)),
        scenario=ran.scenario.again(),
        tables=partial(tables_of, ran),
        failure=ran.outcome.failure,
    )


def person_warning(population: Population) -> str | None:
    """Return a line that warns where a person of a file stands behind several devices, which answer apart; or None."""
    epsilon, person = population.scenario.epsilon, population.person_epsilon()
    if population.copies_max < 2 or epsilon is None or person is None:
        return None
    return (
        f"warning: {population.scenario.users:,} devices are drawn from {population.people:,} people, so that one "
        f"person answers up to {population.copies_max:,} times: a person's epsilon is {as_float(person):,.6g}, not "
        f"{as_float(epsilon):g}. Leave --users out for a device each; or take the result as that of so many other "
        "people, and nobody in the file as protected"
    )


@contextmanager
def _kept(running: Running, seed: int) -> Iterator[Journal | None]:
    """Yield where rounds are kept: the folder's journal, else on Ray one that lasts as long as the run."""
    # On Ray a coordinator may die and be replaced; in this process all end together.
    with ExitStack() as stack:
        out = running.out
        if out is None and running.session.name == "ray":
            out = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="blindrec-")))
        yield None if out is None else stack.enter_context(closing(Journal(out, seed)))


_UNSHUFFLED = {name: field.default for name, field in TrustSettings.model_fields.items() if name != "own_questions"}
"""Settings of a run in which devices answer the server themselves."""


def _noiseless(last: MainResult, session: Backend) -> MainResult | None:
    if last.population.split is None or last.scenario.epsilon is None:
        return None
    scenario = last.resolved.scenario
    changes: dict[str, Any] = dict.fromkeys(("epsilon", "malicious", "attack"))
    if scenario.trust == SHUFFLED:
        # of liars who hide nobody, but where the policy withstands them, too
        counted = {"assume_malicious": scenario.assume_malicious if scenario.policy == ELIMINATE else None}
        changes = {**_UNSHUFFLED, **counted, **changes}
    if last.resolved.asking is None:
        free = scenario.model_copy(update=changes)
        return run(free, InProcess(session.workers), population=replace(last.population, scenario=free))
    # A schedule says its rounds itself, and without a shuffler other people may be asked together
    fields = Scenario.model_fields
    changes |= {name: fields[name].default for name in ("rounds", "answers_per_device")}
    changes["policy"] = mechanism_with(scenario.settings).policies_with()[0]
    return run(scenario.model_copy(update=changes), InProcess(session.workers))
