"""A run on a backend: the server's share of it, private devices, and what is stored of every batch."""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from actors.keeper import LedgerClient
from actors.lying import Poison, PoisoningCohort
from actors.second_order.cohort import DEVICES_A_COHORT, Answers, Consent, PrivateCohort
from coordinator.protocol.checked import MOST_DEVICES
from coordinator.protocol.errors import LedgerError
from coordinator.protocol.rating_table import Rows, stacked
from coordinator.server.completion.batches import (
    PRIVATE,
    Batch,
    BatchPlan,
    CompletionOutcome,
    announced,
    public_only,
    start,
)
from coordinator.server.completion.crowd import local_public_users
from coordinator.server.completion.fitting import centre, iterate
from coordinator.server.fleet.cohorts import plan_layout
from scenarios.backends.session import (
    Backend,
    BackendJob,
    Costs,
    DeviceGroup,
    ExperimenterView,
    NoStore,
    Progress,
    SessionResult,
    silent,
)
from scenarios.store.record_log import Codec, Numbers, RecordLog


def _require_booked(stored_batches: Iterable[Batch], book: LedgerClient) -> None:
    """Refuse batches whose releases private devices have not all booked."""
    answers = Answers(0, MOST_DEVICES, book)
    answers.look()
    for batch in stored_batches:
        for device, payload in zip(batch.devices, batch.payloads, strict=True):
            if (answer := answers.get(device)) is None or answer.payload != payload:
                raise LedgerError(
                    f"batch {batch.batch} was answered by private device {device}, whose ledger does not tell so; a "
                    "part of it is missing: put its files back as they were, or start in a new folder"
                )


_PLAIN = ("batch", "mechanism", "weight", "weighed")  # Fields of a batch that are stored as they are


def _tell(batch: Batch) -> Numbers:
    numbers = {
        "query": batch.query_id.hex(),
        "model": batch.model.hex(),
        **{name: getattr(batch, name) for name in _PLAIN},
    }
    sizes = np.array([len(payload) for payload in batch.payloads], np.int64)
    payloads = np.frombuffer(b"".join(batch.payloads), np.uint8)
    return numbers, {"devices": np.array(batch.devices, np.int64), "sizes": sizes, "payloads": payloads}


def _read(numbers: dict[str, Any], arrays: dict[str, Any]) -> Batch:
    ends = np.cumsum(arrays["sizes"]).tolist()
    said = arrays["payloads"].tobytes()
    return Batch(
        query_id=bytes.fromhex(numbers["query"]),
        model=bytes.fromhex(numbers["model"]),
        devices=arrays["devices"].tolist(),
        payloads=[said[start:end] for start, end in zip([0, *ends], ends, strict=False)],
        **{name: numbers[name] for name in _PLAIN},
    )


class KeptBatches(RecordLog[Batch]):
    """The batches of a run; see `scenarios.store.record_log.RecordLog`."""

    codec = Codec(
        noun="batch", number=lambda batch: batch.batch, encode=_tell, decode=_read, require_booked=_require_booked
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CoursePlan:
    """What a course needs to know."""

    server: BatchPlan  # What the server learns
    private: Rows  # What private devices hold
    secret: bytes = field(repr=False)  # Their master secret
    full: bool = False  # The rival in which private users' ratings themselves are released
    poison: Poison | None = None  # What liars among them agreed on; None if nobody lies


def follow(
    plan: CoursePlan, session: Backend, stored_batches: KeptBatches | None = None, progress: Progress = silent
) -> SessionResult[CompletionOutcome]:
    """Run a mechanism, or its rival ``full`` or ``none``."""
    workers = session.workers
    layout = plan_layout(devices=max(plan.private.users, 1), workers=workers, devices_per_actor=None)
    if plan.full:
        with ThreadPoolExecutor(workers) as threads:
            course = _follow_full(plan, threads, workers)
        return SessionResult(outcome=course, costs=Costs(), backend=session.name, layout=layout)

    def finish(course: CompletionOutcome, _: ExperimenterView, costs: Costs) -> SessionResult[CompletionOutcome]:
        return SessionResult(outcome=course, costs=costs, backend=session.name, layout=layout)

    server, crews = plan.server, {}
    cohort: Any = PrivateCohort if plan.poison is None else partial(PoisoningCohort, poison=plan.poison)
    if server.mechanism is not None:
        consent = Consent(mechanisms=frozenset({server.mechanism}), epsilon=server.epsilon, own_h=server.own_h)
        crews[PRIVATE] = DeviceGroup(
            kind=partial(cohort, consent=consent),
            holdings=plan.private,
            bounds=list(plan.private.blocks(DEVICES_A_COHORT)),
            hosts=workers,
        )
    work: BackendJob[Batch, CompletionOutcome, SessionResult[CompletionOutcome]] = BackendJob(
        plan=server,
        device_groups=crews,
        secret=plan.secret,
        layout=layout,
        finish=finish,
        records=NoStore() if stored_batches is None else stored_batches,
        ledger=None if stored_batches is None else stored_batches.ledger,
    )
    return session.run(work, progress)


def _follow_full(plan: CoursePlan, threads: ThreadPoolExecutor, workers: int) -> CompletionOutcome:
    """Let the private users' ratings join the public ones batch by batch, means included: full EM, not private."""
    server, alone = plan.server, local_public_users(plan.server.public, threads, workers)
    model = start(server, alone)
    models = [(0, model.features)]
    for first, stop in server.blocks():
        users = local_public_users(stacked((server.public, plan.private.block(0, stop))), threads, workers)
        mean, counts = centre(users)
        degree = None if model.features.mean_degree is None else users.ratings / users.users
        joined = replace(model, features=replace(model.features, mean=mean, mean_degree=degree), counts=counts)
        model = iterate(joined, users, server.fitting, server.batch_iterations)
        if stop == server.private:
            model = announced(model, users)
        if server.returns_model_after(first, stop):
            models.append((stop, model.features))
    return CompletionOutcome(
        features=model.features,
        model=model,
        models=models,
        answered=server.private,
        alone=public_only(server, alone) if server.beside else None,
    )
