"""Worlds of online runs: voters, clients, and what the experimenter knows of them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from actors.client import Client
from actors.voters import PlantedVoters, Voters
from coordinator.protocol.arrays import Bits2, Bools, Bools2, Indices2, Ints
from coordinator.protocol.ballots import Ballot, Service
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.coins import as_words, derive
from coordinator.protocol.errors import InputError
from coordinator.server.online.recommender import Promise
from scenarios.online.config import REFERENCE, OnlineScenario
from scenarios.online.privacy_bounds import epsilon_proved


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientWorld:
    """One client and its voters, as the experimenter knows them.

    Attributes
    ----------
    client : Client
        The device.
    rounds, objects : int
        T and m.
    diversity, radius : int
        D and R: what the recommender is promised.
    peer : ndarray of bool, shape (N,)
        Which devices are peers: at most ``radius`` votes for disliked objects.
    titles : ndarray of int32, shape (T, m), or None
        Titles of the rounds, with a ratings file.
    own_device : int or None
        The client's own address among the voters.
    skipped : int
        Rounds left out, since the client likes nothing in them.
    name : str
        What the client is called.
    """

    client: Client
    rounds: int
    objects: int
    diversity: int
    radius: int
    peer: Bools = field(repr=False)
    titles: Indices2 | None = field(default=None, repr=False)
    own_device: int | None = None
    skipped: int = 0
    name: str = ""

    @property
    def peers(self) -> int:
        """Number of peers."""
        return int(np.count_nonzero(self.peer))

    @property
    def voters(self) -> int:
        """Number of voters N: all devices but the client's own."""
        return self.peer.size - (self.own_device is not None)

    def service(self, recommender: str, epsilon: Epsilon) -> Service:
        """Return this client's service, as voters are told of it."""
        return Service(
            client=self.client.number,
            recommender=recommender,
            rounds=self.rounds,
            objects=self.objects,
            epsilon=epsilon,
            titles=self.titles,
            own_device=self.own_device,
        )

    def promise(self, *, peers: int | None = None, epsilon: float = np.inf) -> Promise:
        """Return what a recommender is told."""
        return Promise(
            rounds=self.rounds,
            objects=self.objects,
            diversity=self.diversity,
            radius=self.radius,
            peers=self.peers if peers is None else peers,
            voters=self.voters,
            epsilon=epsilon,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """All that takes part in an online run.

    Attributes
    ----------
    scenario : OnlineScenario
        As asked for.
    voters : Voters
        Private.
    clients : tuple of ClientWorld
    """

    scenario: OnlineScenario
    voters: Voters = field(repr=False)
    clients: tuple[ClientWorld, ...]

    @property
    def secret(self) -> bytes:
        """The voters' master secret."""
        return derive(self.scenario.seed, "devices")


def planted_world(scenario: OnlineScenario) -> World:
    """Return the random environment of the spec's section 8, with planted peers for each client.

    Clients share the voters: a voter's votes are the same whoever is served, and peers of one client vote at random as
    far as the others are concerned.
    """
    rounds, voters, peers = scenario.rounds or 0, scenario.voters or 0, scenario.peers or 0
    random = np.random.default_rng(int.from_bytes(derive(scenario.seed, "world")))
    shape = (scenario.clients, rounds)
    taste = random.integers(scenario.objects, size=shape, dtype=np.uint8)
    diverse = np.zeros(shape, np.bool_)
    for row in diverse:
        row[random.permutation(rounds)[: scenario.diversity]] = True
    whose = np.full(voters, -1, np.int32)
    whose[random.permutation(voters)[: scenario.clients * peers]] = np.repeat(np.arange(scenario.clients), peers)
    clients = tuple(
        ClientWorld(
            client=Client(number, likes_of(taste[number], diverse[number], scenario.objects)),
            rounds=rounds,
            objects=scenario.objects,
            diversity=scenario.diversity or 0,
            radius=scenario.radius or 0,
            peer=whose == number,
            name=f"client {number}",
        )
        for number in range(scenario.clients)
    )
    opinions = PlantedVoters(
        client=whose, taste=taste, diverse=diverse, objects=scenario.objects, radius=scenario.radius or 0
    )
    return World(scenario=scenario, voters=opinions, clients=clients)


def likes_of(taste: np.ndarray[tuple[int], np.dtype[np.uint8]], diverse: Bools, objects: int) -> Bools2:
    """Return which objects are liked, bool, shape (T, m): the first one, and in diverse rounds the next one, too."""
    likes = np.zeros((taste.size, objects), np.bool_)
    rounds = np.arange(taste.size)
    likes[rounds, taste] = True
    likes[rounds[diverse], (taste[diverse].astype(np.int64) + 1) % objects] = True
    return likes


def all_votes(voters: Voters, secret: bytes, service: Service) -> Bits2:
    """Return what every device votes for in all rounds, uint8, shape (T, N): the experimenter looks into the future."""
    everyone = np.arange(voters.users, dtype=np.int32)
    return voters.cast(as_words(secret), Ballot(service=service, first=0, stop=service.rounds), everyone)


def distances(votes: Bits2, likes: Bools2) -> Ints:
    """Return in how many rounds each voter votes for a disliked object, int64, shape (N,)."""
    found: Ints = sum(~likes[number][row] for number, row in enumerate(votes)) + np.zeros(votes.shape[1], np.int64)
    return found


def measured(world: ClientWorld, likes: Bools2, far: Ints, scenario: OnlineScenario) -> ClientWorld:
    """Return a client's world with its diversity, radius and peers as measured, checked against what was asked.

    Parameters
    ----------
    world : ClientWorld
        Radius, diversity and peers are overwritten.
    likes : ndarray of bool, shape (T, m)
    far : ndarray of int64, shape (N,)
        Distances; the client's own device must not count as a peer.
    scenario : OnlineScenario
        What it gives is a claim to be checked; what it leaves open is filled in.

    Raises
    ------
    InputError
        If the client is more diverse, or has fewer peers, than the scenario says.
    """
    wide = int(np.count_nonzero(likes.sum(axis=1) > 1))
    diversity = wide if scenario.diversity is None else scenario.diversity
    if wide > diversity:
        raise InputError(
            f"diversity is {diversity}, but {world.name} likes several objects in {wide} rounds; give at least {wide}"
        )
    world = replace(world, diversity=diversity)
    radius = best_radius(far, world) if scenario.radius is None else scenario.radius
    peer = (far <= radius) & (far <= world.rounds)
    peers = int(np.count_nonzero(peer))
    wanted = scenario.peers or 1
    if peers < wanted:
        if wanted > world.voters:
            raise InputError(f"peers is {wanted}, but {world.name} has {world.voters} voters; give at most that")
        nearest = np.sort(far)[:wanted]
        raise InputError(
            f"peers is {wanted}, but {world.name} has {peers} voters within radius {radius}; the radius must be at "
            f"least {nearest[-1]} for that"
        )
    return replace(world, radius=radius, peer=peer)


def best_radius(far: Ints, world: ClientWorld) -> int:
    """Return the radius for which p-rec's proved epsilon is least: a wider one has more peers, but more credit, too.

    The same radius serves all recommenders, so that they can be compared.
    """
    radii, counts = np.unique(far[far <= world.rounds], return_counts=True)
    shape = {"objects": world.objects, "voters": world.voters, "diversity": world.diversity}
    shape["rounds"] = max(world.rounds, world.objects)  # recommenders without a bound run with fewer
    needed = [
        epsilon_proved(REFERENCE, peers=max(int(peers) - 1, 1), radius=int(radius), **shape) or 0.0
        for radius, peers in zip(radii, np.cumsum(counts), strict=True)
    ]
    return int(radii[np.argmin(needed)])
