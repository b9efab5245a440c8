"""The server's half of a mechanism: its settings, its queries, how it decodes the answers, and what it predicts.

Reading settings loads no numerical library: a half imports such libraries inside its functions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self, cast

from pydantic import BaseModel, ConfigDict, Field

from coordinator.protocol.arrays import Floats
from coordinator.protocol.errors import InputError
from coordinator.protocol.messages import Model, Query, Release
from coordinator.protocol.public_half import REPLACE
from coordinator.server.design import Decoding, Design, LearnerOptions, PoolDesign, World

if TYPE_CHECKING:
    from coordinator.protocol.statistics.counts import CountStatistic
    from coordinator.protocol.statistics.statistic import Statistic
    from coordinator.server.decoding.curator import DiscreteLaplace
    from coordinator.server.rounds.learner import Learner
    from coordinator.server.rounds.policies import PolicyOptions
    from coordinator.server.rounds.setting import Setting
    from coordinator.server.rounds.state import Policy


class NoSignal:
    """No number of answers distinguishes the clusters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class YesMoments:
    """Item queries, in which every item gets so many yeses."""

    answers: int  # Number of yeses that an item needs


@dataclass(frozen=True, slots=True, kw_only=True)
class RevealMoments:
    """Full reveal, in which users reveal everything or nothing."""

    share: float  # Probability that a user reveals


@dataclass(frozen=True, slots=True, kw_only=True)
class TotalMoments:
    """A curator's noisy totals of items."""

    noise: DiscreteLaplace  # Of each total


@dataclass(frozen=True, slots=True, kw_only=True)
class SumMoments:
    """Two servers' noisy totals of likes."""

    level: Floats  # shape (L,); Probability that a user's vector has a one for one item of each cluster
    noise: float  # Variance of all noise in a total

    @property
    def profile(self) -> Floats:
        """What totals without noise say of each cluster's items, one row a cluster."""
        return self.level[:, None]


@dataclass(frozen=True, slots=True, kw_only=True)
class PairTotals:
    """A curator's noisy totals of pairs of items."""

    profile: Floats  # shape (L, L); Probability that two rated items are rated alike, by their clusters
    scale: float  # Scale of the Laplace noise on each pair


ONE_ROUND, FIXED, ELIMINATE, ITEM_BY_ITEM, UNTIL_LEARNED, GROUPS, ANCHOR, TWO_ROUNDS = (
    "one-round",
    "fixed",
    "eliminate",
    "item-by-item",
    "until-learned",
    "groups",
    "anchor",
    "two-rounds",
)
POSTERIOR = "posterior"  # Name of the decoder that takes every item's most probable cluster
POOLED = (ONE_ROUND, FIXED, ELIMINATE, ITEM_BY_ITEM)  # Policies that a `PoolDesign` can follow
SETS = ("centred", "paper")  # Decoders of scores: ours and the paper's
TRUST_LOCAL, TRUST_CURATOR, TRUST_TWO_SERVERS = "local", "curator", "two-servers"
Theta = Annotated[float, Field(ge=1e-9, allow_inf_nan=False, description="Sensed items a user rated, on average [1].")]
"""A setting that all mechanisms share that ask about sets."""


def check_shape(items: int, rated: int, theta: float = 1.0) -> None:
    """Refuse numbers of items, of rated items or a sensing rate that contradict each other."""
    if items < 1:
        raise InputError(f"items is {items}; a catalogue has at least 1")
    if not 1 <= rated <= items:
        raise InputError(f"rated is {rated}; it must lie between 1 and the number of items, {items}")
    if not 0 < theta <= rated:
        raise InputError(f"theta is {theta}; it must lie above 0 and be at most rated, {rated}")


