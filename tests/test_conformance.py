"""Every mechanism that is found keeps what all must keep; a new one is checked without being told."""

from boundary import MechanismContract, every_case, subjects_found

from actors.mechanisms import registered as device_halves
from coordinator.protocol.mechanisms import public_halves
from coordinator.server.mechanisms import server_halves
from scenarios.studies.scrutiny.mechanism import PLAIN, TINY

pytest_generate_tests = every_case


class TestEveryMechanism(MechanismContract):
    """Those of our rooms; some tests are under mark.cluster."""


def test_no_half_is_without_the_others_and_each_is_asked() -> None:
    asked = {subject.query(TINY, PLAIN).design for subject in subjects_found().values()}
    assert asked == set(public_halves()) == set(device_halves())
    assert asked == {name for half in server_halves().values() for name in half.asks}
