"""Starting, joining, watching and ending Ray instances, which happens only here."""

from __future__ import annotations

import logging
import os
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import ray

from coordinator.protocol.errors import BlindrecError, InputError, LostError
from coordinator.server.fleet.calls import ENDS
from scenarios.backends.on_ray import OnRay, cpus_of_cluster
from scenarios.backends.sending import EXCLUDES, own_packages
from scenarios.config.files import reason_of
from scenarios.config.signals import BAD_INPUT, end_now, interrupt_main, same_handlers, say
from scenarios.log import step

_SHOWN = 3


def report_scraped() -> None:
    """Say where a scraper finds the run's metrics: those of all living nodes, the coordinator's among them."""
    nodes: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call] # Ray gives it no types
    living = [(node["NodeManagerAddress"], node["MetricsExportPort"]) for node in nodes if node["Alive"]]
    places = [f"http://{host}:{port}/metrics" for host, port in living]
    more = f" and {len(places) - _SHOWN} nodes more" if len(places) > _SHOWN else ""
    say(f"metrics (ray_blindrec_...) are scraped at {', '.join(places[:_SHOWN])}{more}")


EVERY = 1.0  # Seconds between two connection attempts
REFUSALS = 5  # Refused connections in a row after which a head counts as dead
GRACE = 2.0  # Seconds that the main thread then has to end by itself, before the process exits
_ANSWER = 5.0
_MARGIN = 10.0
_RAYS_OWN = "RAY_gcs_rpc_server_reconnect_timeout_s"
"""Ray's setting: seconds after which it aborts a driver whose head is gone. Users whose heads restart raise it."""


class HeadWatch:
    """Connects to the head's port again and again during a run, and ends the run if nothing listens there any more."""

    # Only refused connections count: a busy head refuses none, and a broken link brings no refusal. The main thread is
    # interrupted, so that runs in other threads are not watched.

    def __init__(self, address: str) -> None:
        self._why = f"the Ray head at {address} died"
        host, _, port = address.rpartition(":")
        self._at = (host.strip("[]"), int(port))
        self._looking, self._ending = threading.Event(), threading.Event()
        self._died = False
        self._thread = threading.Thread(target=self._watch, daemon=True, name="head")

    def __enter__(self) -> HeadWatch:
        if threading.current_thread() is threading.main_thread():
            self._thread.start()
        return self

    def stop(self) -> None:
        """Stop watching, because the instance is about to end."""
        self._looking.set()

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        self.stop()
        self._ending.set()
        if self._thread.is_alive():
            self._thread.join()
        if self._died and error is not None:
            raise LostError(self._why) from None

    def _watch(self) -> None:
        refused, most = 0, _patience()
        while refused < most:
            if self._looking.wait(EVERY):
                return
            refused = refused + 1 if self._refuses() else 0
        self._died = True
        interrupt_main()
        if not self._ending.wait(GRACE):
            end_now(self._why, BAD_INPUT)

    def _refuses(self) -> bool:
        try:
            socket.create_connection(self._at, timeout=_ANSWER).close()
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
        return False


def _patience() -> float:
    """Return how many connections may be refused; with Ray's setting they take nearly as long as it allows."""
    try:
        return max(REFUSALS, float(os.environ[_RAYS_OWN]) - _MARGIN)
    except (KeyError, ValueError):
        return REFUSALS


OBJECT_STORE = 512 * 2**20
"""Smallest object store of a local instance [bytes]; releases are small and freed once they are added up."""
_WAIT_FOR_HEAD = 5.0
_ATTEMPTS, _PAUSE = 20, 0.1
_NOT_JOINED: tuple[type[Exception], ...] = (ConnectionError, RuntimeError, ValueError, *ENDS)
_SETTINGS = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
_HTTP2_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _SETTINGS
"""First bytes of an HTTP/2 client, which Ray's head understands; the answer starts with a frame of type SETTINGS."""
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
_QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
"""Ray sends no usage statistics; and devices use no GPU, about which versions before 2.56 warn at every start."""


@contextmanager
def on_ray(*, address: str | None, workers: int | None, metrics: bool = False) -> Iterator[OnRay]:
    """Join the Ray instance at ``address``, or start one that only this machine can reach and end it at exit."""
    _require_none_here()
    target = address or os.environ.get("RAY_ADDRESS")
    for name, value in (_ONE_THREAD | _QUIET).items():
        os.environ.setdefault(name, value)
    if not target and workers and workers > (here := os.cpu_count() or 1):
        say(
            f"workers is {workers}, but this machine has {here} CPUs: so many processes take minutes to start and gain "
            f"nothing over --workers {here}"
        )
    short = None if target else short_folder()
    with _without_folder(short), nullcontext() if target else _alone():
        with step(f"joining Ray at {target}" if target else "Ray starts"):
            if target:
                _join(target, ship_code=address is not None)
                session = None
            else:
                session = _start(workers or os.cpu_count() or 1, short, measured=metrics)
        with _without_folder(session), HeadWatch(_head()) as watch:
            try:
                cpus = int(cpus_of_cluster())
                if target and not cpus:
                    raise InputError(f"Ray at {target} has no CPU for a single worker; add a node to it")
                if workers and workers > cpus:
                    raise InputError(
                        f"workers is {workers}, but Ray at {target} has {cpus} CPUs; ask for that many at most"
                    )
                if metrics:
                    report_scraped()
                yield OnRay(workers or cpus, metrics=metrics, most=workers is None)
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
    """Refuse to run if somebody else has started Ray in this process, because it would end with the run."""
    if ray.is_initialized():
        raise InputError("Ray runs in this process already, and would end with the run; call ray.shutdown() first")


