"""What `blindrec check` and `blindrec.check` do: every check of a mechanism under a trust model."""

from coordinator.protocol.budget import Epsilon
from coordinator.protocol.custom import Mechanism
from coordinator.protocol.errors import InputError
from coordinator.protocol.trust import LOCAL, SHUFFLED, TWO_SERVERS
from scenarios.studies.scrutiny.checks import check_plain
from scenarios.studies.scrutiny.mechanism import Choice, half_and_settings
from scenarios.studies.scrutiny.shuffled_checks import check_shuffled_mechanism
from scenarios.studies.scrutiny.verdicts import Conformance


def check(
    mechanism: str | Mechanism,
    *,
    settings: Choice | None = None,
    epsilon: Epsilon = None,
    trust: str | None = None,
) -> Conformance:
    """Check that a mechanism keeps what every mechanism must keep.

    Parameters
    ----------
    mechanism : str or Mechanism
        Its name, or ``package.module:Name`` of a custom one, or a custom one with its settings.
    settings : dict, optional
        Its settings that are not the default; by default every choice that can be listed is checked.
    epsilon : Fraction, optional
        Where its channel is enumerated, alone [nats]; by default at 0.1, 1 and 3.
    trust : {"local", "shuffled", "two-servers"}, optional
        Under which trust model: ``"shuffled"`` checks what a shuffler makes of its epsilon, ``"two-servers"`` shares
        and the noise of sums; by default that which the mechanism is made for.

    Raises
    ------
    InputError
        If there is no such mechanism, or it cannot be asked so.
    """
    if trust not in (None, LOCAL, SHUFFLED, TWO_SERVERS):
        raise InputError(f"trust is {trust!r}; choose one of {LOCAL}, {SHUFFLED}, {TWO_SERVERS}")
    if trust == SHUFFLED:
        if epsilon is not None:
            raise InputError(f"epsilon is {epsilon}, but a shuffler's bound is checked at several; leave it out")
        return check_shuffled_mechanism(mechanism, settings=settings)
    half, _ = half_and_settings(mechanism)
    if trust is not None and (trust == TWO_SERVERS) != (half.trust == TWO_SERVERS):
        raise InputError(
            f"trust is {trust}, but {half.name} is made for {half.trust}; leave it out, or give another mechanism"
        )
    return check_plain(mechanism, settings=settings, epsilon=epsilon)
