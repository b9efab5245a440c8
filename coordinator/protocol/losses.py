"""Other people's libraries: the versions that were tried, and what becomes of a run for each error that Ray can raise.

The site makes its page of errors from it. A test compares both with `ray.exceptions` of the version that is installed.
"""

from functools import cache
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType

from coordinator.protocol.errors import InputError

TESTED = {"numba": ("0.68.1", "0.68.1"), "ray": ("2.57.0", "2.60.0")}
"""The oldest and the newest version that the tests run with, as in constraints.txt, pyproject.toml and the Makefile."""


@cache
def require_tested(name: str) -> None:
    """Refuse a library whose version nobody has tried: a promise such as that of loopback could be broken silently."""
    oldest, newest = TESTED[name]
    try:
        installed = version(name)
    except PackageNotFoundError:
        installed = "not installed"
    if _parts(oldest) <= _parts(installed) <= _parts(newest):
        return
    extras = "[default]" if name == "ray" else ""
    tested = newest if oldest == newest else f"{oldest} to {newest}"
    raise InputError(
        f"{name} is {installed}, blindrec was tested with {tested} and uses what is private to it; "
        f'pip install "{name}{extras}=={newest}"'
    )


def _parts(release: str) -> tuple[int, ...]:
    """Return the numbers of a release in their order; none for what is no release, such as a nightly build."""
    parts = release.split(".")
    return tuple(map(int, parts)) if all(part.isdecimal() for part in parts) else ()


LOST = "lost"
"""A process, a node or an object is gone: it is asked or started again, and after eight times a line ends the run."""
ENDS = "ends"  # Nothing that is asked again would help: a line ends the run at once, and what was kept can be resumed
WAITS = "waits"  # Time is up: whoever gave the time goes on waiting, or devices take their keeper for lost
INSIDE = "inside"
"""Code raised an error in another process: ours is raised as it was raised there, any other one is a fault."""
FAULT = "fault"  # A fault of ours, or of a part of Ray that blindrec does not use: a trace, and exit code 1

_NAMES = {
    LOST: (
        "RayActorError ActorDiedError ActorUnavailableError ActorUnschedulableError TaskUnschedulableError "
        "OutOfMemoryError WorkerCrashedError NodeDiedError LocalRayletDiedError ObjectLostError "
        "ObjectFetchTimedOutError ObjectFreedError ObjectReconstructionFailedError OwnerDiedError "
        "ReferenceCountingAssertionError PlasmaObjectNotAvailable RpcError"
    ),
    ENDS: (
        "AuthenticationError ObjectStoreFullError OutOfDiskError RuntimeEnvSetupError ActorPlacementGroupRemoved "
        "TaskPlacementGroupRemoved"
    ),
    WAITS: "GetTimeoutError",
    INSIDE: "RayTaskError",
    FAULT: (
        "ActorAlreadyExistsError ActorHandleNotFoundError AsyncioActorExit CrossLanguageError "
        "ObjectRefStreamEndOfStreamError OufOfBandObjectRefSerializationException PendingCallsLimitExceeded "
        "RayCgraphCapacityExceeded RayChannelError RayChannelTimeoutError RayDirectTransportError RayError "
        "RaySystemError StreamingGeneratorReplayInconsistentError TaskCancelledError UnserializableException "
        "UserCodeException"
    ),
}
FATES = {name: fate for fate, names in _NAMES.items() for name in names.split()}
"""The fate of each error of `ray.exceptions`."""
MEMORY = "OutOfMemoryError"  # Ray's error after it killed processes because its node had too little memory left


def errors(exceptions: ModuleType, *fates: str) -> tuple[type[Exception], ...]:
    """Return the errors of `ray.exceptions`, the module that is given, that have one of these fates."""
    require_tested("ray")
    names = [name for name, fate in FATES.items() if fate in fates and hasattr(exceptions, name)]  # old ones have fewer
    return tuple(getattr(exceptions, name) for name in names)


def reason(error: Exception) -> str:
    """Return in one line of at most some 250 characters which error this is and what Ray says of it."""
    message = " ".join(str(error).split())
    # Ray's text about memory begins with what was short and goes on for two pages; others end with why.
    short = message.partition(" OOM kill reason")[0][:200] if MEMORY in type(error).__name__ else message[-200:]
    return f"{type(error).__name__}: {short}"


def remedy(error: Exception) -> str:
    """Return what may help before a run is resumed."""
    return "free or add memory, or lower workers" if MEMORY in type(error).__name__ else "add a node"
