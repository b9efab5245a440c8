"""An online scenario: the settings of `blindrec online`, checked before anybody votes."""

from __future__ import annotations

import math
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from coordinator.protocol.ballots import MOST_OBJECTS
from coordinator.protocol.budget import as_float
from coordinator.server.online.recommenders import named_recommenders, recommender_of, still_names
from scenarios.config.files import Exact, NamedPath, brief
from scenarios.config.settings import (
    BadLines,
    ColumnNames,
    Duplicates,
    ExperimentScenario,
    LikeFrom,
    Malicious,
    Seed,
    Unrated,
    like_bar,
)
from scenarios.experiment.experiment import Experiment
from scenarios.store.manifest import ONLINE
from scenarios.store.whole_files import size_of

MOST_VOTERS = 10**9
MOST_ROUNDS = 10**8
REFERENCE = "p-rec"
"""The default recommender; its proved epsilon sets the radius, so that all recommenders get the same world."""
PLANTED = {"rounds": 1000, "voters": 256, "peers": 4, "diversity": 5, "radius": 5}
"""Defaults of the random environment."""


class OnlineScenario(ExperimentScenario):
    """One run: the clients, their voters and the recommender. Nothing here is about speed."""

    brought: ClassVar[dict[str, tuple[str, ...]]] = {"ratings": ("voters",), "world": ("voters", "rounds", "clients")}

    recommender: str = Field(default=REFERENCE, description=f"Which of those above recommends [{REFERENCE}].")
    rounds: Annotated[int, Field(ge=2, le=MOST_ROUNDS)] | None = Field(
        default=None, description="Rounds T per client [1000; with a file: all rounds that a client has]."
    )
    objects: Annotated[int, Field(ge=2, le=MOST_OBJECTS)] = Field(default=2, description="Objects m per round [2].")
    voters: Annotated[int, Field(ge=1, le=MOST_VOTERS)] | None = Field(
        default=None, description="Voters N [256; of a file: its other users]."
    )
    peers: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="Peers P per client [4; with a file: the measured number, which is also the most]."
    )
    diversity: Annotated[int, Field(ge=0)] | None = Field(
        default=None, description="Rounds D with several liked objects [5; with a file: the measured number, or more]."
    )
    radius: Annotated[int, Field(ge=0)] | None = Field(
        default=None, description="Rounds R in which a peer errs [5; with a file: the R of p-rec's least epsilon]."
    )
    clients: Annotated[int, Field(ge=1)] = Field(default=1, description="Clients, served one after the other [1].")
    budget: Exact = Field(
        default=None, description="Most epsilon of a voter over all clients, in nats; then it abstains [no limit]."
    )
    epsilon: Exact = Field(
        default=None, description="Naive composition only: epsilon of a whole run in nats [p-rec's proved epsilon]."
    )
    malicious: Malicious = None
    attack: Literal["halving", "untargeted"] | None = Field(
        default=None,
        description="What liars do: untargeted (vote for what the client dislikes) or halving (vote as the client "
        "likes, then switch one group after the other) [untargeted].",
    )
    seed: Seed = 0
    ratings: NamedPath | None = Field(
        default=None, description="A file of real ratings, whose users become voters and clients."
    )
    columns: ColumnNames = None
    duplicates: Duplicates = None
    bad_lines: BadLines = "refuse"
    unrated: Unrated = None
    like_from: LikeFrom = None
    world: NamedPath | None = Field(default=None, description="A TOML file with one client's rounds.")

    @property
    def liked_from(self) -> float | None:
        """The rating from which on an item is liked; see `scenarios.config.settings.like_bar`."""
        return like_bar(self.columns, self.like_from)

    @model_validator(mode="before")
    @classmethod
    def _random_environment(cls, values: Any) -> Any:
        """Fill in the random environment's numbers, unless a file defines them."""
        if not isinstance(values, dict) or values.get("ratings") is not None or values.get("world") is not None:
            return values
        settings = {name: value for name, value in values.items() if value is not None}
        alike = {"diversity": 0, "radius": 0} if settings.get("recommender") in still_names() else {}
        return {**PLANTED, **alike, **settings}

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
        if self.attack is not None and self.malicious is None:
            raise ValueError(f"attack is {self.attack}, but nobody lies; give --malicious too")
        if self.ratings is None and self.world is None:
            self._check_planted()
        return self

    def _check_files(self) -> None:
        """Refuse settings that a file already defines, and file settings without a file."""
        if self.ratings is not None and self.world is not None:
            paths = brief(str(self.world))[1:-1], brief(str(self.ratings))[1:-1]
            raise ValueError(f"world is {paths[0]}, but {paths[1]} brings its own; give one of them")
        if self.ratings is None:
            self.refuse_without_file("columns", "duplicates", "bad_lines", "unrated", "like_from")
        for name in self.brought["ratings"] if self.ratings else self.brought["world"] if self.world else ():
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


_HELP = """Serve clients online: voters vote on m new objects a round, one is recommended, the client likes it or not.

p-REC hides the voters from the client: one voter more or less changes the probability of anything that the client sees
by at most a factor e^epsilon. The coordinator is trusted with the votes (trust model curator). Recommenders:

\b
"""
_HELP += "\n".join(f"  {name:23}{recommender.about}" for name, recommender in named_recommenders().items())
_HELP += """

Without a file the environment is random: each client has P peers, who vote as it likes except in R rounds of their own;
it likes two objects in D rounds; all other voters vote at random. With --ratings the users of a file are voters and
clients, a round consists of m titles that the client rated, and P, D and R are measured. With --world a TOML file lists
one client's rounds (votes: a row per round, a number per voter; likes: a row per round, the objects that it likes).

The result shows the loss (disliked recommendations) and its bound; epsilon as proved and, where it can be computed,
exactly; and this run's exact privacy loss: the largest log-likelihood ratio from leaving one voter out.
With several --clients a voter's exposures add up (voter_epsilon); with --budget voters abstain beyond it.

With --out every client is stored as soon as it is served: blindrec resume FOLDER, or the same command, resumes a run
that was killed or interrupted after the last one.

\b
  blindrec online --recommender p-rec-lean --rounds 1000
  blindrec online --ratings ratings.csv --clients 50 --out served
"""


class Online(Experiment[OnlineScenario]):
    """Clients are served one after the other, from the votes of those who share their taste."""

    name = ONLINE
    runner = "scenarios.families.online.online_report:serve_seed"
    kind = OnlineScenario
    column_list = "scenarios.families.online.online_report:COLUMNS"
    titled = "recommender"
    files = ("ratings", "world")
    named = ("clients", "rounds", "voters", "epsilon_proved", "repeat", "loss", "loss_bound", "loss_random", "seconds")
    help = _HELP

    def work(self, scenario: OnlineScenario) -> float:
        """Predict seconds: 0.2 ms per round of a client, 20 ns per vote; a file has a voter per 256 bytes."""
        file = scenario.ratings or scenario.world
        voters = scenario.voters or (PLANTED["voters"] if file is None else size_of(file) // 256)
        return scenario.clients * (scenario.rounds or PLANTED["rounds"]) * (2e-4 + 2e-8 * voters)
