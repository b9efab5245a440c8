"""What becomes of a run for each error that Ray can raise, on both sides; by name, so that nothing here loads Ray.

docs/survival.md has the same table. A test compares both with `ray.exceptions` of the version that is installed.
"""

from __future__ import annotations

from types import ModuleType

from coordinator.protocol.versions import require_tested

LOST = "lost"
"""A process, a node or an object is gone: it is asked or started again, and after eight times a line ends the run."""
ENDS = "ends"
"""Nothing that is asked again would help: a line ends the run at once, and what was kept can be resumed."""
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
MEMORY = "OutOfMemoryError"
"""Ray's error after it killed processes because its node had too little memory left."""


def errors(exceptions: ModuleType, *fates: str) -> tuple[type[Exception], ...]:
    """Return the errors of `ray.exceptions`, the module that is given, that have one of these fates."""
    require_tested("ray")
    names = [
        name for name, fate in FATES.items() if fate in fates and hasattr(exceptions, name)
    ]  # older ones have fewer
    return tuple(getattr(exceptions, name) for name in names)


def reason(error: Exception) -> str:
    """Return in one line of at most some 250 characters which error this is and what Ray says of it."""
    words = " ".join(str(error).split())
    # Ray's text about memory begins with what was short and goes on for two pages; others end with why.
    short = words.partition(" OOM kill reason")[0][:200] if MEMORY in type(error).__name__ else words[-200:]
    return f"{type(error).__name__}: {short}"


def remedy(error: Exception) -> str:
    """Return what may help before a run is resumed."""
    return "free or add memory, or lower workers" if MEMORY in type(error).__name__ else "add a node"
