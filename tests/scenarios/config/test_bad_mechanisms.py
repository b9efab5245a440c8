"""A class that goes wrong gives one line that names it, its method and the round; earlier rounds are kept."""

from __future__ import annotations

import re
import threading
from typing import Any

import foreign_bad as bad
import pytest
from foreign_jobs import EPSILON, WORLD, job

from coordinator.protocol.custom import Mechanism, MechanismError
from coordinator.protocol.errors import InputError, PolicyError
from scenarios.backends.selection import InProcess
from scenarios.config.admission import admitted_for
from scenarios.families.main.run import MainResult, run_job

DEVICES = {
    bad.Raises: r"method sketch, round 0: it raised ValueError in line \d+; its text stays on the device",
    bad.RaisesByName: r"method sketch, round 0: it raised an error of its own in line \d+; its text stays on",
    bad.NamesByType: r"method sketch, round 0: it returned no array; return an array of whole numbers",
    bad.NamesByDtype: r"method sketch, round 0: it returned an array of no numbers; return an array of whole numbers",
    bad.WrongShape: r"method sketch, round 0: it returned shape \(1, 1\); return \(1,\) for this block",
    bad.WrongDtype: r"method sketch, round 0: it returned an array of float64; return an array of whole numbers",
    bad.Outside: r"method sketch, round 0: some of its values lie outside 0 to 40",
    bad.NeverEnds: r"method sketch, round 0: it did not end within 0.5 s; make it faster, or set the class's seconds",
    bad.TooManyOnes: r"method sketch, round 0: a sketch has more ones than the channel's 1",
    bad.CountsFloats: r"method count, round 0: it returned no array of whole numbers in one dimension",
}
SERVERS = {
    bad.AsksNothing: r"method query, round 0: its question names neither outputs, from 2 on, nor bits",
    bad.AsksAnything: r"method query, round 0: it returned a int; return a Question",
    bad.OtherChannel: r"method channel, round 0: a MatrixChannel of 2 outputs is none of a question of 41 outputs",
    bad.NoDistribution: r"method channel, round 0: probabilities of a channel's row sum to 2;",
    bad.EstimatesFewer: r"method estimate, round 0: it returned shapes \(19,\) and \(19,\); return \(20,\), one",
    bad.NoError: r"method estimate, round 0: some values are not finite, or some standard errors not above 0",
    bad.SamplesNonsense: r"method sampler, round 0: it draws no \d bits a device",
}


def ran(mechanism: Mechanism, **how: Any) -> MainResult:
    """What a run in this process brings."""
    return run_job(job(mechanism, **how), InProcess(2), advised=0, top=1, progress=lambda _: None)


def line_of(error: pytest.ExceptionInfo[PolicyError]) -> str:
    """The one line of an error; nothing of a rating is in it."""
    told = str(error.value)
    assert "\n" not in told
    assert "rated" not in told.replace("generated", "").lower()
    assert not re.search(r"\[[\d ]+\]|True|False", told)
    return told


@pytest.mark.parametrize("kind", DEVICES)
def test_what_devices_cannot_use_is_told_in_a_line(kind: type[Mechanism]) -> None:
    with pytest.raises(PolicyError) as error:
        ran(kind())
    assert re.match(f"mechanism {kind.__name__}, {DEVICES[kind]}", line_of(error))


@pytest.mark.parametrize("kind", SERVERS)
def test_what_cannot_be_asked_is_told_before_anybody_is(kind: type[Mechanism]) -> None:
    with pytest.raises(MechanismError) as error:
        admitted_for(kind(), WORLD, epsilon=EPSILON)
    assert re.match(f"mechanism {kind.__name__}, {SERVERS[kind]}", line_of(error))


def test_a_class_that_lacks_something_is_told_what() -> None:
    with pytest.raises(InputError, match="design Lacking lacks channel, sketch, estimate"):
        admitted_for(bad.Lacking(), WORLD, epsilon=EPSILON)
    with pytest.raises(InputError, match="design is a int, no mechanism"):
        admitted_for(7, WORLD, epsilon=EPSILON)  # type: ignore[arg-type] # on purpose


@pytest.mark.parametrize("kind", [bad.Raises, bad.NeverEnds])
def test_earlier_rounds_are_kept_and_learned_from(kind: type[bad.Raises]) -> None:
    found = ran(kind(late=2), rounds=4)
    assert len(found.outcome.state.asked) == 2
    assert str(found.outcome.failure).startswith(f"mechanism {kind.__name__}, method sketch, round 2: ")
    assert found.outcome.model.cluster.size == WORLD.items


def test_what_never_ends_is_left_behind_in_a_thread_that_keeps_nobody_waiting() -> None:
    before = set(threading.enumerate())
    with pytest.raises(MechanismError, match="its thread goes on until its process ends, which on Ray is now"):
        ran(bad.NeverEnds())
    left = set(threading.enumerate()) - before
    assert left
    assert all(thread.daemon for thread in left)
    for thread in left:
        thread.join()
