"""MaxSense and Multi-MaxSense on the server: whether any item of a set that is drawn at random is liked."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, Unpack

import numpy as np
from pydantic import BeforeValidator, Field

from coordinator.protocol.arrays import Floats, Indices, Ints
from coordinator.protocol.budget import as_float
from coordinator.protocol.channels import LARGEST_EPSILON, bit_channel
from coordinator.protocol.errors import InputError
from coordinator.protocol.messages import Model, Query, Release
from coordinator.server.design import Decoding, RoundTerms, World, query_of
from coordinator.server.server_half import POOLED, POSTERIOR, SETS, NoSignal, ServerHalf, Settings, Theta, check_shape

if TYPE_CHECKING:
    from coordinator.protocol.moments.blocks import SketchMoments
    from coordinator.protocol.moments.emulation import EmulatedDevices
    from coordinator.protocol.statistics.scores import ScoreStatistic
    from coordinator.server.decoding.estimates import Estimates


class MaxSenseSettings(Settings):
    """Settings of MaxSense."""

    theta: Theta = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MaxSense:
    """MaxSense: each item is sensed with probability ``theta / rated``; the bit is 1 if a sensed item was liked.

    Source: Banerjee, Hegde, Massoulié, Figure 2 and Theorem 15 [5.1].
    """

    items: int  # Number of items N, at least 1
    rated: int  # Number of items w that a user rated: public, typical where users differ; 1 to N
    theta: float = 1.0  # Expected number of a user's rated items that are sensed, in (0, rated]

    name: ClassVar[str] = "maxsense"
    widest: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        check_shape(self.items, self.rated, self.theta)

    @property
    def sensing(self) -> float:
        """Sensing probability p of each item if the query is about all items."""
        return self.theta / self.rated

    def sensing_in(self, pool: int) -> float:
        """Return the sensing probability of each of ``pool`` items; it is at most 1/2 unless these are all items."""
        return self.sensing if pool == self.items else min(self.sensing * self.items / pool, 0.5)

    def query(
        self, *, pool: Indices | None = None, expected: Floats | None = None, **terms: Unpack[RoundTerms]
    ) -> Query:
        """Return the query of one round; ``pool`` holds the items that are sensed, by default all."""
        whole = pool is None or pool.size == self.items
        parameters = {"sensing": self.sensing_in(self.items if pool is None else pool.size)}
        return query_of(self.name, self.items, terms, parameters=parameters, pool=None if whole else pool)

    def read(self, query: Query, statistic: ScoreStatistic, expected: Floats | None = None) -> Estimates:
        from coordinator.server.decoding.estimates import read_sets

        return read_sets(query, statistic, rated=self.rated)

    def rates(self, query: Query, expected: Floats | None = None) -> Floats:
        """Return the information of one device's answer about each item; ``expected`` holds b, by default 1/2."""
        from coordinator.server.decoding.estimates import others_share

        pool = query.items if query.pool is None else query.pool.size
        sensing, contrast, share = self.sensing_in(pool), bit_channel(query.epsilon).contrast, self.rated / self.items
        liked = np.full(pool, 0.5) if expected is None else np.clip(expected, 0, 1)
        none = math.exp(np.log1p(-np.minimum(sensing * share * liked, 0.5)).sum())
        answer = (1 - contrast) / 2 + contrast * (1 - none)
        silent = none ** others_share(pool, items=self.items, rated=self.rated)
        noise = answer * (1 - answer)
        rate = (contrast * share * silent) ** 2 * sensing * (1 - sensing) / noise if noise else 0.0
        return np.full(pool, rate)

    def emulate(self, query: Query, crowd: EmulatedDevices, coins: np.random.Generator) -> tuple[Ints, Ints, int]:
        from coordinator.protocol.moments.emulation import draw_sets

        return draw_sets(query, crowd, coins)


