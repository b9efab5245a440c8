"""What untargeted liars do to adaptive rounds if the server knows the levels, and if it fits them.

``python -m benchmarks.known_levels --share 0.01 --items-moved 7`` conducts `--policy eliminate` on counts drawn from
exact moments (N = 1000, w = 30, epsilon 1, likes .9 and .1, plain signs), to which liars add theirs, and prints how
many labels are wrong either way. With ``--leaving`` liars let go of items while pools shrink: they move as many of
those still asked about as they push past the middle 1.5 times as fast as honest answers hold them back.
"""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from typing import Annotated

import numpy as np
import typer
from scipy.special import softmax

from coordinator.protocol.arrays import Ints
from coordinator.protocol.coins import derive
from coordinator.server.decoding.posterior import Mixture, Posterior, joint, on_a_grid
from coordinator.server.mechanisms.sign import SignSensing
from coordinator.server.moments.sign_moments import sign_contrast
from coordinator.server.rounds.learner import PosteriorLearner
from coordinator.server.rounds.policies import Eliminate
from coordinator.server.rounds.rounds import conduct
from coordinator.server.rounds.setting import Setting
from coordinator.server.rounds.state import Ask, ServerState
from coordinator.server.statistics.scores import ScoreStatistic
from scenarios.theory.emulated_runs import Emulated

DESIGN = SignSensing(items=1000, rated=30, centred=False)
LIKE, USERS, SURE, FAST = (0.9, 0.1), 12_000_000, 0.95, 1.5


class TrueLevels(Setting):
    """A setting whose server knows both levels."""

    def believe(self, state: ServerState) -> Posterior:
        """Return the posterior at the true levels, of clusters of equal size."""
        assert state.estimates is not None  # asked after a round
        levels = 2 * np.array(LIKE) - 1
        mixture = Mixture(levels=levels, shares=np.full(2, 0.5), doubts=np.zeros(2), likelihood=0.0)
        belongs = softmax(joint(mixture, state.estimates.value, state.estimates.error), axis=1)
        doubt, cluster = on_a_grid(belongs.min(axis=1)), belongs.argmax(axis=1).astype(np.int32)
        return Posterior(cluster=cluster, doubt=doubt, expected=belongs @ levels, mixture=mixture, apart=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class LyingAnswers:
    """Honest answers, drawn, and those of liars; ``moved`` holds their items in the order in which they are kept."""

    honest: Emulated
    share: float
    moved: Ints
    truth: Ints
    leaving: bool

    def ask(self, ask: Ask) -> tuple[ScoreStatistic, list[object]]:
        """Return a round's statistic."""
        liars = round(self.share * (ask.stop - ask.first))
        honest = self.honest.ask(replace(ask, stop=ask.stop - liars))[0]
        pool = np.arange(DESIGN.items) if ask.query.pool is None else ask.query.pool
        items = self.moved[np.isin(self.moved, pool)]
        if self.leaving:
            far = FAST * (1 - self.share) * math.sqrt(float(DESIGN.rates(ask.query).mean())) * (LIKE[0] - LIKE[1])
            items = items[: max((r for r in range(items.size + 1) if self.share * _shift(r) >= far), default=1) or 1]
        agree, sensed, scores = np.full(DESIGN.items, 0.5), honest.sensed.copy(), honest.scores.copy()
        agree[items] += np.where(self.truth[items] == 0, -0.5, 0.5) * _shift(items.size)
        sensed[pool] += liars
        scores[pool] += self.honest.coins.binomial(liars, agree[pool])
        devices = ask.stop - ask.first
        return replace(honest, sensed=sensed, scores=scores, devices=devices, answered=devices), []


@cache
def _shift(moved: int) -> float:
    """Return s(r): how far one liar moves each of so many items."""
    return sign_contrast(moved, items=moved, rated=moved, vectors=1, best_count=1, epsilon=None) if moved else 0.0


def wrong(kind: type[Setting], share: float, moved: int, seed: int, *, leaving: bool) -> tuple[int, int]:
    """Return how many labels of one run are wrong, and how many devices were asked."""
    coins, truth = np.random.default_rng([seed, moved]), np.arange(DESIGN.items) % 2
    likes = np.array(LIKE)[truth][None, :]
    honest = Emulated(design=DESIGN, likes=likes, class_shares=np.ones(1), rated=DESIGN.rated, coins=coins)
    items = coins.permutation(DESIGN.items)[:moved]
    liars = LyingAnswers(honest=honest, share=share, moved=items, truth=truth, leaving=leaving)
    setting = kind(design=DESIGN, epsilon=Fraction(1), public_seed=derive(seed, "public"), confidence=SURE)
    learner = PosteriorLearner(clusters=2, design=DESIGN, confidence=SURE)
    ended = conduct(Eliminate(setting=setting), learner, liars, devices=USERS, budget=Fraction(1), most_rounds=2000)  # type: ignore[arg-type] # no releases
    posterior = setting.believe(ended.state)
    return int((posterior.cluster != truth).sum()), ended.state.asked[-1].stop


def main(
    share: Annotated[float, typer.Option(help="Share of liars.")] = 0.01,
    items_moved: Annotated[int, typer.Option(help="Items that they move.")] = 7,
    seeds: Annotated[int, typer.Option(help="Runs of each.")] = 20,
    leaving: Annotated[bool, typer.Option("--leaving", help="They let go of items while pools shrink.")] = False,
) -> None:
    """Print wrong labels and devices asked, means with standard errors."""
    for name, kind in (("told", TrueLevels), ("fitted", Setting)):
        runs = np.array([wrong(kind, share, items_moved, seed, leaving=leaving) for seed in range(seeds)])
        mean, error = runs.mean(axis=0), runs.std(axis=0, ddof=1) / math.sqrt(seeds)
        print(
            f"levels {name}: {mean[0]:.1f} ± {error[0]:.1f} wrong, {mean[1] / 1e6:.2f} ± {error[1] / 1e6:.2f} million"
        )


if __name__ == "__main__":
    typer.run(main)
