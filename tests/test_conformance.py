"""Every mechanism that is found keeps what all must keep; a new one is checked without being told."""

from boundary import MechanismContract, every_case, subjects_found

from coordinator.protocol.mechanisms import by_query, mechanisms
from scenarios.studies.scrutiny.mechanism_under_test import PLAIN, TINY

pytest_generate_tests = every_case


class TestEveryMechanism(MechanismContract):
    """Those of our rooms; some tests are under mark.cluster."""


def test_each_mechanism_is_asked() -> None:
    asked = {subject.query(TINY, PLAIN).design for subject in subjects_found().values()}
    assert asked == set(by_query()) == {name for kind in mechanisms().values() for name in kind().asks}