class MaxSenseHalf(ServerHalf):
    """MaxSense on the server."""

    name = "maxsense"
    title = "MaxSense"
    settings = MaxSenseSettings
    decoders = (*SETS, POSTERIOR)
    policies = POOLED
    ranks = True

    def design(self, settings: MaxSenseSettings, world: World) -> MaxSense:
        return MaxSense(items=world.items, rated=world.rated, theta=settings.theta)

    def aggregate(self, query: Query, release: Release) -> ScoreStatistic:
        from coordinator.protocol.statistics.scores import aggregate_scores

        return aggregate_scores(query, release)

    def decode(self, statistic: ScoreStatistic, query: Query, how: Decoding) -> Model:
        from coordinator.server.decoding.line import decode

        return decode(statistic, sensing=query.parameters["sensing"], clusters=how.clusters, decoder=how.decoder)

    def moments(self, settings: MaxSenseSettings, world: World) -> SketchMoments | NoSignal | None:
        from coordinator.protocol.moments.blocks import maxsense_moments

        sensing = settings.theta / world.rated
        if world.block is None:
            return None
        if sensing >= 1:
            return NoSignal()
        return maxsense_moments(world.block, sensing=sensing, epsilon=as_float(world.epsilon))


SPLITS = 64  # Most questions that are tried if epsilon is infinite; more than about epsilon / 2.2 only cost users


def _whole(value: Any) -> Any:
    """Read ``"3"`` as a whole number and keep names."""
    if value in ("ceil", "auto") or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    try:
        return int(str(value))
    except ValueError:
        raise ValueError(f"{str(value)[:80]!r} is neither a whole number, nor ceil or auto") from None


class MultiMaxSenseSettings(Settings):
    """Settings of Multi-MaxSense."""

    theta: Theta = 1.0
    questions: Annotated[
        Annotated[int, Field(ge=1)] | Literal["ceil", "auto"],
        BeforeValidator(_whole),
        Field(description="Multi-MaxSense: sets a device; ceil (of epsilon), auto (fewest users) [ceil]."),
    ] = "ceil"

    splits: ClassVar[bool] = True
    jumps: ClassVar[bool] = True

    def at(self, world: World, questions: int) -> MultiMaxSense:
        """Return Multi-MaxSense in a world, with so many questions."""
        return MultiMaxSense(items=world.items, rated=world.rated, theta=self.theta, questions=questions)

    def shares(self, world: World) -> int:
        """Return the number of questions; the largest possible number if it is still "auto"."""
        if isinstance(self.questions, int):
            return self.at(world, self.questions).questions
        most = self.at(world, 1).most_questions
        if self.questions == "auto":
            return most
        if world.epsilon is None:
            raise InputError("questions is ceil, and epsilon inf has no ceil(epsilon); say how many, or auto")
        return min(math.ceil(world.epsilon), most)

    @property
    def settled(self) -> bool:
        """Whether ``questions`` is more than "auto"."""
        return self.questions != "auto"

    def settle(self, world: World, decoder: str) -> Self:
        """Return the settings with ``questions`` a number."""
        # "ceil" is the paper's ``ceil(epsilon)``, at most 1/p; "auto" the number that needs the fewest users. It
        # maximizes the answers' signal to noise, ``(contrast between clusters)^2 / variance`` of a user, from exact
        # moments; with a ratings file, whose clusters are unknown, ``Q tanh^2(epsilon / 2Q)``.
        questions = self.best_questions(world, decoder) if self.questions == "auto" else self.shares(world)
        return self.model_copy(update={"questions": questions})

    def best_questions(self, world: World, decoder: str) -> int:
        """Return the number of questions Q, 1 to 1/p, that needs the fewest users."""
        most, epsilon = self.at(world, 1).most_questions, as_float(world.epsilon)
        least = 1 if math.isinf(epsilon) else max(1, math.ceil(epsilon / LARGEST_EPSILON))
        largest = min(most, SPLITS if math.isinf(epsilon) else max(least, math.ceil(epsilon)))
        several = range(min(least, largest), largest + 1)
        return max(several, key=lambda questions: _signal(self.at(world, questions), world, decoder))