def _alone() -> AbstractContextManager[None]:
    """Make a started instance unreachable for others; see `scenarios.backends.ray_private.alone`."""
    from scenarios.backends.ray_private import alone  # noqa: PLC0415 (a cluster that is joined needs nothing private)

    return alone()


_SOCKET = "/ray/session_2026-11-29_00-00-00_000000_4194304/sockets/plasma_store"  # Below a folder for temporary files
_LONGEST_SOCKET = 103  # Bytes of a socket's path that every system takes
_SHORT = Path("/tmp")  # Each run makes a folder of its own there, which no other user can enter


def short_folder() -> Path | None:
    """Return a new folder for sockets where their paths below that of temporary files are too long, else None."""
    name = next((name for name in ("RAY_TMPDIR", "TMPDIR") if name in os.environ), None)  # as Ray looks them up
    if name is None or len(os.fsencode(os.environ[name] + _SOCKET)) <= _LONGEST_SOCKET:
        return None
    try:
        return Path(tempfile.mkdtemp(prefix="blindrec-", dir=_SHORT))
    except OSError as error:
        most = _LONGEST_SOCKET - len(_SOCKET)
        raise InputError(
            f"{name} is {os.environ[name]}, too long for Ray's sockets, and {_SHORT} takes no folder "
            f"({error.strerror}); set RAY_TMPDIR to a folder of at most {most} characters, or take --backend inprocess"
        ) from None


def _start(workers: int, folder: Path | None, *, measured: bool = False) -> Path:
    """Start an instance, in a folder where one is given; return the folder of its session."""
    from scenarios.backends.ray_private import local_settings, on_loopback  # noqa: PLC0415 (as above)

    try:
        with same_handlers(), on_loopback():
            ray.init(
                address="local",
                num_cpus=workers,
                object_store_memory=OBJECT_STORE,
                include_dashboard=False,
                log_to_driver=False,
                logging_level=logging.ERROR,
                _temp_dir=None if folder is None else str(folder),
                **local_settings(measured=measured),
            )
    except InputError:  # which is a ValueError, too
        raise
    except Exception as error:
        if not isinstance(error, _NOT_JOINED) and type(error) is not Exception:  # such as for a node that is late
            raise
        raise InputError(
            f"Ray does not start on this machine ({reason_of(error)}); take --backend inprocess, or try again when "
            "the machine is less busy"
        ) from None
    here = ray.get_runtime_context()
    return Path(here.get_temp_dir()) / here.get_session_name()


@contextmanager
def _without_folder(session: Path | None) -> Iterator[None]:
    """Remove the folder of a session, of an instance that this process started, at the end of the ``with`` block."""
    # Its logs may say why if something was lost or our own code failed: then it is left.
    try:
        yield
    except LostError:
        raise
    except (BlindrecError, KeyboardInterrupt):
        _remove(session)
        raise
    _remove(session)


def _remove(session: Path | None) -> None:
    """Remove a folder, and repeat that if processes that are just ending have written there meanwhile."""
    for _ in range(_ATTEMPTS):
        if session is None or not session.exists():
            return
        shutil.rmtree(session, ignore_errors=True)
        time.sleep(_PAUSE)


def _join(address: str, *, ship_code: bool) -> None:
    _knock(address)
    environment: dict[str, Any] = {"env_vars": _ONE_THREAD}
    if ship_code:  # without compiled files, so that code that the cluster already holds is not sent again
        environment |= {"py_modules": own_packages(), "excludes": [*EXCLUDES]}
    try:
        with same_handlers():
            ray.init(address=address, runtime_env=environment, log_to_driver=False, logging_level=logging.ERROR)
    except _NOT_JOINED as error:
        raise InputError(
            f"Ray address {address} cannot be joined ({reason_of(error)}); start a head there, set "
            "RAY_AUTH_MODE=token and RAY_AUTH_TOKEN_PATH if it asks for a token, or leave the address out"
        ) from None


def _knock(address: str) -> None:
    """Fail at once if no head of Ray listens at the address; Ray itself would try for minutes."""
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
