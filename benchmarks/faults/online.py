"""Small worlds of online clients, and the conditions that must hold there."""

import math
from collections.abc import Sequence
from dataclasses import fields
from fractions import Fraction
from functools import cache, partial
from typing import Any

import numpy as np

from actors.voters import Client, ClientCohort, PlantedVoters, VoterCohort
from benchmarks.faults.disk import Disk
from benchmarks.faults.scheduler import Violation
from benchmarks.faults.witness import Witness
from benchmarks.faults.world import Family, World, undisturbed
from coordinator.protocol.arrays import Bits2
from coordinator.protocol.ballots import Ballot, Offer, Service, Votes
from coordinator.protocol.coins import derive
from coordinator.server.fleet.cohorts import cut
from coordinator.server.online.recommenders import PublicFacts
from coordinator.server.online.service import CLIENTS, VOTERS, ClientPlan, Served, ServedClient, ServingPlan
from scenarios.backends.session import DeviceGroup
from scenarios.families.online.online_run import KeptClients
from scenarios.families.online.online_worlds import all_votes, likes_of
from scenarios.store.manifest import ONLINE

ROUNDS, OBJECTS, DEVICES = 3, 2, 12
SECRET, COINS = derive(0, "faults online"), derive(1, "faults online")


def _world(
    recommender: str,
    own_devices: Sequence[int | None],
    *,
    epsilon: Fraction,
    budget: Fraction,
    each: int,
    invited: int = 0,
) -> World:
    """Return a world of clients, whose ``own_devices`` may be voters, too; voters are in cohorts of ``each``."""
    random = np.random.default_rng([len(own_devices), each])
    taste = random.integers(OBJECTS, size=(len(own_devices), ROUNDS), dtype=np.uint8)
    diverse = np.zeros((len(own_devices), ROUNDS), np.bool_)
    diverse[:, 0] = True
    whose = np.arange(DEVICES, dtype=np.int32) % (len(own_devices) + 1) - 1
    voters = PlantedVoters(client=whose, taste=taste, diverse=diverse, objects=OBJECTS, radius=1)
    clients = {
        client: Client(client, likes_of(taste[client], diverse[client], OBJECTS)) for client in range(len(own_devices))
    }
    facts = PublicFacts(
        rounds=ROUNDS, objects=OBJECTS, diversity=1, radius=1, peers=2, voters=invited, epsilon=math.inf
    )
    plans = [
        ClientPlan(
            service=Service(
                client=client,
                recommender=recommender,
                rounds=ROUNDS,
                objects=OBJECTS,
                epsilon=epsilon,
                own_device=device,
            ),
            facts=facts,
            coin=derive(COINS, str(client)),
        )
        for client, device in enumerate(own_devices)
    ]
    return World(
        plan=ServingPlan(clients=tuple(plans), voters=DEVICES),
        crews={
            VOTERS: DeviceGroup(
                kind=partial(VoterCohort, budget=budget), holdings=voters, bounds=cut(0, DEVICES, each)
            ),
            CLIENTS: DeviceGroup(kind=ClientCohort, holdings=clients, bounds=[(0, len(own_devices))]),
        },
        secret=SECRET,
    )


@cache
def votes(world: World, client: int) -> Bits2:
    """Return what every device votes for in a client's service, shape (rounds, devices)."""
    return all_votes(world.crews[VOTERS].holdings, SECRET, world.plan.clients[client].service)  # type: ignore[attr-defined] # its plan


class OnlineWitness(Witness):
    """See `benchmarks.faults.witness.Witness`."""

    def __init__(self, world: World, disk: Disk) -> None:
        super().__init__(disk, world.crews[VOTERS].kind.keywords["budget"])  # type: ignore[attr-defined] # it has one
        self._world = world
        self._offered: dict[tuple[int, int], int] = {}

    def key(self, question: Any) -> bytes:
        """Return the name under which devices that could not book a question are noted."""
        service_id: bytes = question.service.id if type(question) is Ballot else question.id
        return service_id

    def leaves(self, question: Any, public: tuple[Any, ...], first: int, stop: int, answer: Any) -> None:
        """Refuse an answer that the device never gives, or that is not booked on the disk."""
        if type(question) is Offer:
            self._likes(question, answer)
            return
        service = question if type(question) is Service else question.service
        electors = answer
        if type(question) is Ballot:
            if type(answer) is not Votes or not np.array_equal(answer.electors, *public):
                raise Violation(f"a {type(answer).__name__} leaves devices {first} to {stop - 1}, who were to vote")
            electors = answer.electors
            if not np.array_equal(
                answer.votes, votes(self._world, service.client)[question.first : question.stop, electors]
            ):
                raise Violation(f"devices {first} to {stop - 1} voted for two things")
        if type(electors) is not np.ndarray or service.own_device in electors:
            raise Violation(f"devices {electors} entered a service of device {service.own_device}")
        entered = service.id.hex()
        self.must_be_booked({(device, entered) for device in electors.tolist()}, question)

    def _likes(self, offer: Offer, liked: Any) -> None:
        """Check an offer to a client, and the answer."""
        client = self._world.crews[CLIENTS].holdings[offer.client]
        if liked is not client.answer(offer.round, offer.recommendation):
            raise Violation(f"client {offer.client} said two things")
        if self._offered.setdefault((offer.client, offer.round), offer.recommendation) != offer.recommendation:
            raise Violation(f"client {offer.client} was recommended two objects in round {offer.round}")

    def keeps(self, record: Any) -> None:
        """Refuse a client whose voters did not all enter, or who saw another recommendation than without faults."""
        if type(record) is not ServedClient:
            raise Violation(f"a {type(record).__name__} is kept")
        seen = [self._offered.get((record.number, number)) for number in range(ROUNDS)]
        entered = {(device, record.service.hex()) for device in record.served.electors.tolist()}
        if seen != record.served.chosen.tolist() or not entered <= self.said:
            raise Violation(f"client {record.number} is kept otherwise than it was served")

    def ends(self, outcome: Any, rounds: list[Any]) -> None:  # noqa: ARG002 (a protocol)
        """Refuse recommendations or exposures that differ from those without faults."""
        self.nothing_forgotten()
        for client_result, whole in zip(outcome, undisturbed(self._world), strict=True):
            for part in fields(Served):
                value, other = getattr(client_result.served, part.name), getattr(whole.served, part.name)
                if not np.array_equal(value, other, equal_nan=part.name == "exposure"):
                    raise Violation(
                        f"client {client_result.number} ended with other {part.name} than if nothing had happened"
                    )


CLIENTS_SERVED = Family(
    name=ONLINE,
    worlds=(
        _world("p-rec", (None, None), epsilon=Fraction(1, 2), budget=Fraction(1), each=6, invited=DEVICES),
        _world("p-rec", (2, 7, None), epsilon=Fraction(1, 2), budget=Fraction(1), each=4),
        _world("multiplicative-weights", (0, 11), epsilon=Fraction(3, 4), budget=Fraction(1), each=6),
    ),
    stored_rounds=partial(KeptClients, seed=0),
    witness=OnlineWitness,
)
"""A world in which budgets cover all services, or in which some voters stay away."""