def _signal(design: MultiMaxSense, world: World, decoder: str) -> float:
    epsilon = as_float(world.epsilon)
    if world.block is None:
        return design.questions * math.tanh(epsilon / design.questions / 2) ** 2
    moments = _moments(design, world)
    noise = moments.noise_paper if decoder == "paper" else moments.noise_centred
    spread = float(moments.effect.max() - moments.effect.min()) * moments.sensing
    return spread**2 / noise if noise else spread


def _moments(design: MultiMaxSense, world: World) -> SketchMoments:
    from coordinator.protocol.moments.blocks import multi_maxsense_moments

    assert world.block is not None
    epsilon = as_float(world.epsilon)
    return multi_maxsense_moments(world.block, set_size=design.set_size, questions=design.questions, epsilon=epsilon)


@dataclass(frozen=True, slots=True, kw_only=True)
class MultiMaxSense:
    """Multi-MaxSense: ``questions`` sets of a random partition of the items; one bit each, as MaxSense's.

    Source: Banerjee, Hegde, Massoulié, Figure 3 and Theorem 16, with ``p = theta / rated`` (there theta = 1).

    Sets hold ``N p`` items, rounded to a whole number of at least 1. Where ``1 / p`` or ``N p`` is no whole number, the
    last set of the partition is smaller; it is never asked about.
    """

    items: int  # As for `MaxSense`
    rated: int
    questions: int  # Sets Q that each device is asked about, each under ``epsilon / Q``; at most ``1 / p``
    theta: float = 1.0

    def __post_init__(self) -> None:
        check_shape(self.items, self.rated, self.theta)
        if not 1 <= self.questions <= self.most_questions:
            raise InputError(
                f"questions is {self.questions}; it must lie between 1 and 1/p = rated/theta, here "
                f"{self.most_questions}: sets of {self.set_size} of {self.items} items must not overlap"
            )

    @property
    def set_size(self) -> int:
        """Items in a set, ``N p``."""
        return max(1, round(self.items * self.theta / self.rated))

    @property
    def most_questions(self) -> int:
        """Full sets of a partition, at most ``1 / p``."""
        return min(self.items // self.set_size, int(self.rated / self.theta + 1e-9))

    def query(self, **terms: Unpack[RoundTerms]) -> Query:
        parameters = {"set_size": self.set_size}
        return query_of("multi-maxsense", self.items, terms, questions=self.questions, parameters=parameters)


class MultiMaxSenseHalf(ServerHalf):
    """Multi-MaxSense on the server."""

    name = "multi-maxsense"
    title = "Multi-MaxSense"
    settings = MultiMaxSenseSettings
    decoders = SETS
    ranks = True

    def label(self, row: Mapping[str, Any]) -> str:
        suffix = " (auto)" if row.get("choice") == "auto" else ""
        return f"{self.name}, Q {row['questions']}{suffix}" if row.get("questions") else self.name

    def design(self, settings: MultiMaxSenseSettings, world: World) -> MultiMaxSense:
        if settings.questions == "auto":
            raise ValueError("questions is still auto; MultiMaxSenseSettings.settle makes it a number")
        return settings.at(world, settings.shares(world))

    def aggregate(self, query: Query, release: Release) -> ScoreStatistic:
        from coordinator.protocol.statistics.scores import aggregate_partition

        return aggregate_partition(query, release)

    def decode(self, statistic: ScoreStatistic, query: Query, how: Decoding) -> Model:
        from coordinator.server.decoding.line import decode

        sensing = query.parameters["set_size"] / query.items
        return decode(statistic, sensing=sensing, clusters=how.clusters, decoder=how.decoder)

    def moments(self, settings: MultiMaxSenseSettings, world: World) -> SketchMoments | NoSignal | None:
        design = self.design(settings, world)
        if world.block is None:
            return None
        return NoSignal() if design.set_size == design.items else _moments(design, world)


SERVER = (MaxSenseHalf(), MultiMaxSenseHalf())
