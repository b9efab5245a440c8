"""Plans under a central epsilon, behind a shuffler or of two servers: what devices answer changes with their number."""

import math
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any

from coordinator.protocol.budget import as_json
from coordinator.protocol.channels import LARGEST_EPSILON
from coordinator.protocol.errors import InputError
from coordinator.protocol.mechanism import FIXED, ONE_ROUND
from coordinator.protocol.moments.blocks import PairMoments
from coordinator.protocol.moments.probabilities import root_between
from coordinator.protocol.trust_models import SHUFFLED, TRUST, TWO_SERVERS
from scenarios.config.accounts import sums_of
from scenarios.config.scenario import EXPECTED
from scenarios.config.shuffled_account import ShuffledAccount
from scenarios.studies.planner.least_users import Candidate, Target
from scenarios.theory.emulated_runs import MOST_USERS
from scenarios.theory.predictors import Predictor, predictor

FINENESS = 0.01  # a number of users, and an epsilon, are searched for to this share of them
FEWEST, STRIDE = 1000, 8  # users that a search begins with, and by how much it goes on
LEAST_EPSILON = Fraction(1, 1000)  # central, that is looked at


def is_predicted(candidate: Candidate) -> bool:
    """Return whether a candidate's design goes with its trust model, and its answers are predicted, not emulated."""
    try:
        run = candidate.at(candidate.world.epsilon)
    except InputError:
        return False
    return run.scenario.policy in (ONE_ROUND, FIXED) and not isinstance(run.moments, PairMoments)


def central_row(
    candidate: Candidate, epsilon: Fraction, target: Target, users: int | None, *, inverse: bool, notes: tuple[str, str]
) -> dict[str, Any]:
    """Return what a row says of the users that a central epsilon takes, or if ``inverse`` of the least such epsilon."""
    plans, row = CentralPlans(candidate, target), {"trust_model": candidate.trust["trust"]}
    if inverse and users:
        least = plans.least_epsilon(users)
        return row | ({"note": notes[1]} if least is None else plans.about(least, users) | {"users": users})
    needed = plans.least_users(epsilon)
    if needed is None:
        most = plans.most_users
        beyond = f"more than {most:,} users, for whom this delta is too large; give a smaller one"
        return row | {"epsilon": as_json(epsilon), "note": notes[0] if most == MOST_USERS else beyond}
    return row | plans.about(epsilon, users or needed) | {"users": needed}


class CentralPlans:
    """What a candidate needs under a central epsilon; each number of users has its own local epsilon, or noise."""

    def __init__(self, candidate: Candidate, target: Target) -> None:
        self._candidate, self._target = candidate, target
        self._prediction = lru_cache(maxsize=None)(self._predicted)

    @property
    def most_users(self) -> int:
        """Most users for whom delta is at most 1 / answers, or whom a plan looks at."""
        scenario = self._candidate.at(self._candidate.world.epsilon).scenario
        if not (delta := scenario.delta):  # of none, or of one that falls with users
            return MOST_USERS
        share = 1.0 if scenario.trust == TWO_SERVERS else scenario.expected_answers or EXPECTED
        return min(MOST_USERS, math.floor(1 / delta / share))

    def least_users(self, epsilon: Fraction) -> int | None:
        """Return the smallest number of users that meets the target at a central epsilon, to a hundredth of it."""
        most = self.most_users
        low, high = 1, min(FEWEST, most)
        while self.margin(epsilon, high) < 0:
            if high >= most:
                return None
            low, high = high, min(STRIDE * high, most)
        if low == 1:  # below so few the search goes by whole numbers
            while high > 1 and self.margin(epsilon, max(high // 2, 1)) >= 0:
                high = max(high // 2, 1)
            low = max(high // 2, 1)
        if high == 1:
            return 1
        log_users = root_between(
            lambda log: self.margin(epsilon, round(math.exp(log))), math.log(low), math.log(high), width=FINENESS
        )
        needed = math.ceil(math.exp(log_users))
        while self.margin(epsilon, needed) < 0:  # the root lies within the tolerance, on either side
            needed += max(1, math.ceil(needed * FINENESS))
        return needed

    def least_epsilon(self, users: int) -> Fraction | None:
        """Return the smallest central epsilon with which so many users meet the target, to a hundredth of it."""
        low, high = LEAST_EPSILON, LEAST_EPSILON
        while self.margin(high, users) < 0:
            if high >= LARGEST_EPSILON:
                return None
            low, high = high, min(4 * high, Fraction(LARGEST_EPSILON))
        while high / low > 1 + FINENESS:
            middle = Fraction(math.sqrt(low * high)).limit_denominator(10**6)
            low, high = (low, middle) if self.margin(middle, users) >= 0 else (middle, high)
        return high

    def margin(self, epsilon: Fraction, users: int) -> float:
        """Return by how much so many users meet the target, in log-odds; negative where they do not."""
        prediction = self._prediction(epsilon, users)
        return -1e3 if prediction is None else self._target.margin(prediction, users)

    def about(self, epsilon: Fraction, users: int) -> dict[str, Any]:
        """Return a row's values for this many users: their shares right, and what is left if trust is misplaced."""
        run = self._candidate.at(epsilon, users=users)
        prediction = self._prediction(epsilon, users)
        assert prediction is not None  # of what was looked for
        account, guarantee = run.account, run.account.guarantee
        if isinstance(account, ShuffledAccount):  # what each device keeps by itself, and what that counts on
            settings = run.scenario.settings.model_dump()
            more: dict[str, Any] = {
                "epsilon_local": as_json(account.answer_local),
                "amplified_for": account.devices,
                "bound": account.bound,
                **({"own_questions": True} if run.scenario.own_questions else {}),
                **{name: settings[name] for name in ("padded", "chosen") if name in settings},
            }
        else:
            query = run.design.query(round_number=0, public_seed=bytes(16), epsilon=account.budget)
            more = {"noise": run.scenario.value("noise"), **sums_of([query], users)}
        shares = {"accuracy": prediction.accuracy(users), "exact": prediction.exact(users)}
        relation = {"guarantee": guarantee.text, "neighbours": guarantee.neighbours, "delta": guarantee.delta}
        return {**shares, "epsilon": as_json(epsilon), **relation, **more}

    def _predicted(self, epsilon: Fraction, users: int) -> Predictor | None:
        try:
            return predictor(self._candidate.at(epsilon, users=users))
        except InputError:  # of so few users that delta is above 1 / answers, or of an epsilon that no channel has
            return None


def promise_in_words(row: Mapping[str, Any]) -> str:
    """Say under which local epsilon devices of a row answer, or what noise sums have, and what that counts on."""
    if row.get("noise_deviation") is not None:
        counted = f", counted on {row['honest_noise']:,} honest ones" if row["honest_noise"] else ""
        return (
            f"{row['design']}: noise of {row['noise']}{counted}, deviation {row['noise_deviation']:.4g} of a total; a "
            f"device sends {row['bytes_per_device']:,} bytes; trusted: {row['trusted']}; {row['if_trust_fails']}"
        )
    return (
        f"{row['design']}: devices answer under a local epsilon of {row['epsilon_local']:.4g}, counted on "
        f"{row['amplified_for']:,} answers; {TRUST[SHUFFLED].left}"
    )
