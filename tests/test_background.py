"""The suite in the background, where a shell lets it ignore SIGINT: its tests of Ctrl-C must not depend on that."""

import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

ASK = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"


@pytest.fixture
def background() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGINT, before)


def heard() -> str:
    """What a new process says of whether SIGINT reaches it."""
    return subprocess.run([sys.executable, "-c", ASK], capture_output=True, text=True, check=True).stdout


def test_ctrl_c_reaches_tests_and_their_children(background: None, request: pytest.FixtureRequest) -> None:
    assert heard() == "False\n"
    signal.raise_signal(signal.SIGINT)  # nothing happens
    request.getfixturevalue("interruptible")
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    assert heard() == "True\n"
