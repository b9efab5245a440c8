"""Ray: the only place that starts or joins an instance, and ends what it started."""

from __future__ import annotations

import logging
import os
import pickle
import socket
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import ray

from actors.host import advice_permit, start_host
from actors.hosted_keeper import start_keeper
from actors.keeper import Books
from actors.ratings import Ratings
from coordinator.protocol.arrays import Indices2
from coordinator.protocol.errors import BlindrecError, InputError
from coordinator.protocol.messages import Model
from coordinator.server.fleet.aggregator import CPUS
from coordinator.server.fleet.cohorts import Cohorts
from coordinator.server.fleet.retrying import again, got
from scenarios.endings import same_handlers
from scenarios.head_watch import HeadWatch
from scenarios.loopback import alone, without_folder
from scenarios.own.halves import packages_of, travelling
from scenarios.policies import packages_of_policy
from scenarios.session import Job, Progress, Ran
from scenarios.submission.sending import EXCLUDES, own_packages
from scenarios.supervising import POLL, conducted, cpus_of_cluster, patient, room_for
from scenarios.worker_threads import A, R

MOST_ACTORS = 64
"""Ray actors that embody devices at most (a process each, some 100 MB); further cohorts share them."""
BY_VALUE = 64 * 2**10
"""Bytes of ratings up to which every host gets its own copy; Ray stores larger arguments once."""
OBJECT_STORE = 512 * 2**20
"""Bytes of object store of a local instance, at least; releases are small and freed as they are added up."""
UNREACHABLE = "devices cannot be reached"
_CPU_SHARE = 0.5
_WAIT_FOR_HEAD = 5.0
_SETTINGS = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
_HTTP2_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _SETTINGS
"""What a client of HTTP/2, as Ray's head speaks it, says first; the answer starts with a frame of type SETTINGS."""
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


