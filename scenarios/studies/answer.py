"""The answer of a study of trust: what lists are worth on each rung, how many people that takes, what to do, the risk.

Terminal, page, notebook and JSON read this one object; a study hands in what it measured as `Curve` objects.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field
from rich.console import Console

from coordinator.protocol.arrays import Floats
from coordinator.protocol.budget import ADD_REMOVE, REPLACE
from coordinator.protocol.composition import pure_delta
from coordinator.protocol.trust_models import (
    CURATOR,
    LOCAL,
    SHUFFLED,
    TRUST,
    TWO_SERVERS,
    TWO_TIER,
    UPWARDS,
    TrustModel,
    sentences,
)
from scenarios.config.settings import Target
from scenarios.show.tables import remark, short, show_table
from scenarios.studies.crossing import is_close, over_seeds_and_people, people_for
from scenarios.studies.rates import MARKS, ViewName, ViewRisk

if TYPE_CHECKING:
    import pandas as pd

VOLUNTEERS = TWO_TIER
RISK = "risk"  # Stands for the trust model of units that measure how often guesses are right of another row
Case = Literal["enough", "undecided", "too few people", "out of reach", "no guarantee"]
ALWAYS, UNKNOWN = "always", "not known"


RUNGS = {name: TRUST[name] for name in (*reversed(UPWARDS), VOLUNTEERS)}
"""Rungs in the order of tables: from most trust to none, and volunteers beside them."""


class AnswerPart(BaseModel):
    """A part of the answer, checked where it is read from a file: finite numbers, and no field but those known."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class MeasuredWorth(AnswerPart):
    """A number and its interval of 95 %, over splits and people."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Floats) -> Self:
        """MeasuredWorth from shape (splits, 1 + samples): among everybody, and among samples of people."""
        mean, low, high = over_seeds_and_people(values[:, 0].tolist(), list(values[:, 1:]))
        return cls(value=mean, low=max(low, 0.0), high=high)


class PeopleRange(AnswerPart):
    """People that the target takes.

    Where ``value`` is None, ``high`` are people who surely suffice and ``low`` are people who surely do not; without
    either nothing is known. Beside a value, None is an end below ``least`` or beyond ``most``.
    """

    value: int | None
    low: int | None
    high: int | None
    least: int  # Fewest and most people measured with a guarantee
    most: int


class Cell(AnswerPart):
    """What was measured of a mechanism; it has a guarantee, or is of volunteers."""

    rung: str
    mechanism: str
    epsilon: float | None = Field(gt=0)  # [nats], of who is trusted or of a device; None: volunteers
    device_epsilon: float | None = Field(gt=0)  # [nats], shuffled: what is left if the shuffler lies; None: nothing
    delta: float = Field(ge=0, le=1)
    neighbours: Literal["replace", "add-remove"]
    people: int = Field(ge=1)
    worth: MeasuredWorth  # NDCG at 10
    share: MeasuredWorth  # Of the list without privacy, paired by split and by sample of people
    leads: bool  # Whether it is its rung's best at this epsilon and number of people

    @property
    def right(self) -> float:
        """How often a guess between two equally likely histories is right at most; of volunteers always."""
        return right_at_most(self.epsilon, self.delta, neighbours=self.neighbours)


class Rung(AnswerPart):
    """A rung at an epsilon, with the people there are."""

    key: str
    cell: Cell | None  # What leads with them; None where nothing has a guarantee
    reaches: Literal["yes", "perhaps", "no"]
    needed: PeopleRange | None
    right: float | None  # A guess between two equally likely histories is right so often at most
    right_if_they_lie: float | None
    risks: tuple[ViewRisk, ...] = ()  # How often guesses are right, measured; nothing where it was not

    def risk(self, view: ViewName) -> ViewRisk | None:
        """Return what was measured of a view; None where only the bound is known."""
        return next((risk for risk in self.risks if risk.view == view and risk.whose is not None), None)


class Advice(AnswerPart):
    """What to do, and why."""

    case: Case
    headline: str
    beside: str
    rule: str


class AtEpsilon(AnswerPart):
    """The answer at an epsilon."""

    epsilon: float = Field(gt=0)  # [nats]
    rungs: tuple[Rung, ...]
    advice: Advice


class Answer(AnswerPart):
    """Who has to be trusted for which worth, with how many people, and at what risk."""

    file: str
    people: int
    items: int
    splits: int
    sampling: str = "splits"  # What so many of there are
    periods: int = Field(default=1, ge=1)  # For which one epsilon holds
    share: float = Field(gt=0)  # The target: this share ...
    of: Target  # ... of this list without privacy
    best: MeasuredWorth  # NDCG at 10
    best_name: str
    popularity: MeasuredWorth
    volunteers: float  # Share of people whose ratings are public
    cells: tuple[Cell, ...]
    by_epsilon: tuple[AtEpsilon, ...]
    left_out: tuple[str, ...]  # What has no guarantee, in words
    others: str = ""  # What was not looked at, and the command that does

    @property
    def whole(self) -> MeasuredWorth:
        """The worth of the list without privacy that shares are about."""
        return self.best if self.of == "best" else self.popularity


@dataclass(frozen=True, kw_only=True, eq=False)
class Curve:
    """What a study measured of a mechanism at an epsilon, by number of people."""

    rung: str
    mechanism: str
    epsilon: float | None  # [nats]; None: volunteers
    # By people: NDCG at 10, shape (splits, 1 + samples): among everybody, and among samples of people
    worth: Mapping[int, Floats]
    delta: Mapping[int, float]
    device_epsilon: Mapping[int, float | None]
    neighbours: Literal["replace", "add-remove"] = "replace"
    unguaranteed: frozenset[int] = frozenset()  # Numbers of people with which delta exceeds 1 / people


@dataclass(frozen=True, kw_only=True, eq=False)
class AnswerInputs:
    """All that an answer is made of."""

    file: str
    people: int
    items: int
    curves: Sequence[Curve]
    best: Floats  # NDCG at 10 of lists without privacy, shape (splits, 1 + samples)
    best_name: str
    popularity: Floats
    file_error: Mapping[str, float]  # Of a rung: see `crossing.among_files`
    volunteers: float = 0.0
    others: str = ""
    # Of the mechanism that leads a rung at an epsilon: how often guesses are right
    risks: Mapping[tuple[str, str, float], tuple[ViewRisk, ...]] = field(default_factory=dict)
    sampling: tuple[int, str] | None = None  # How many of what there are, where that is other than splits
    periods: int = 1

    def answer(self, *, share: float, of: Target) -> Answer:
        """Return the answer for a target."""
        base = self.best if of == "best" else self.popularity
        base = np.where(base > 0, base, base.mean())
        leading = {key: _leaders(curves) for key, curves in self._groups().items()}
        cells = tuple(_cells(self.curves, leading, base))
        epsilons = sorted({curve.epsilon for curve in self.curves if curve.epsilon is not None})
        keys = [key for key in RUNGS if any(curve.rung == key for curve in self.curves)]
        made = []
        for epsilon in epsilons:
            rungs = tuple(self._rung(key, epsilon, cells, leading, share, base) for key in keys)
            goal = AdviceGoal(
                share=share, of=of, people=self.people, epsilon=epsilon, most=max(cell.people for cell in cells)
            )
            made.append(AtEpsilon(epsilon=epsilon, rungs=rungs, advice=goal.advice(rungs)))
        return Answer(
            file=self.file,
            people=self.people,
            items=self.items,
            splits=self.sampling[0] if self.sampling else len(base),
            sampling=self.sampling[1] if self.sampling else "splits",
            periods=self.periods,
            share=share,
            of=of,
            best=MeasuredWorth.of(self.best),
            best_name=self.best_name,
            popularity=MeasuredWorth.of(self.popularity),
            volunteers=self.volunteers,
            cells=cells,
            by_epsilon=tuple(made),
            left_out=_without_guarantee(self.curves),
            others=self.others,
        )

    def _groups(self) -> dict[tuple[str, float | None], list[Curve]]:
        groups: dict[tuple[str, float | None], list[Curve]] = {}
        for curve in self.curves:
            groups.setdefault((curve.rung, curve.epsilon), []).append(curve)
        return groups

    def _rung(
        self,
        key: str,
        epsilon: float,
        cells: Sequence[Cell],
        leading: Mapping[tuple[str, float | None], Mapping[int, Curve]],
        share: float,
        base: Floats,
    ) -> Rung:
        at = None if key == VOLUNTEERS else epsilon
        leaders = leading.get((key, at), {})
        cell = next(
            (cell for cell in cells if cell.leads and (cell.rung, cell.epsilon, cell.people) == (key, at, self.people)),
            None,
        )
        if cell is None:
            return Rung(key=key, cell=None, reaches="no", needed=None, right=None, right_if_they_lie=None)
        reaches = reach_of(cell.share, share)
        if key == VOLUNTEERS:
            return Rung(key=key, cell=cell, reaches=reaches, needed=None, right=cell.right, right_if_they_lie=1.0)
        worth = {people: curve.worth[people] for people, curve in leaders.items()}
        lie = {LOCAL: cell.right, SHUFFLED: right_at_most(cell.device_epsilon)}.get(key, 1.0)
        needed = people_needed(worth, base, share, self.file_error.get(key, 0.0))
        return Rung(
            key=key,
            cell=cell,
            reaches=reaches,
            needed=needed,
            right=cell.right,
            right_if_they_lie=lie,
            risks=self.risks.get((key, cell.mechanism, epsilon), ()),
        )


def _leaders(curves: Sequence[Curve]) -> dict[int, Curve]:
    """Return the best mechanism of a rung at each number of people, as far as the leader before it has a guarantee.

    What is left beyond that is worse because of its delta; a curve through it would say that more people make lists
    worse. A number of people that was measured to locate a crossing need not have all mechanisms.
    """
    leaders, before = dict[int, Curve](), None
    for people in sorted({people for curve in curves for people in curve.worth}):
        if before is not None and people in before.unguaranteed:
            break
        there = [curve for curve in curves if people in curve.worth and people not in curve.unguaranteed]
        if there:
            before = leaders[people] = max(there, key=lambda curve: float(curve.worth[people][:, 0].mean()))
    return leaders


def _cells(
    curves: Sequence[Curve], leading: Mapping[tuple[str, float | None], Mapping[int, Curve]], base: Floats
) -> Iterable[Cell]:
    for curve in curves:
        for people in sorted(curve.worth.keys() - curve.unguaranteed):
            yield Cell(
                rung=curve.rung,
                mechanism=curve.mechanism,
                epsilon=curve.epsilon,
                device_epsilon=curve.device_epsilon[people],
                delta=curve.delta[people],
                neighbours=curve.neighbours,
                people=people,
                worth=MeasuredWorth.of(curve.worth[people]),
                share=MeasuredWorth.of(curve.worth[people] / base),
                leads=leading[curve.rung, curve.epsilon].get(people) is curve,
            )


def _without_guarantee(curves: Sequence[Curve]) -> tuple[str, ...]:
    fewest = {
        (RUNGS[curve.rung].short, curve.mechanism): min(curve.unguaranteed) for curve in curves if curve.unguaranteed
    }
    return tuple(
        f"{rung}, {mechanism}: from {people:,} people on" for (rung, mechanism), people in sorted(fewest.items())
    )


def reach_of(share: MeasuredWorth, target: float) -> Literal["yes", "perhaps", "no"]:
    """Return whether an interval lies at or above the target, holds it, or lies below it."""
    return "yes" if share.low >= target else "perhaps" if share.high >= target else "no"


def people_needed(worth: Mapping[int, Floats], base: Floats, share: float, file_error: float) -> PeopleRange:
    """Return how many people a share of the list without privacy takes, by what was measured with some numbers of them.

    Shapes of worth and base: (splits, 1 + samples), paired. Where the share is not bracketed from both sides there is a
    bound: the fewest people whose whole interval reaches it, or the most whose whole interval misses it.
    """
    ends = {"least": min(worth), "most": max(worth)}
    located = people_for(worth, base, share, file_error)
    bracketed = located["users"] is not None and not located["at_most"]
    if bracketed and is_close(located["few"], located["many"]):
        return PeopleRange(value=located["users"], low=located["users_low"], high=located["users_high"], **ends)
    by_people = {people: reach_of(MeasuredWorth.of(values / base), share) for people, values in worth.items()}
    enough = [people for people, reaches in by_people.items() if reaches == "yes"]
    short_of = [people for people, reaches in by_people.items() if reaches == "no"]
    # Between numbers of people far apart nothing is interpolated: the most that miss it and the fewest that reach it
    low = None if located["at_most"] else max(short_of, default=None)
    high = None if located["users"] is None else min(enough, default=None)
    return PeopleRange(value=None, low=low, high=high, **ends)


# ---- Risk


def right_at_most(epsilon: float | None, delta: float = 0.0, *, neighbours: str = REPLACE, askings: int = 1) -> float:
    """Bound how often a guess between two equally likely histories of a person is right, whatever else is known.

    Parameters
    ----------
    epsilon
        Of one asking [nats]; None where nothing is promised.
    delta
        What chances may exceed ``e^epsilon`` times the neighbours' by.
    neighbours
        ``replace``: two histories are neighbours. ``add-remove``: from one to the other are two steps, which take
        ``2 epsilon`` and ``(1 + e^epsilon) delta``.
    askings
        How often one is asked under this epsilon and delta, about whatever.

    Returns
    -------
    float
        At most ``(e^epsilon + delta) / (1 + e^epsilon)``: false alarms a and misses b obey ``a + e^epsilon b >= 1 -
        delta`` and the same exchanged, whose sum bounds the errors. Randomized response that tells all with probability
        delta attains it. Of m askings at most ``1 - (1 - delta)^m P``, P how often the majority of m bits of randomized
        response is wrong, a tie half. Source: Kairouz, Oh and Viswanath (2015), theorem 3.3.

    >>> round(right_at_most(1), 5), right_at_most(None), round(right_at_most(0.5, neighbours="add-remove"), 5)
    (0.73106, 1.0, 0.73106)
    >>> round(right_at_most(1, askings=12), 4)
    0.9519
    """
    if epsilon is None:
        return 1.0
    if neighbours == ADD_REMOVE:
        epsilon, delta = 2 * epsilon, delta * (1 + math.exp(min(epsilon, 700.0)))
    epsilon, delta = min(epsilon, 700.0), min(delta, 1.0)  # beyond which all is told
    wrong = 1 / (1 + math.exp(epsilon)) if askings == 1 else (1 - pure_delta(epsilon, askings, 0.0)) / 2
    return min(1.0, math.nextafter(1 - (1 - delta) ** askings * wrong, 2.0))


def times_text(right: float) -> str:
    """Return how often a guess is right, rounded up: a bound never looks better than it is.

    >>> times_text(0.73106), times_text(0.99859), times_text(1.0)
    ('74 of 100', '999 of 1,000', 'always')
    """
    for power in range(2, 7):
        if (times := math.ceil(right * 10**power)) < 10**power:
            return f"{times:,} of {10**power:,}"
    return ALWAYS


def lie_text(rung: Rung) -> str:
    """Return how often a guess is right if who is trusted lies, as a cell of a table has it."""
    fixed = {CURATOR: ALWAYS, TWO_SERVERS: f"both: {ALWAYS}", LOCAL: "nobody could", VOLUNTEERS: ""}
    return fixed[rung.key] if rung.key in fixed else times_text(rung.right_if_they_lie or 1.0)


# ---- Words


def people_text(needed: PeopleRange) -> str:
    """Return how many people are needed: a point only where it is bracketed from both sides, else a bound."""
    if needed.value is None:
        if needed.low is not None and needed.high is not None:
            return f"{short(needed.low)} to {short(needed.high)}"
        if needed.high is not None:
            return f"< {short(needed.high)}"
        return UNKNOWN if needed.low is None else f"> {short(needed.low)}"
    low = f"< {short(needed.least)}" if needed.low is None else short(needed.low)
    high = f"> {short(needed.most)}" if needed.high is None else short(needed.high)
    return f"{short(needed.value)} [{low}, {high}]"


def _people_phrase(needed: PeopleRange) -> str:
    text = people_text(needed)
    for sign, phrase in (("> ", "more than "), ("< ", "fewer than ")):
        if text.startswith(sign):
            return phrase + text.removeprefix(sign)
    return text


def share_text(share: MeasuredWorth, target: float) -> str:
    """Return a share in whole per cent, with a decimal where rounding would hide on which side of the target it lies.

    >>> share_text(MeasuredWorth(value=0.886, low=0.88, high=0.898), 0.9)
    '89 % [88, 89.8]'
    """

    def percent(value: float) -> str:
        whole, reaches = round(100 * value), value >= target
        if (whole >= 100 * target) == reaches:
            return f"{whole}"
        return f"{(math.ceil if reaches else math.floor)(1000 * value) / 10:.1f}"

    return f"{percent(share.value)} % [{percent(share.low)}, {percent(share.high)}]"


def worth_text(worth: MeasuredWorth) -> str:
    """Return NDCG with half its interval, as a cell of a table has it."""
    return f"{worth.value:.3f}±{(worth.high - worth.low) / 2:.3f}".replace("0.", ".")


@dataclass(frozen=True, slots=True, kw_only=True)
class AdviceGoal:
    """What is asked for, and the advice that follows from what the rungs reach."""

    share: float
    of: Target
    people: int
    epsilon: float
    most: int  # People measured at most

    @property
    def text(self) -> str:
        """The target in words."""
        return f"{100 * self.share:g} % of {'your best list' if self.of == 'best' else 'popularity'}'s worth"

    def rule(self, rungs: Sequence[Rung]) -> str:
        """Return the rule by which rungs are advised."""
        keys = {rung.key for rung in rungs}
        looked = ", ".join(RUNGS[key].short for key in UPWARDS if key in keys)
        beside = " Volunteers stand apart: their ratings are public." if VOLUNTEERS in keys else ""
        return (
            f"Rule: the least trust whose whole interval of 95 % reaches {self.text} without privacy, with your "
            f"people; looked at, in this order: {looked}.{beside}"
        )

    def advice(self, rungs: Sequence[Rung]) -> Advice:
        """Return the advice: the least trust whose whole interval reaches the target with the people there are."""
        at = {rung.key: rung for rung in rungs}
        steps = [
            LadderStep(model=RUNGS[key], share=cell.share, needed=needed, rung=at[key])
            for key in UPWARDS
            if key in at and (cell := at[key].cell) is not None and (needed := at[key].needed) is not None
        ]
        rule, silent = self.rule(rungs), [RUNGS[key].short for key in UPWARDS if key in at and at[key].cell is None]
        if not steps:
            headline = f"With your {self.people:,} people nothing is promised: delta exceeds 1 / people."
            return Advice(case="no guarantee", headline=headline, beside="Give a smaller --delta.", rule=rule)
        enough = next((step for step in steps if step.rung.reaches == "yes"), None)
        before = steps[: steps.index(enough)] if enough else steps
        perhaps = [step for step in before if step.rung.reaches == "perhaps"]
        if enough is None and not perhaps:
            case, headline, beside = self._too_few(steps)
        else:
            case, headline, beside = self._enough(enough, before, perhaps)
        if silent:
            beside.append(f"No guarantee with so many people, since delta exceeds 1 / people: {', '.join(silent)}.")
        return Advice(case=case, headline=headline, beside=" ".join(beside), rule=rule)

    def _too_few(self, steps: Sequence["LadderStep"]) -> tuple[Case, str, list[str]]:
        top = max(steps, key=lambda step: step.share.value)
        most = f"the best of the table has {share_text(top.share, self.share)}, with {top.model.party}."
        if all(step.needed.value is None for step in steps):
            headline = f"No rung reaches {self.text} at epsilon {self.epsilon:g} with up to {short(self.most)} people: "
            remedy = "Ask for less (--worth), for a larger epsilon, or for volunteers."
            return "out of reach", f"{headline}with yours {most}", [remedy]
        headline = f"Your {self.people:,} people are too few for {self.text} at epsilon {self.epsilon:g}: {most}"
        takes = [f"{step.trusting} would take {_people_phrase(step.needed)} people." for step in _nearest(steps)]
        return "too few people", headline, takes

    def _enough(
        self, enough: "LadderStep | None", before: Sequence["LadderStep"], perhaps: Sequence["LadderStep"]
    ) -> tuple[Case, str, list[str]]:
        beside = []
        if enough and enough.model.central:
            left, times = enough.model.left, times_text(enough.rung.right_if_they_lie or 1.0)
            if enough.rung.key == SHUFFLED:
                left += (
                    ": a guess may always be right" if times == ALWAYS else f": a guess is right up to {times} times"
                )
            beside.append(sentences(left))
        if perhaps:
            names = " or ".join(f"{step.model.party} ({share_text(step.share, self.share)})" for step in perhaps[::-1])
            beside.append(f"Trusting {names} may do; more splits (--seeds) would tell.")
        beside += [
            f"{step.trusting} misses it with {share_text(step.share, self.share)}, and would take "
            f"{_people_phrase(step.needed)} people."
            for step in _nearest([step for step in before if step.rung.reaches == "no"])
        ]
        people = f"with your {self.people:,} people"
        if enough is None:
            headline = f"Undecided: at epsilon {self.epsilon:g} no rung surely reaches {self.text} {people}."
            return "undecided", headline, beside
        share = share_text(enough.share, self.share)
        headline = f"{enough.trusting} is enough to keep {self.text}: {share} {people}, at epsilon {self.epsilon:g}."
        return "enough", headline, beside


@dataclass(frozen=True, slots=True, kw_only=True)
class LadderStep:
    """A rung of the ladder that has a guarantee, as the advice looks at it."""

    model: TrustModel
    share: MeasuredWorth
    needed: PeopleRange
    rung: Rung

    @property
    def trusting(self) -> str:
        """The subject of a sentence."""
        return f"Trusting {self.model.party}"


def _nearest(steps: Sequence[LadderStep]) -> list[LadderStep]:
    """Return the rung that takes the fewest people, and the one of least trust, where that is known."""
    bounded = [step for step in steps if people_text(step.needed) != UNKNOWN]
    closest = min(bounded, key=lambda step: math.inf if step.needed.value is None else step.needed.value, default=None)
    return [] if closest is None else [closest] if closest is bounded[0] else [closest, bounded[0]]


# ---- The terminal


def show_answer(console: Console, answer: Answer, more: str = "") -> None:
    """Print the table of each epsilon, its advice, and where the rest lies."""
    setting = f"{answer.people:,} people, {answer.items:,} items, {answer.splits} {answer.sampling}"
    for at in answer.by_epsilon:
        columns, lines = answer_table(answer, at)
        title = f"{answer.file}: {setting}; epsilon {at.epsilon:g}"
        show_table(console, columns, lines, title=title, words=columns[:1], compact=True)
        mechanisms = [f"{RUNGS[rung.key].short} {rung.cell.mechanism}" for rung in at.rungs if rung.cell]
        remark(
            console,
            f"With {', '.join(mechanisms)}. Intervals are of 95 %. {_guesses_text(at)}",
            "",
            at.advice.headline,
            *([at.advice.beside] if at.advice.beside else []),
            at.advice.rule,
            "",
        )
    remark(console, *(line for line in (answer.others, more) if line))


def _guesses_text(at: AtEpsilon) -> str:
    """Return what the columns about guesses say."""
    bound = (
        "of two equally likely histories of a person, whoever sees what a rung lets out tells the true one so often at "
        "most; a coin, 50 of 100."
    )
    if not any(rung.risks for rung in at.rungs):
        return f"At most: {bound}"
    upwards = any(MARKS.get(risk.how) for rung in at.rungs for risk in rung.risks if risk.view == "holds")
    return (
        f"At most: {bound} Whose: how often of 100 the best attack does, of two people's histories"
        f"{' (* from above)' * upwards}; with intervals and of one item: blindrec risk, or a page."
    )


def answer_table(answer: Answer, at: AtEpsilon) -> tuple[tuple[str, ...], list[list[str]]]:
    """Return the names of the columns at an epsilon, and the lines; what a line has no more texts for is empty."""
    people = f"people for {100 * answer.share:g} %"
    measured = any(rung.risks for rung in at.rungs)
    columns = ["who is trusted", "NDCG at 10", f"of {answer.of}", people, *(["whose"] * measured)]
    lines = [
        *(_line(answer, rung, measured=measured) for rung in at.rungs),
        *_without_privacy(answer, measured=measured),
    ]
    return (*columns, "at most", "if they lie"), lines


def answer_frame(result: Mapping[str, Any]) -> "pd.DataFrame":
    """Return the tables of a result's answer, one epsilon below the other."""
    import pandas as pd  # noqa: PLC0415 (a plan of the block model loads no table)

    answer, rows = Answer.model_validate(result["answer"]), list[dict[str, float | str]]()
    for at in answer.by_epsilon:
        columns, lines = answer_table(answer, at)
        rows += [{"epsilon": at.epsilon, **dict(zip(columns, line, strict=False))} for line in lines]
    return pd.DataFrame(rows).fillna("")


