"""An online scenario as a value: what `blindrec online` takes, from flags or a file, checked before anybody votes."""

from __future__ import annotations

import math
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from coordinator.protocol.ballots import MOST_OBJECTS
from coordinator.protocol.budget import as_float
from coordinator.server.online.recommenders import recommender_of, still_names
from scenarios.given import Exact, GivenPath, brief

MOST_VOTERS = 10**9
MOST_ROUNDS = 10**8
REFERENCE = "p-rec"
"""The recommender unless another is named; its proved epsilon chooses the radius, so that worlds are alike for all."""
PLANTED = {"rounds": 1000, "voters": 256, "peers": 4, "diversity": 5, "radius": 5}
"""The random environment, where nothing else is said."""


class OnlineScenario(BaseModel):
    """One run: the clients, their voters and the recommender. Nothing here is about speed.

    Attributes
    ----------
    recommender : str
        Name of one of the room `coordinator.server.online.recommenders`.
    rounds : int or None
        T of every client. Default 1,000; with ``ratings`` all rounds that each client has, with ``world`` the file's.
    objects : int
        m, objects of a round.
    voters : int or None
        N. Default 256; files bring their own.
    peers : int or None
        P of every client. Default 4; with files what is measured, and at most that.
    diversity : int or None
        D. Default 5; with files what is measured, and at least that.
    radius : int or None
        R. Default 5; with files the one for which p-rec's epsilon is least.
    clients : int
        Clients that are served, one after the other.
    budget : Fraction or None
        What all clients together may learn of a voter [nats]; a voter stays away from what it does not hold.
    epsilon : Fraction or None
        Naive composition's privacy loss of a whole run [nats]; None: what is proved of p-rec on the same clients.
    seed : int
        Everything random follows from it.
    ratings : Path or None
        A file of real ratings: its users are the voters, and clients are drawn among them.
    columns, like_from
        As in `scenarios.config.Scenario`.
    world : Path or None
        A TOML file with one client's rounds written down; see `scenarios.online.world_file`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    recommender: str = REFERENCE
    rounds: Annotated[int, Field(ge=2, le=MOST_ROUNDS)] | None = None
    objects: Annotated[int, Field(ge=2, le=MOST_OBJECTS)] = 2
    voters: Annotated[int, Field(ge=1, le=MOST_VOTERS)] | None = None
    peers: Annotated[int, Field(ge=1)] | None = None
    diversity: Annotated[int, Field(ge=0)] | None = None
    radius: Annotated[int, Field(ge=0)] | None = None
    clients: Annotated[int, Field(ge=1)] = 1
    budget: Exact = None
    epsilon: Exact = None
    seed: Annotated[int, Field(ge=0, lt=1 << 63)] = 0
    ratings: GivenPath | None = None
    columns: tuple[str, str, str] | None = None
    like_from: float | None = None
    world: GivenPath | None = None

    @model_validator(mode="before")
    @classmethod
    def _random_environment(cls, values: Any) -> Any:
        """Fill in the random environment's numbers, where no file brings its own."""
        if not isinstance(values, dict) or values.get("ratings") is not None or values.get("world") is not None:
            return values
        given = {name: value for name, value in values.items() if value is not None}
        alike = {"diversity": 0, "radius": 0} if given.get("recommender") in still_names() else {}
        return {**PLANTED, **alike, **given}

    @model_validator(mode="after")
    def _consistent(self) -> OnlineScenario:
        named = recommender_of(self.recommender)
        self._check_files()
        if self.epsilon is not None and named.epsilon_of is None:
            raise ValueError(f"epsilon is {as_float(self.epsilon):g}, which is naive composition's; leave it out")
        if self.epsilon is not None and math.isinf(as_float(self.epsilon)):
            raise ValueError("epsilon is larger than any float; leave it out, or give a smaller one")
        if self.budget is not None and not named.private:
            raise ValueError(
                f"budget is {as_float(self.budget):g}, but nothing is proved of {self.recommender}; leave it out"
            )
        if named.sharp and self.objects != 2:
            raise ValueError(f"objects is {self.objects}; {self.recommender} is for 2 objects")
        if self.ratings is None and self.world is None:
            self._check_planted()
        return self

    def _check_files(self) -> None:
        """Refuse what a file brings itself, and what is about files where there is none."""
        if self.ratings is not None and self.world is not None:
            told = brief(str(self.world))[1:-1], brief(str(self.ratings))[1:-1]
            raise ValueError(f"world is {told[0]}, but {told[1]} brings its own; give one of them")
        for name, source in (("columns", self.ratings), ("like_from", self.ratings)):
            if source is None and getattr(self, name) is not None:
                raise ValueError(f"{name} is {getattr(self, name)!r}, which is about ratings files; give --ratings too")
        for name in ("voters",) if self.ratings else ("voters", "rounds", "clients") if self.world else ():
            if name in self.model_fields_set and getattr(self, name) is not None:
                raise ValueError(f"{name} is {getattr(self, name)}, but {self.ratings or self.world} brings its own")

    def _check_planted(self) -> None:
        """Check the random environment's numbers against each other."""
        rounds, voters, peers = self.rounds or 0, self.voters or 0, self.peers or 0
        for name in ("diversity", "radius"):
            if getattr(self, name) > rounds:
                raise ValueError(f"{name} is {getattr(self, name)}, but there are {rounds} rounds; give at most that")
        if peers * self.clients > voters:
            whom = f" for each of {self.clients} clients" if self.clients > 1 else ""
            raise ValueError(f"voters is {voters}, fewer than {peers} peers{whom}; give more")
