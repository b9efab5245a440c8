"""Worlds of online runs: voters, clients, and what the experimenter knows of them; planted, of a file, or by hand."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from actors.lying import LyingVoters
from actors.voters import Client, PlantedVoters, RatingVoters, TableVoters, Voters
from coordinator.protocol.arrays import Bits2, Bools, Bools2, Indices2, Ints
from coordinator.protocol.ballots import Ballot, Service
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.coins import as_words, derive
from coordinator.protocol.errors import InputError
from coordinator.server.online.recommenders import PublicFacts
from scenarios.config.files import read_toml
from scenarios.config.scenario import HALVING
from scenarios.data.datasets import RatingTable
from scenarios.data.rating_split import judge_likes
from scenarios.families.online.online_bounds import epsilon_proved
from scenarios.families.online.online_scenario import REFERENCE, OnlineScenario


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientWorld:
    """One client and its voters, as the experimenter knows them."""

    client: Client  # The device
    rounds: int  # T and m
    objects: int
    diversity: int = 0  # D and R: what the recommender is promised
    radius: int = 0
    # shape (N,); Which devices are peers: at most ``radius`` votes for disliked objects
    peer: Bools = field(repr=False)
    titles: Indices2 | None = field(default=None, repr=False)  # shape (T, m); Titles of the rounds, with a ratings file
    own_device: int | None = None  # The client's own address among the voters
    skipped: int = 0  # Rounds left out, since the client likes nothing in them
    name: str = ""  # What the client is called

    @property
    def peers(self) -> int:
        """Number of peers."""
        return int(np.count_nonzero(self.peer))

    @property
    def voters(self) -> int:
        """Number of voters N: all devices but the client's own."""
        return self.peer.size - (self.own_device is not None)

    def service(self, recommender: str, epsilon: Epsilon) -> Service:
        """Return this client's service, as it is announced to voters."""
        return Service(
            client=self.client.number,
            recommender=recommender,
            rounds=self.rounds,
            objects=self.objects,
            epsilon=epsilon,
            titles=self.titles,
            own_device=self.own_device,
        )

    def facts(self, *, peers: int | None = None, epsilon: float = np.inf) -> PublicFacts:
        """Return what a recommender is promised."""
        return PublicFacts(**self.shape(peers), epsilon=epsilon)

    def shape(self, peers: int | None = None) -> dict[str, int]:
        """Return T, m, N, P, D and R, as bounds take them."""
        numbers = {"rounds": self.rounds, "objects": self.objects, "voters": self.voters}
        peers = self.peers if peers is None else peers
        return {**numbers, "peers": peers, "diversity": self.diversity, "radius": self.radius}


@dataclass(frozen=True, slots=True, kw_only=True)
class OnlineWorld:
    """All that takes part in an online run."""

    scenario: OnlineScenario  # As asked for
    voters: Voters = field(repr=False)  # Private
    clients: tuple[ClientWorld, ...]

    @property
    def secret(self) -> bytes:
        """The voters' master secret."""
        return derive(self.scenario.seed, "devices")


def planted_world(scenario: OnlineScenario) -> OnlineWorld:
    """Return the random environment of the spec's section 8, with planted peers for each client."""
    # Clients share the voters: votes are the same whoever is served, and peers of one client are random to the others.
    rounds, voters, peers = scenario.rounds or 0, scenario.voters or 0, scenario.peers or 0
    random = np.random.default_rng(int.from_bytes(derive(scenario.seed, "world")))
    taste = random.integers(scenario.objects, size=(scenario.clients, rounds), dtype=np.uint8)
    diverse = np.zeros((scenario.clients, rounds), np.bool_)
    for row in diverse:
        row[random.permutation(rounds)[: scenario.diversity]] = True
    whose = np.full(voters, -1, np.int32)
    whose[random.permutation(voters)[: scenario.clients * peers]] = np.repeat(np.arange(scenario.clients), peers)
    diversity, radius, clients = scenario.diversity or 0, scenario.radius or 0, list[ClientWorld]()
    for number in range(scenario.clients):
        client = Client(number, likes_of(taste[number], diverse[number], scenario.objects))
        clients.append(
            ClientWorld(
                client=client,
                rounds=rounds,
                objects=scenario.objects,
                diversity=diversity,
                radius=radius,
                peer=whose == number,
                name=f"client {number}",
            )
        )
    opinions = PlantedVoters(client=whose, taste=taste, diverse=diverse, objects=scenario.objects, radius=radius)
    return OnlineWorld(scenario=scenario, voters=opinions, clients=tuple(clients))


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
    return voters.cast_votes(as_words(secret), Ballot(service=service, first=0, stop=service.rounds), everyone)


