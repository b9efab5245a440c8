"""On Ray: the same answers as in this process although processes are killed, errors as they were raised, no actor left.

Processes of each kind are killed in the middle of a round: it ends with the same releases, and nobody spends more.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import psutil
import pytest
import ray
from messages import SEED, leaves, shows_a_secret
from runs import alike, here, holds_within, small

from benchmarks.victims import actors_below, alive, below
from coordinator.protocol.coins import derive
from coordinator.protocol.errors import InputError
from coordinator.protocol.mechanism import Decoding
from coordinator.protocol.mechanisms import mechanism_of
from coordinator.protocol.messages import Query
from coordinator.server.fleet.cohorts import plan_layout
from coordinator.server.fleet.coordinator_actor import start_coordinator
from coordinator.server.rounds.learner import SumLearner
from coordinator.server.rounds.policies import OneRound
from coordinator.server.rounds.rounds import QueryPlan
from coordinator.server.rounds.state import Ask, RunProgress, ServerState
from scenarios.backends.on_ray import OnRay, await_capacity
from scenarios.backends.ray_instance import on_ray
from scenarios.backends.selection import InProcess
from scenarios.backends.session import silent
from scenarios.config.resolve import resolve
from scenarios.data.populations import populate
from scenarios.families.main.run import Job, MainResult, run, run_job

pytestmark = pytest.mark.cluster
SCENARIO = small(
    items=300,
    rated=40,
    users=500_000,
    design="sign",
    policy="fixed",
    rounds=2,
    dropout=0.05,
    like="0.9,0.1;0.3,0.6",
    class_shares="0.3,0.7",
    seed=SEED,
)
OURS = ("ray::DeviceHost", "ray::Coordinator", "ray::Aggregator")
VICTIMS = ((1, "devices"), (150_000, "worker"), (300_000, "coordinator"))
"""Of each of these kinds a process is killed, one after the other, as soon as so many answers are in."""


@dataclass
class Watched:
    """A run, and what was seen of it from outside."""

    finished: MainResult | None = None
    told: list[int] = field(default_factory=list)
    killed: list[int] = field(default_factory=list)  # How often progress had been told before each victim's end
    constructor: list[Any] = field(default_factory=list)
    names: list[str] = field(default_factory=list)  # Of processes, before the first is killed
    processes: dict[psutil.Process, str] = field(default_factory=dict)

    @property
    def run(self) -> MainResult:
        """The run."""
        assert self.finished is not None
        return self.finished

    def progress(self, tally: RunProgress) -> None:
        """Note how far it is and which processes there are, and kill the next of the victims."""
        self.told.append(tally.count)
        processes = {one: line for one, line in below(psutil.Process()).items() if line.startswith(OURS)}
        self.processes |= processes
        if not self.killed:
            self.names = sorted(line.removeprefix("ray::").split(".")[0].strip() for line in processes.values())
        for answers, kind in VICTIMS[len(self.killed) :][:1]:
            if tally.count >= answers and (victims := actors_below(psutil.Process(), kind)):
                victims[0].kill()
                self.killed.append(len(self.told))


@pytest.fixture(scope="module")
def watched(ray_session: OnRay, tmp_path_factory: pytest.TempPathFactory) -> Watched:
    """One run on Ray, of more cohorts than actors, with everything that tests look at."""
    seen = Watched()

    def recording(*arguments: Any) -> Any:
        seen.constructor.extend(arguments)
        return start_coordinator(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("scenarios.backends.on_ray.start_coordinator", recording)
        patch.setattr("scenarios.backends.on_ray.MOST_ACTORS", 2)
        ledger = tmp_path_factory.mktemp("ledger")
        seen.finished = run(SCENARIO, ray_session, devices_per_actor=10_000, progress=seen.progress, ledger=ledger)
    return seen


def spent(one: MainResult) -> set[object]:
    """What devices spent; all of them were asked alike."""
    return {amount for _, _, amount in one.spent}


def test_ray_repeats_the_run_in_process_although_processes_are_killed(watched: Watched) -> None:
    """Releases, model, advice and what devices spent are those of an undisturbed run."""
    undisturbed = here(SCENARIO, workers=2)
    assert len(watched.killed) == len(VICTIMS), "the run was over before its processes were killed"
    assert alike(watched.run, undisturbed)
    assert spent(watched.run) == spent(undisturbed) == {SCENARIO.epsilon}
    layout = watched.run.job.layout
    assert (watched.run.backend, layout.workers, layout.devices_per_actor) == ("ray", 2, 10_000)
    assert (watched.run.costs.actors, watched.run.costs.restarts) == (2, 1)
    assert watched.run.advice.shape == (1000, 10)


def test_progress_is_told_to_the_end(watched: Watched) -> None:
    """Answers are not counted again where devices died; where what added them up died, their round is."""
    quiet = watched.told[: watched.killed[1]]
    assert quiet == sorted(quiet)
    assert watched.told[-1] == max(watched.told) == SCENARIO.users


def test_devices_and_server_are_processes_of_their_own_and_end_with_the_run(watched: Watched) -> None:
    assert watched.names == ["Aggregator", "Aggregator", "Coordinator", "DeviceHost", "DeviceHost"]
    assert holds_within(20, lambda: not alive(watched.processes))


def test_the_coordinator_is_handed_nothing_private(watched: Watched) -> None:
    """Its arguments hold public numbers and the hosts' addresses; neither seed nor secret is in their bytes."""
    assert len(list(leaves(watched.constructor, items=40))) > 10
    assert not shows_a_secret(watched.constructor, SEED)
    assert not shows_a_secret(watched.run.outcome, SEED)
    assert shows_a_secret([*watched.constructor, SCENARIO], SEED)


