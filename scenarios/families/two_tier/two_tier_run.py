"""A run on a backend: the server's share of it, private devices, and what is stored of every batch."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from actors.lying import Poison, PoisoningCohort
from actors.private_cohort import DEVICES_A_COHORT, PrivateCohort
from coordinator.protocol.agreement import Agreement
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
from scenarios.store.journal import AnsweredRange, require_booked
from scenarios.store.record_log import Codec, Numbers, RecordLog

_DIGESTS, _PLAIN = ("query_id", "model"), ("batch", "mechanism", "weight", "weighed")
"""Fields of a batch that are stored as hexadecimal, and as they are."""


def _encode(batch: Batch) -> Numbers:
    numbers = {name: getattr(batch, name) for name in _PLAIN} | {name: getattr(batch, name).hex() for name in _DIGESTS}
    return numbers, {"devices": batch.devices, "payloads": batch.payloads}


def _decode(numbers: dict[str, Any], arrays: dict[str, Any]) -> Batch:
    digests: dict[str, Any] = {name: bytes.fromhex(numbers[name]) for name in _DIGESTS}
    return Batch(**digests, **{name: numbers[name] for name in _PLAIN}, **arrays)


def _answered(batch: Batch) -> AnsweredRange:
    first, stop = (int(batch.devices[0]), int(batch.devices[-1]) + 1) if batch.devices.size else (0, 0)
    return AnsweredRange(f"batch {batch.batch}", batch.query_id, first, stop, batch.devices.size)


class KeptBatches(RecordLog[Batch]):
    """The batches of a run; see `scenarios.store.record_log.RecordLog`."""

    codec = Codec(
        noun="batch",
        number=lambda batch: batch.batch,
        encode=_encode,
        decode=_decode,
        require_booked=lambda batches, book: require_booked(map(_answered, batches), book),
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
        agreement = Agreement(designs=(server.mechanism,), budget=server.epsilon, answers=1)
        crews[PRIVATE] = DeviceGroup(
            kind=partial(cohort, agreement=agreement, own_h=server.own_h),
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