def distances(votes: Bits2, likes: Bools2) -> Ints:
    """Return in how many rounds each voter votes for a disliked object, int64, shape (N,)."""
    return np.asarray(sum(~likes[number][row] for number, row in enumerate(votes)) + np.zeros(votes.shape[1], np.int64))


def measured(world: ClientWorld, far: Ints, scenario: OnlineScenario) -> ClientWorld:
    """Return a client's world with its diversity, radius and peers as measured, checked against what was asked."""
    wide = int(np.count_nonzero(world.client.likes.sum(axis=1) > 1))
    diversity = wide if scenario.diversity is None else scenario.diversity
    if wide > diversity:
        raise InputError(
            f"diversity is {diversity}, but {world.name} likes several objects in {wide} rounds; give at least {wide}"
        )
    world = replace(world, diversity=diversity)
    radius = best_radius(far, world) if scenario.radius is None else scenario.radius
    peer = (far <= radius) & (far <= world.rounds)
    peers = int(np.count_nonzero(peer))
    needed = scenario.peers or 1
    if peers < needed:
        if needed > world.voters:
            raise InputError(f"peers is {needed}, but {world.name} has {world.voters} voters; give at most that")
        raise InputError(
            f"peers is {needed}, but {world.name} has {peers} voters within radius {radius}; the radius must be at "
            f"least {np.sort(far)[needed - 1]} for that"
        )
    return replace(world, radius=radius, peer=peer)


def best_radius(far: Ints, world: ClientWorld) -> int:
    """Return the radius for which p-rec's proved epsilon is least: a wider one has more peers, but more credit, too."""
    radii, counts = np.unique(far[far <= world.rounds], return_counts=True)
    shape = {"objects": world.objects, "voters": world.voters, "diversity": world.diversity}
    shape["rounds"] = max(world.rounds, world.objects)  # recommenders without a bound run with fewer
    needed = [
        epsilon_proved(REFERENCE, peers=max(int(peers) - 1, 1), radius=int(radius), **shape) or 0.0
        for radius, peers in zip(radii, np.cumsum(counts), strict=True)
    ]
    return int(radii[np.argmin(needed)])


LEAST_ROUNDS = 20  # Clients have at least so many rounds, where their number is not given


def world_of_table(scenario: OnlineScenario, table: RatingTable) -> OnlineWorld:
    """Return the world of a file's ratings: clients are drawn among its users, all other users are voters."""
    # A client's rounds are its rated titles in random order, ``objects`` at a time; what it rated highly it likes
    # (above its own mean, or from ``like_from`` on). Rounds in which it likes nothing are skipped and counted. A voter
    # votes for the title that it rates best; its own coin decides ties, and where it rated none of them.
    likes = judge_likes(table, scenario.liked_from)
    voters = RatingVoters(rows=table.valued(np.asarray(table.values, np.float64)))
    least = scenario.rounds or max(LEAST_ROUNDS, scenario.objects)
    random = np.random.default_rng(int.from_bytes(derive(scenario.seed, "clients")))
    clients: list[ClientWorld] = []
    for user in random.permutation(table.users):
        if len(clients) == scenario.clients:
            break
        titles, liked, skipped = rounds_of(table, likes, int(user), scenario)
        if len(titles) < least:
            continue
        world = ClientWorld(
            client=Client(len(clients), liked[: scenario.rounds]),
            rounds=len(titles[: scenario.rounds]),
            objects=scenario.objects,
            peer=np.zeros(table.users, np.bool_),
            titles=titles[: scenario.rounds],
            own_device=int(user),
            skipped=skipped,
            name=f"user {table.user_labels[user]}",
        )
        votes = all_votes(voters, derive(scenario.seed, "devices"), world.service(REFERENCE, None))
        far = distances(votes, world.client.likes)
        far[user] = world.rounds + 1  # its own device does not vote
        clients.append(measured(world, far, scenario))
    if len(clients) < scenario.clients:
        raise InputError(
            f"clients is {scenario.clients}, but only {len(clients)} of {table.users} users have {least} rounds of "
            f"{scenario.objects} titles in which they like one; ask for fewer clients or rounds"
        )
    return OnlineWorld(scenario=scenario, voters=voters, clients=tuple(clients))


