"""A Ray head, reached by its dashboard's job service: every request has a time limit, every failure is one line."""

import logging
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import ray
import requests
from ray.job_submission import JobDetails, JobSubmissionClient

from coordinator.protocol.errors import InputError
from scenarios.cluster.job_log import SilentHeadError
from scenarios.config.files import reason_of

CONNECT, ANSWER = 5.0, 60.0  # Seconds to wait for a connection, and for an answer
_VERSION, _METADATA = _QUICK = ("/api/version", "/api/v0/cluster_metadata")
_REACHED = "RAY_API_SERVER_ADDRESS"
_TOKEN = "set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN_PATH to the cluster's token file"

_NO_AGENT = "No available agent"
_AGENT = (
    "; the head is still starting, or another Ray on its machine holds the port of its agent: submit again in a "
    "minute, then start the head with a free port as --dashboard-agent-listen-port"
)


class _Client(JobSubmissionClient):
    """Ray's client with time limits, without which it would wait for ever."""

    def _do_request(self, method: str, endpoint: str, **more: Any) -> Any:
        wait = CONNECT if endpoint in _QUICK else ANSWER
        return super()._do_request(method, endpoint, timeout=(CONNECT, wait), **more)

    def ask(self, endpoint: str) -> dict[str, Any]:
        """Return the head's answer to a GET request; nothing if it does not know the path."""
        answer = self._do_request("GET", endpoint)
        value = answer.json() if answer.status_code == requests.codes.ok else {}
        return value if isinstance(value, dict) else {}


class Head:
    """A head that answers and accepts our token."""

    def __init__(self, address: str) -> None:
        self.address = _url(address)
        for handler in logging.getLogger("ray").handlers:
            handler.setLevel(logging.ERROR)  # Ray logs every file that it leaves out, and every connection
        with _explained(self.address), _only(self.address):
            try:
                self.client = _Client(self.address)
            except (OSError, LookupError, RuntimeError, TypeError, ValueError) as error:  # all that the client raises
                raise InputError(
                    f"no Ray head answers at {self.address} ({reason_of(error)}); give the URL of its dashboard, port "
                    "8265 if not told otherwise, or start a head there"
                ) from None

    def check_versions(self) -> None:
        """Make sure that the cluster runs the Ray and the Python of this process."""
        with _explained(self.address):
            theirs = str(self.client.ask(_VERSION).get("ray_version"))
            python = str(self.client.ask(_METADATA).get("data", {}).get("pythonVersion", ""))
        if theirs != ray.__version__:
            raise InputError(
                f"Ray is {theirs} on {self.address}, {ray.__version__} here; install the same version on both"
            )
        if python and python.split(".")[:2] != platform.python_version().split(".")[:2]:
            raise InputError(
                f"Python is {python} on {self.address}, {platform.python_version()} here; use the same version on both"
            )

    def submit(
        self,
        entrypoint: str,
        environment: dict[str, Any],
        metadata: dict[str, str],
        resources: dict[str, float] | None = None,
    ) -> str:
        """Send a job and return its submission id."""
        with _explained(self.address):
            try:
                return self.client.submit_job(
                    entrypoint=entrypoint, runtime_env=environment, metadata=metadata, entrypoint_resources=resources
                )
            except (RuntimeError, ValueError) as error:
                remedy = _AGENT if _NO_AGENT in str(error) else ""
                raise InputError(f"Ray at {self.address} does not take the job ({reason_of(error)}){remedy}") from None

    def details(self, job: str) -> JobDetails:
        """Return the head's details of a job."""
        with _explained(self.address, job):
            return self.client.get_job_info(job)

    def log(self, job: str) -> str:
        """Return a job's whole log."""
        with _explained(self.address, job):
            return self.client.get_job_logs(job)

    def stop(self, job: str) -> bool:
        """Ask a job to end; return whether it was running."""
        with _explained(self.address, job):
            return self.client.stop_job(job)


def _url(address: str) -> str:
    url = (address if "://" in address else f"http://{address}").rstrip("/")
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good:
        raise InputError(f"address is {address}; give the URL of a head's dashboard, e.g. http://127.0.0.1:8265")
    return url


@contextmanager
def _only(address: str) -> Iterator[None]:
    """Use the given address, because Ray would prefer those of the environment."""
    before = os.environ.get(_REACHED)
    os.environ[_REACHED] = address
    try:
        yield
    finally:
        if before is None:
            del os.environ[_REACHED]
        else:
            os.environ[_REACHED] = before


@contextmanager
def _explained(address: str, job: str | None = None) -> Iterator[None]:
    """Say in one line what is wrong with the token, the connection to the head, or the job that it is asked about."""
    try:
        yield
    except requests.RequestException as error:
        raise SilentHeadError(f"the head at {address} answers no more ({reason_of(error)})") from None
    except ray.exceptions.RayError as error:  # of authentication, by whatever name this version of Ray has for it
        raise InputError(f"the head at {address} refuses the token ({reason_of(error)}); {_TOKEN}") from None
    except RuntimeError as error:
        if job is None:
            raise
        if "404" not in str(error) and "does not exist" not in str(error):
            raise SilentHeadError(f"the head at {address} fails ({reason_of(error)})") from None
        raise InputError(
            f"job {job} is unknown to the head at {address}; `ray job list` lists those it knows"
        ) from None