def whose_text(rung: Rung) -> str:
    """Return how often the best attack tells two people's histories apart, of 100 times; - where none is known."""
    risk = rung.risk("holds")
    return "-" if risk is None or risk.whose is None else f"{100 * risk.whose.mean.value:.1f}{MARKS.get(risk.how, '')}"


def _line(answer: Answer, rung: Rung, *, measured: bool) -> list[str]:
    name = RUNGS[rung.key].party
    if rung.cell is None:
        return [name, "no guarantee"]
    start = [worth_text(rung.cell.worth), share_text(rung.cell.share, answer.share)]
    if rung.key == VOLUNTEERS:
        return [f"{100 * answer.volunteers:g} % {name}", *start, "", *([""] * measured), "public", ""]
    needed = "" if rung.needed is None else people_text(rung.needed)
    whose = [whose_text(rung)] * measured
    return [name, *start, needed, *whose, times_text(rung.right or 1.0), lie_text(rung)]


def _without_privacy(answer: Answer, *, measured: bool) -> list[list[str]]:
    lists, blank = {answer.best_name: answer.best, "popularity": answer.popularity}, [""] * (1 + measured)
    return [
        [f"all see: {name}", worth_text(worth), f"{100 * worth.value / answer.whole.value:.0f} %", *blank, ALWAYS, ""]
        for name, worth in lists.items()
    ]