def rounds_of(table: RatingTable, likes: Bools, user: int, scenario: OnlineScenario) -> tuple[Indices2, Bools2, int]:
    """Return a user's rounds: titles, int32, and likes, bool, shape (T, m) both; and how many were skipped."""
    random = np.random.default_rng(int.from_bytes(derive(scenario.seed, f"rounds of user {user}")))
    start, stop = table.starts[user], table.starts[user + 1]
    order = start + random.permutation(stop - start)
    whole = order[: order.size // scenario.objects * scenario.objects].reshape(-1, scenario.objects)
    usable = likes[whole].any(axis=1)
    usable_rounds = whole[usable]
    return table.items[usable_rounds], likes[usable_rounds], int(np.count_nonzero(~usable))


def world_from_file(scenario: OnlineScenario, path: Path) -> OnlineWorld:
    """Return the world that a TOML file writes down."""
    values = read_toml(path, "world file")
    for name in ("votes", "likes"):
        if name not in values:
            raise InputError(f"world file {path} has no {name}; it needs votes and likes, a row a round each")
    for name in values:
        if name not in ("votes", "likes", "objects"):
            raise InputError(f"world file {path} has an unknown key {name!r}; known are objects, votes, likes")
    objects = values.get("objects", scenario.objects)
    if type(objects) is not int or not 2 <= objects <= 256:
        raise InputError(f"objects is {objects!r} in {path}; it must be a whole number from 2 to 256")
    if "objects" in scenario.model_fields_set and scenario.objects != objects:
        raise InputError(f"objects is {scenario.objects}, but {path} has rounds of {objects}; leave it out")
    votes, likes = values["votes"], values["likes"]
    if not isinstance(votes, list) or not isinstance(likes, list) or len(votes) != len(likes):
        raise InputError("votes and likes must be lists with one row a round, as many of each")
    if len(votes) < 2:
        raise InputError(f"the world has {len(votes)} rounds; write at least 2")
    table, liked = read_votes(votes, objects), read_likes(likes, objects)
    world = ClientWorld(
        client=Client(0, liked),
        rounds=len(votes),
        objects=objects,
        peer=np.zeros(table.shape[1], np.bool_),
        name="the client",
    )
    voters = TableVoters(table=table, group=np.arange(table.shape[1], dtype=np.int32))
    return OnlineWorld(scenario=scenario, voters=voters, clients=(measured(world, distances(table, liked), scenario),))


def read_votes(rows: Sequence[Any], objects: int) -> Bits2:
    """Return votes as uint8, shape (T, N); refuse a voter that votes for no object, or for two, naming the round."""
    voters = len(rows[0]) if isinstance(rows[0], list) else 0
    if not voters:
        raise InputError("round 0: nobody votes; write a list with a number a voter")
    table = np.empty((len(rows), voters), np.uint8)
    for number, row in enumerate(rows):
        if not isinstance(row, list) or len(row) != voters:
            count = len(row) if isinstance(row, list) else 0
            raise InputError(
                f"round {number}: {count} voters, but round 0 has {voters}; every voter votes in every round"
            )
        for voter, vote in enumerate(row):
            table[number, voter] = _vote_of(vote, f"round {number}: voter {voter}", objects)
    return table


def _vote_of(vote: Any, who: str, objects: int) -> int:
    marks = vote if isinstance(vote, list) else [vote]
    if len(marks) != 1:
        raise InputError(f"{who} votes for {len(marks)} objects {marks}; a voter votes for exactly one")
    if type(marks[0]) is not int or not 0 <= marks[0] < objects:
        raise InputError(f"{who} votes for object {marks[0]!r}, which is none of {objects}: 0 to {objects - 1}")
    return marks[0]


def read_likes(rows: Sequence[Any], objects: int) -> Bools2:
    """Return likes as bool, shape (T, m); refuse objects that are none of the round's."""
    likes = np.zeros((len(rows), objects), np.bool_)
    for number, row in enumerate(rows):
        for liked in row if isinstance(row, list) else [row]:
            likes[number, _vote_of(liked, f"round {number}: the client", objects)] = True
    return likes


def with_liars(world: OnlineWorld) -> OnlineWorld:
    """Return a world whose voters lie as its scenario says; a peer that lies is none."""
    # With slow halving a group lies for as many rounds as strikes can keep it alive, ``2 (D + R) + 1``.
    scenario = world.scenario
    if scenario.malicious is None:
        return world
    strikes = max(2 * (client.diversity + client.radius) + 1 for client in world.clients)
    voters = LyingVoters(
        honest=world.voters,
        share=scenario.malicious,
        likes={client.client.number: client.client.likes for client in world.clients},
        stage=strikes if scenario.attack == HALVING else 0,
    )
    lying = voters.lying(as_words(world.secret), 0, voters.users)
    clients = tuple(replace(client, peer=client.peer & ~lying) for client in world.clients)
    return replace(world, voters=voters, clients=clients)


def lies_of(world: OnlineWorld) -> int:
    """Return how many voters of a world lie."""
    if not isinstance(world.voters, LyingVoters):
        return 0
    return int(np.count_nonzero(world.voters.lying(as_words(world.secret), 0, world.voters.users)))