def asked_again(second: Callable[[], Query], *, decoder: str = "centred", each: int) -> Job:
    """A job of two devices whose server asks once as usual and then what ``second`` says, in its own process."""
    learner = SumLearner(mechanism=mechanism_of("maxsense"), how=Decoding(clusters=2, decoder=decoder))
    scenario = small(users=2)
    usual = OneRound(design=resolve(scenario).design, epsilon=scenario.epsilon, public_seed=derive(0, "public"))

    class Curious:  # defined here, it travels to the server's process with its code
        def next_query(self, state: ServerState) -> Ask | None:
            return usual.next_query(state) or Ask(query=second(), first=0, stop=2)

    return Job(
        ratings=populate(scenario).ratings,
        secret=derive(0, "devices"),
        plan=QueryPlan(policy=Curious(), learner=learner, devices=2),
        layout=plan_layout(devices=2, workers=1, devices_per_actor=each),
    )


def refused_later(*, each: int, decoder: str = "centred") -> Job:
    """A job whose second query devices refuse."""
    good = resolve(small()).design.query(round_number=1, public_seed=bytes(16), epsilon=None)
    wrong = replace(good, parameters={"w": 5})
    return asked_again(lambda: wrong, decoder=decoder, each=each)


def test_what_devices_refuse_is_told_as_in_this_process(lent: None) -> None:
    """In one line that names policy and round, without what Ray says around it; the first round is not lost.

    Each device is an actor of its own.
    """
    job = refused_later(each=1)
    finished = enter_and_run(job)
    far = finished.outcome
    assert finished.costs.actors == 2
    near = run_job(job, InProcess(1), advised=0, top=10, progress=silent).outcome
    assert far.failure is not None
    assert far.failure.startswith("policy Curious, round 1: ")
    assert far.failure.endswith(" has parameters ['w'], not ['sensing']")
    assert far.failure == near.failure
    assert len(far.state.asked) == 1
    assert far.releases_sha256 == near.releases_sha256


@pytest.mark.thorough  # six seconds of processor; by default the last test holds how what is raised elsewhere arrives
def test_an_error_of_the_server_arrives_as_it_was_raised(lent: None) -> None:
    with pytest.raises(InputError, match="decoder") as raised:
        enter_and_run(refused_later(decoder="best", each=2))
    assert type(raised.value) is InputError
    assert "\n" not in str(raised.value)


def enter_and_run(job: Job) -> MainResult:
    """Run a job in a session as `on_ray` yields it, within the instance that runs already."""
    with on_ray(address=None, workers=1) as session:
        return run_job(job, session, advised=0, top=10, progress=silent)


def test_what_devices_refuse_as_they_start_is_told_without_rays_trace(ray_session: OnRay) -> None:
    """Ray's own error is an InputError as well, whose text is a trace."""

    def refuse() -> None:
        raise InputError("design 'unheard' is unknown to devices")

    refusing: Any = ray.remote(num_cpus=0)(refuse)
    with pytest.raises(InputError) as told:
        await_capacity([refusing.remote()], 0)
    assert (type(told.value), str(told.value)) == (InputError, "design 'unheard' is unknown to devices")
