"""A Ray head, reached by Ray's own client of jobs: every request has a time limit, every failure is one line."""

import logging
import os
import time
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
_REACHED = "RAY_API_SERVER_ADDRESS"  # Ray's client prefers it to the address that it is given
_TOKEN = "set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN_PATH to the cluster's token file"
_NO_AGENT, AGENT = "No available agent", 30.0  # Ray's words, and seconds that a head which has just started gets
_AGENT = (
    "; the head is still starting, or another Ray on its machine holds the port of its agent: submit again in a "
    "minute, then start the head with a free port as --dashboard-agent-listen-port"
)


class _Client(JobSubmissionClient):
    def _do_request(self, method: str, endpoint: str, **more: Any) -> Any:
        wait = CONNECT if endpoint == "/api/version" else ANSWER
        return super()._do_request(method, endpoint, timeout=(CONNECT, wait), **more)


class Head:
    """A head that answers and accepts our token."""

    def __init__(self, address: str) -> None:
        self.address = url = _url(address)
        for handler in logging.getLogger("ray").handlers:
            handler.setLevel(logging.ERROR)  # Ray logs every file that it leaves out, and every connection
        before = os.environ.get(_REACHED)
        os.environ[_REACHED] = url
        try:
            with self._explained():
                self._client = _Client(url)
        except (SilentHeadError, OSError, LookupError, RuntimeError, TypeError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(
                f"no Ray head answers at {url} ({reason_of(error)}); give the URL of its dashboard, port 8265 if not "
                "told otherwise, or start a head there"
            ) from None
        finally:
            os.environ.update({} if before is None else {_REACHED: before})
            if before is None:
                del os.environ[_REACHED]

    def submit(
        self, entrypoint: str, environment: dict[str, Any], metadata: dict[str, str], node: str | None = None
    ) -> str:
        """Send a job, to a node where one is named, and return its submission id."""
        resources = {f"node:{node}": 0.001} if node else None  # a little of the resource that each node has alone
        job: dict[str, Any] = {"entrypoint": entrypoint, "runtime_env": environment, "metadata": metadata}
        end = time.monotonic() + AGENT
        while True:
            with self._explained():
                try:
                    return self._client.submit_job(**job, entrypoint_resources=resources)
                except (RuntimeError, ValueError) as error:
                    starting = _NO_AGENT in str(error)
                    if not starting or time.monotonic() >= end:
                        why = f"{reason_of(error)}){_AGENT if starting else ''}"
                        raise InputError(f"Ray at {self.address} does not take the job ({why}") from None
            time.sleep(1.0)

    def details(self, job: str) -> JobDetails:
        """Return the head's details of a job."""
        with self._explained(job):
            return self._client.get_job_info(job)

    def log(self, job: str) -> str:
        """Return a job's whole log."""
        with self._explained(job):
            return self._client.get_job_logs(job)

    def stop(self, job: str) -> bool:
        """Ask a job to end; return whether it was running."""
        with self._explained(job):
            return self._client.stop_job(job)

    @contextmanager
    def _explained(self, job: str | None = None) -> Iterator[None]:
        """Say in one line what is wrong with the token, the connection, or the job that the head is asked about."""
        try:
            yield
        except requests.RequestException as error:
            raise SilentHeadError(f"the head at {self.address} answers no more ({reason_of(error)})") from None
        except ray.exceptions.RayError as error:  # of authentication, by whatever name this version of Ray has for it
            raise InputError(f"the head at {self.address} refuses the token ({reason_of(error)}); {_TOKEN}") from None
        except RuntimeError as error:
            if job is None:
                raise
            if "404" not in str(error) and "does not exist" not in str(error):
                raise SilentHeadError(f"the head at {self.address} fails ({reason_of(error)})") from None
            raise InputError(
                f"job {job} is unknown to the head at {self.address}; `ray job list` lists those it knows"
            ) from None


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