class OnRay:
    """Devices as Ray actors, the server as a coordinator actor and its aggregators.

    Parameters
    ----------
    workers : int
        Device blocks computed at the same time.
    """

    name = "ray"

    def __init__(self, workers: int) -> None:
        self.workers = workers

    def run(self, job: Job, *, advised: int, top: int, progress: Progress) -> Ran:
        """Run a job; see `scenarios.session.Session.run`."""
        _ship(job)
        ratings, keeper = _shared(job.ratings), start_keeper(job.ledger)
        hosts, permit = _start_hosts(job, ratings, keeper, self.workers), advice_permit(job.secret)
        each = len(hosts) and -(-len(job.layout.cohorts) // len(hosts))
        behind = [hosts[index // each] for index in range(len(job.layout.cohorts))]
        cohorts = Cohorts(bounds=job.layout.cohorts, hosts=behind)
        needs = len(hosts) * _cpus_each(self.workers, len(hosts)) + CPUS * job.layout.workers
        try:
            if query := job.first_query():
                with job.naming_policy():
                    again(lambda: room_for([host.warm_up.remote(query) for host in hosts], needs), UNREACHABLE)
            served = conducted(job, cohorts, keeper, progress, needs)
            advice = again(lambda: _advise(cohorts, served.outcome.model, advised, top, permit, needs), UNREACHABLE)
        finally:
            for actor in (*hosts, keeper.actor):
                ray.kill(actor)
            del ratings  # until here a host that is started anew can read them
        return Ran(
            outcome=served.outcome,
            seconds=served.seconds,
            advice=advice,
            actors=len(hosts),
            spent=served.spent,
            retries=served.retries,
            restarts=served.restarts,
        )

    def each(self, function: Callable[[A], R], arguments: Sequence[A]) -> Iterator[tuple[int, R]]:
        """Yield results of Ray tasks as they are completed; see `scenarios.session.Session.each`.

        Where somebody stops early, tasks under way are left to end with the session: cancelling one that is just done
        makes Ray abort the whole driver ("Tried to complete task that was not pending", seen with Ray 2.60).
        """
        _by_value(travelling())
        task: Any = ray.remote(num_cpus=1)(function)
        waiting = iter(enumerate(arguments))
        flying: dict[Any, int] = {}
        while True:
            while len(flying) < self.workers and (numbered := next(waiting, None)):
                flying[task.remote(numbered[1])] = numbered[0]
            if not flying:
                return
            for one in ray.wait(list(flying), num_returns=1, timeout=POLL)[0]:
                result = got(one)
                yield flying.pop(one), result


def _ship(job: Job) -> None:
    """Let a user's own policy and mechanism travel with their code: no module need be found where they are used."""
    own = job.learner.own
    _by_value(packages_of_policy(job.policy) | (packages_of(type(own.mechanism), own.helpers) if own else set()))


def _by_value(packages: Iterable[str]) -> None:
    for package in packages:
        if package in sys.modules:
            ray.cloudpickle.register_pickle_by_value(sys.modules[package])  # type: ignore[no-untyped-call] # no types


def _shared(ratings: Ratings) -> Any:
    """Return ratings as hosts get them: small ones by value, others stored once for all."""
    return ratings if len(pickle.dumps(ratings)) < BY_VALUE else ray.put(ratings)


@contextmanager
def quiet() -> Iterator[None]:
    """Keep Ray's warning that arguments of restartable actors must stay in the object store: they do."""
    sys.stderr.flush()
    kept = os.dup(2)
    with open(os.devnull, "wb") as nowhere:  # noqa: PTH123 (a file descriptor is needed)
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _start_hosts(job: Job, ratings: Any, keeper: Books, workers: int) -> list[Any]:
    bounds = job.layout.cohorts
    each = -(-len(bounds) // min(len(bounds), MOST_ACTORS))
    groups = [bounds[start : start + each] for start in range(0, len(bounds), each)]
    cpus = _cpus_each(workers, len(groups))
    with quiet():
        common = (job.secret, job.budget, cpus, keeper, job.absence, job.learner.own)
        return [start_host(group, ratings, *common) for group in groups]


def _cpus_each(workers: int, hosts: int) -> float:
    """Return the CPUs that a host of devices sets aside."""
    return int(min(1.0, _CPU_SHARE * workers / max(hosts, 1)) * 1000) / 1000


def _advise(cohorts: Cohorts, model: Model, advised: int, top: int, permit: bytes, needs: float) -> Indices2:
    shared = ray.put(model)
    parts = [
        host.recommend.remote(shared, first, min(stop, advised), top, permit)
        for (first, stop), host in zip(cohorts.bounds, cohorts.hosts, strict=True)
        if first < advised
    ]
    return np.concatenate(patient(parts, needs)) if parts else np.empty((0, top), np.int32)


@contextmanager
def on_ray(*, address: str | None, workers: int | None) -> Iterator[OnRay]:
    """Join the Ray instance at ``address``, or start one that only this machine reaches; end at exit what was started.

    Parameters
    ----------
    address : str or None
        ``host:port`` of a running head, or ``"auto"``. None: the job's own cluster inside a Ray job, else a new
        local instance.
    workers : int or None
        Device blocks computed at the same time; default: the instance's CPUs.

    Yields
    ------
    OnRay

    Raises
    ------
    InputError
        If nothing answers at the address, the workers are not there, or this process has joined a Ray already.
    LostError
        If Ray's head died meanwhile.
    """
    _require_none_here()
    wanted = address or os.environ.get("RAY_ADDRESS")
    os.environ.update({name: value for name, value in _ONE_THREAD.items() if name not in os.environ})
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    with nullcontext() if wanted else alone():
        if wanted:
            _join(wanted, ship_code=address is not None)
            session = None
        else:
            session = _start(workers or os.cpu_count() or 1)
        with without_folder(session), HeadWatch(_head()) as watch:
            try:
                cpus = int(cpus_of_cluster())
                if wanted and not cpus:
                    raise InputError(f"Ray at {wanted} has no CPU for a single worker; add a node to it")
                if workers and workers > cpus:
                    raise InputError(
                        f"workers is {workers}, but Ray at {wanted} has {cpus} CPUs; ask for that many at most"
                    )
                yield OnRay(workers or cpus)
            except ray.exceptions.RayTaskError as error:
                if isinstance(error.cause, BlindrecError):
                    raise error.cause from None
                raise
            finally:
                watch.stop()
                ray.shutdown()


def _head() -> str:
    """Return the address of the head that this process has joined or started."""
    return str(ray.get_runtime_context().gcs_address)


def _require_none_here() -> None:
    """Refuse to run where somebody else's Ray runs in this process: it would end with the run."""
    if ray.is_initialized():
        raise InputError("Ray runs in this process already, and would end with the run; call ray.shutdown() first")


def _start(workers: int) -> Path:
    """Start an instance; return the folder of its session."""
    with same_handlers():
        ray.init(
            address="local",
            num_cpus=workers,
            object_store_memory=OBJECT_STORE,
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
    here = ray.get_runtime_context()
    return Path(here.get_temp_dir()) / here.get_session_name()


def _join(address: str, *, ship_code: bool) -> None:
    _knock(address)
    environment: dict[str, Any] = {"env_vars": _ONE_THREAD}
    if ship_code:  # without what compilers left there, so that the code that a cluster holds already is not sent again
        environment |= {"py_modules": own_packages(), "excludes": [*EXCLUDES]}
    try:
        with same_handlers():
            ray.init(address=address, runtime_env=environment, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, RuntimeError, ValueError) as error:
        line = str(error).strip().splitlines()[0]
        raise InputError(
            f"Ray address {address} cannot be joined ({line}); start a head there, set RAY_AUTH_MODE=token and "
            "RAY_AUTH_TOKEN_PATH if it asks for a token, or leave the address out"
        ) from None


def _knock(address: str) -> None:
    """Fail at once where nothing listens, or something else does; Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host:
        return
    try:
        with socket.create_connection((host, int(port)), timeout=_WAIT_FOR_HEAD) as line:
            if "RAY_USE_TLS" in os.environ:
                return
            line.sendall(_HTTP2_HELLO)
            answer = line.recv(len(_SETTINGS))
    except (OSError, ValueError, OverflowError) as error:
        raise InputError(
            f"Ray address {address} does not answer ({error}); give the host:port of a running head, or leave it out "
            "to start Ray on this machine"
        ) from None
    if answer[3:4] != _SETTINGS[3:4]:
        raise InputError(
            f"Ray address {address} is no Ray head's, something else listens there; give a head's host:port"
        )