class Settings(BaseModel):
    """A mechanism's own settings. A field's description is also its flag's help; no setting is nested."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    splits: ClassVar[bool] = False  # Whether epsilon is split over questions
    always_told: ClassVar[frozenset[str]] = frozenset()
    """Names of settings that tables show even if they have their default values."""
    jumps: ClassVar[bool] = False  # Whether the query changes with the integer part of epsilon

    @property
    def rated_public(self) -> bool:
        """Whether it is public which items a device rated."""
        return False

    def shares(self, world: World) -> int:
        """Return the most questions that epsilon may be split over."""
        return 1

    @property
    def settled(self) -> bool:
        """Whether no setting is left open."""
        return True

    def settle(self, world: World, decoder: str) -> Self:
        """Return the settings with all open ones chosen."""
        return self


class ServerHalf:
    """What the server does with one mechanism; a module of `coordinator.server.mechanisms` has it in ``SERVER``."""

    name: str  # Its name on the command line, and its name in the papers
    title: str
    settings: type[Settings] = Settings  # Its own settings
    # Names of its decoders and of the policies that it can follow, the default first
    decoders: ClassVar[tuple[str, ...]]
    policies: ClassVar[tuple[str, ...]] = (ONE_ROUND, FIXED)
    # The setting that lets it follow all of them, if some settings do not; for errors
    all_policies_with: ClassVar[str] = ""
    trust: ClassVar[str] = TRUST_LOCAL  # "local", "curator", "two-servers"; Who is untrusted; see the threat model
    private: ClassVar[bool] = True  # Whether it has a guarantee at finite epsilon
    # Whether its policy goes on until every item is learned, so that nobody chooses the number of users
    learns_all: ClassVar[bool] = False
    # Whether lower bounds apply to it, because its answers are private towards the server or have one bit
    bounded: ClassVar[bool] = True
    # Whether it learns from pairs of items, and so can distinguish clusters that single items cannot
    paired: ClassVar[bool] = False
    # Whether an item's score grows with the number of devices that like it, so that scores rank items by popularity
    ranks: ClassVar[bool] = False
    # What its design can ask besides `Design.query`, by a method ``of_NAME`` each, where its policy asks groups of
    # devices different things
    groups: ClassVar[tuple[str, ...]] = ()

    @property
    def asks(self) -> tuple[str, ...]:
        """The designs (`Query.design`) that its queries may have, which are names of public and device halves."""
        return (self.name,)

    @property
    def sure(self) -> bool:
        """Whether a confidence can be asked for, because its answers say how sure the server may be."""
        return POSTERIOR in self.decoders

    def policies_with(self, settings: Any) -> tuple[str, ...]:
        """Return those of its policies that it can follow with these settings; by default all."""
        return self.policies

    def neighbours(self, settings: Any) -> str:
        """Return which data its guarantee takes as neighbours: ``"replace"``, one user's ratings replaced by others."""
        return REPLACE

    def query_name(self, settings: Any) -> str:
        """Return the design of its queries with these settings."""
        return self.name

    def label(self, row: Mapping[str, Any]) -> str:
        """Return its name and the settings that distinguish its variants, for the row of a plan."""
        return self.name

    def design(self, settings: Any, world: World) -> Design:
        """Return the design in a world, from settings none of them open; an InputError says what is out of range."""
        raise NotImplementedError

    def policy(self, name: str, setting: Setting, options: PolicyOptions) -> Policy:
        """Return one of its policies by name; a half whose policies are its own overrides this.

        The name is one of `policies_with` the settings. ``setting`` is what every policy gets, and its design is the
        half's. An InputError says where ``options``, what else the run says of its policy, contradict it.
        """
        from coordinator.server.rounds import policies  # noqa: PLC0415 (numerical)

        if name == FIXED:
            return policies.fixed(setting, options)
        if name == ELIMINATE:
            return policies.eliminate(setting, options)
        if name == ITEM_BY_ITEM:
            return policies.ItemByItem(setting=setting)
        return policies.OneRound(
            design=setting.design,
            epsilon=setting.epsilon,
            public_seed=setting.public_seed,
            own_questions=setting.own_questions,
        )

    def users_to_learn(self, name: str, setting: Setting) -> float | None:
        """Return about how many users a policy's rounds ask in all; None where its rounds are not foreseen."""
        from coordinator.server.rounds import policies  # noqa: PLC0415 (numerical)

        return policies.users_of_elimination(setting) if name == ELIMINATE else None

    def learner(self, settings: Any, world: World, options: LearnerOptions) -> Learner:
        """Return what learns from the answers, by settings none of which is open; other learners override it."""
        from coordinator.server.rounds.learner import PosteriorLearner, SumLearner  # noqa: PLC0415 (numerical)

        if options.decoder == POSTERIOR:
            return PosteriorLearner(
                design=cast("PoolDesign", self.design(settings, world)),  # all have one that have this decoder
                clusters=world.clusters,
                confidence=options.confidence,
                assume_malicious=options.assume_malicious,
            )
        curator = None
        if self.trust == TRUST_CURATOR:
            from coordinator.server.decoding.line import Curator  # noqa: PLC0415 (numerical)

            curator = Curator(
                epsilon=world.epsilon,
                rated=world.rated,
                neighbours=self.neighbours(settings),
                seed=options.curator_seed,
            )
        how = Decoding(clusters=world.clusters, decoder=options.decoder, curator=curator, public=options.public)
        return SumLearner(half=self, how=how)

    def aggregate(self, query: Query, release: Release) -> Statistic:
        """Return the statistic of one block's release, both checked."""
        raise NotImplementedError

    def of_published(self, query: Query, totals: CountStatistic) -> Statistic:
        """Return the statistic of one round's totals, as two servers published them; an InputError of others."""
        raise InputError(f"{query} is answered by releases; nobody publishes sums of them")

    def decode(self, statistic: Any, query: Query, how: Decoding) -> Model:
        """Return the item model from a statistic of queries like ``query``."""
        raise NotImplementedError

    def learn(self, statistic: Any, queries: Sequence[Query], how: Decoding) -> Model:
        """Return the item model from the sum of all rounds, at least one; by default a ValueError if they differ."""
        ways = [query.parameters for query in queries]
        if any(way != ways[0] for way in ways):
            raise ValueError(f"rounds asked in different ways, {ways}; their scores cannot be added up")
        return self.decode(statistic, queries[0], how)

    def moments(self, settings: Any, world: World) -> object | None:
        """Return the exact moments of the server's statistic in a block model; None if nothing is predicted."""
        return None
