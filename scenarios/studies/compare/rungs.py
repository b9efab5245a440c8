"""The answer of a comparison: its rows as curves of rungs, beside the lists without privacy."""

from collections import defaultdict
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from coordinator.protocol.arrays import Floats
from coordinator.protocol.trust_models import SHUFFLED
from scenarios.data.datasets import RatingTable
from scenarios.families.two_tier.two_tier_scenario import NONE
from scenarios.studies.answer import RISK, RUNGS, VOLUNTEERS, Answer, AnswerInputs, Curve
from scenarios.studies.compare.comparison_settings import Comparison
from scenarios.studies.compare.row import is_promise
from scenarios.studies.compare.rows.public_users import COMPLETIONS
from scenarios.studies.compare.scales import CHANCE
from scenarios.studies.compare.scoring import TOP, CompareKey, CompareMeasurement, ListScores, rows_of
from scenarios.studies.compare.summary import FEATURES, POWERS, mechanism_of
from scenarios.studies.compare.worlds import world_of
from scenarios.studies.crossing import among_files, over_seeds_and_people
from scenarios.studies.rates import ViewRisk

Units = Mapping[CompareKey, CompareMeasurement]
FEWEST = 400  # People whose lists can be scored, for an answer; see docs/explanation/worth.md
_POPULARITY, _CHANCE = ("none", "popularity", "", "", False), ("none", CHANCE, "", "", False)


def too_small(table: RatingTable) -> str | None:
    """Return why nothing can be said of a file, before anything is measured; None where something may be."""
    if table.count <= 2 * TOP:
        return f"the file has {table.count} items; lists of ten say something among more than {2 * TOP}"
    return _too_few(table.users)


def _too_few(people: int, which: str = "") -> str | None:
    count = f"{people:,} {'person' if people == 1 else 'people'}{which}"
    return f"the file has {count}, and fewer than {FEWEST} say little of people like them" if people < FEWEST else None


def why_no_answer(settings: Comparison, units: Units, table: RatingTable) -> str | None:
    """Return why a comparison says nothing of people like a file's; None where it does."""
    if why := too_small(table):
        return why
    scored = [scores.people for key, unit in units.items() if key[:2] == _POPULARITY[:2] for scores in unit.scores]
    if scored and (why := _too_few(min(scored), " with likes to hold out")):
        return why
    worths, _ = _worths(units, settings.seeds)
    plain, random = (worths.get(name, {}).get(table.users) for name in (_POPULARITY, _CHANCE))
    if plain is None or random is None:
        return None
    gap = plain - random
    if over_seeds_and_people(gap[:, 0].tolist(), list(gap[:, 1:]))[1] > 0:
        return None
    return (
        f"popularity (NDCG {plain[:, 0].mean():.3f}) is not surely better than random lists "
        f"({random[:, 0].mean():.3f}) among the file's people; worth is told as shares of lists without privacy"
    )


def answer_of(settings: Comparison, units: Units, table: RatingTable, others: str = "") -> Answer | None:
    """Return the answer, or None where no list without privacy or no rung was measured."""
    worths, about = _worths(units, settings.seeds)
    plain = {
        name: values[table.users] for name, values in worths.items() if name[0] == "none" and table.users in values
    }
    popularity = plain.get(_POPULARITY)
    curves = [_curve(settings, name, values, about) for name, values in worths.items() if is_of_rung(settings, name)]
    if popularity is None or not any(curve.epsilon is not None for curve in curves):
        return None
    best_name, best = max(
        ((name, worth) for name, worth in plain.items() if name[1] != CHANCE), key=lambda pair: pair[1][:, 0].mean()
    )
    world = world_of(settings, settings.seed)
    study = AnswerInputs(
        file=settings.ratings.name,
        people=settings.users_at(table.users, 1.0),
        items=table.count,
        curves=curves,
        best=best,
        best_name=_name(best_name),
        popularity=popularity,
        file_error={model: among_files(world.popularity, world.people, power) for model, power in POWERS.items()},
        volunteers=min(settings.public),
        others=others,
        risks=_risks(units),
    )
    return study.answer(share=settings.worth, of=settings.of)


def _risks(units: Units) -> dict[tuple[str, str, float], tuple[ViewRisk, ...]]:
    """Return how often guesses are right of rows that lead rungs: features are used on the device alone."""
    risks = dict[tuple[str, str, float], tuple[ViewRisk, ...]]()
    for key, unit in units.items():
        if key.trust_model == RISK:
            rung, mechanism = key.mechanism.split(": ", 1)
            for name in (mechanism, f"{mechanism}{FEATURES}"):
                risks[rung, name, float(Fraction(key.epsilon))] = unit.risks
    return risks


Name = tuple[str, str, str, str, bool]
"""Trust model, mechanism, epsilon, share of public people, and whether public features are used."""


def _worths(
    units: Units, splits: int
) -> tuple[dict[Name, dict[int, Floats]], dict[tuple[Name, int], CompareMeasurement]]:
    """Return NDCG of all rows that every split has measured, by number of people, shape (splits, 1 + samples)."""
    scores: dict[Name, dict[int, dict[int, ListScores]]] = defaultdict(lambda: defaultdict(dict))
    about: dict[tuple[Name, int], CompareMeasurement] = {}
    for key, unit in units.items():
        for of_variant in unit.scores:
            name = (key.trust_model, key.mechanism, key.epsilon, key.public, of_variant.features)
            scores[name][key.users][key.seed] = of_variant
            about[name, key.users] = unit
    worths = {
        name: {
            users: np.array([[of[seed].ndcg, *of[seed].resampled["ndcg"]] for seed in sorted(of)])
            for users, of in by_people.items()
            if len(of) == splits
        }
        for name, by_people in scores.items()
    }
    return worths, about


def is_of_rung(settings: Comparison, name: Name) -> bool:
    """Return whether a row is a curve of the answer: of a rung with an epsilon, or of volunteers alone."""
    model, mechanism, epsilon, public, _ = name
    if model == VOLUNTEERS:  # of rows in which the others send nothing, with the smallest share of public people
        sends = COMPLETIONS.get(mechanism, NONE) != NONE or settings.people is not None  # of the file's, not of others
        return not epsilon and not sends and public == f"{min(settings.public):g}"
    return model in RUNGS and epsilon not in {"", "inf"}


def _curve(
    settings: Comparison,
    name: Name,
    worth: Mapping[int, Floats],
    about: Mapping[tuple[Name, int], CompareMeasurement],
) -> Curve:
    model, mechanism, epsilon, _, _ = name
    row = rows_of(settings)[f"{model}: {mechanism}"]
    deltas: dict[int, float] = {users: row.delta(settings, users) or 0.0 for users in worth}
    relation: Any = row.neighbours(settings)
    return Curve(
        rung=model,
        mechanism=_name(name),
        epsilon=float(Fraction(epsilon)) if epsilon else None,
        worth=worth,
        delta=deltas if epsilon else dict.fromkeys(worth, 0.0),
        device_epsilon={users: about[name, users].epsilon_local if model == SHUFFLED else None for users in worth},
        neighbours=relation,
        unguaranteed=frozenset(users for users in worth if epsilon and not is_promise(deltas[users], users)),
    )


def _name(name: Name) -> str:
    return mechanism_of({"mechanism": name[1], "features": name[4]})
