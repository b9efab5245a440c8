"""Whole runs of foreign mechanisms in this process: policies, layouts, and what is kept of them."""

from __future__ import annotations

from dataclasses import replace

import foreign_mechanisms as foreign
import numpy as np
import pytest
from foreign_jobs import TRUE, job

from coordinator.protocol.custom import Mechanism
from coordinator.server.rounds.rounds import Outcome
from scenarios.backends.selection import InProcess
from scenarios.families.main.run import Job, run_job
from scenarios.store.journal import ROUNDS
from scenarios.store.record_log import from_bytes, to_bytes
from scenarios.store.round_store import InMemoryRounds



def outcome(of: Job, workers: int = 2) -> Outcome:
    """What a run ends with."""
    return run_job(of, InProcess(workers), advised=0, top=1, progress=lambda _: None).outcome


@pytest.mark.parametrize("kind", HONEST)
def test_the_same_releases_on_every_layout(kind: type[Mechanism]) -> None:
    told = {outcome(job(kind(), each=each)).releases_sha256 for each in (None, 20_000, 1_112)}
    told |= {outcome(job(kind(), workers=1), 1).releases_sha256}
    assert len(told) == 1


def test_other_settings_are_other_releases() -> None:
    assert outcome(job(foreign.GRR(shift=1))).releases_sha256 != outcome(job(foreign.GRR())).releases_sha256


@pytest.mark.parametrize("kind", HONEST)
def test_rounds_add_up_and_are_kept(kind: type[Mechanism]) -> None:
    held = InMemoryRounds()
    whole = outcome(job(kind(), rounds=4, kept=held))
    assert np.array_equal(whole.model.cluster, (TRUE < 0).astype(np.int32))
    assert [over.ask.query.round for over in held.rounds] == [0, 1, 2, 3]
    for over in held.rounds:
        back, before = from_bytes(ROUNDS, to_bytes(ROUNDS, over, "ab"))
        assert before == "ab"
        assert back.ask.query.id == over.ask.query.id
        assert np.array_equal(back.statistic.__dict__["sums"], over.statistic.__dict__["sums"])
        assert back.statistic.ones == over.statistic.ones
    again = outcome(job(kind(), rounds=4, kept=InMemoryRounds(*held.rounds[:2])))
    assert again.releases_sha256 == whole.releases_sha256
    assert np.array_equal(again.model.score, whole.model.score)


def test_what_asks_about_pools_can_be_asked_by_adaptive_policies() -> None:
    found = outcome(job(foreign.GRR(), adaptive=True))
    assert np.array_equal(found.model.cluster, (TRUE < 0).astype(np.int32))
    assert len(found.state.asked) > 2
    assert found.state.asked[-1].query.pool is not None
    assert found.posterior is not None
    assert found.posterior.decided(0.05).all()
    assert found.state.answers_asked < 20_000


def test_posteriors_can_be_had_of_any_that_estimates() -> None:
    of = job(foreign.OUE(), adaptive=True)
    plain = job(foreign.OUE())
    found = outcome(replace(of, policy=plain.policy))
    assert found.posterior is not None
    assert np.array_equal(found.model.cluster, (TRUE < 0).astype(np.int32))
