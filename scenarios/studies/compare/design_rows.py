"""Rows of mechanisms that a comparison is asked for by name: any of blindrec's, or a class of somebody's own."""

from collections.abc import Mapping, Set
from dataclasses import replace
from functools import cache, partial
from typing import Any

from coordinator.protocol.custom import UserClass, settings_of
from coordinator.protocol.custom_adapter import adapter
from coordinator.protocol.errors import InputError, name_choices
from coordinator.protocol.mechanism import Settings
from coordinator.protocol.trust_models import LOCAL, SHUFFLED
from scenarios.config.custom_kinds import custom_kind_of, custom_of
from scenarios.config.identity import identity
from scenarios.config.mechanism_settings import designs
from scenarios.config.resolve import resolve
from scenarios.studies.compare.comparison_settings import EVERY_ROW, Comparison
from scenarios.studies.compare.row import RowRequest
from scenarios.studies.compare.rows import registered_rows
from scenarios.studies.compare.run_row import RunRow

SHOWN = 8  # Digits of the digest of source and settings that a row's name carries: changed code is another row


@cache
def _rows(design: Settings) -> tuple[RunRow, ...]:
    """Return a design's rows: where nobody is trusted and behind a shuffler, or with two servers."""
    if isinstance(design, UserClass):
        name, settings = f"{type(design).__name__}@{identity(design)[:SHOWN]}", dict[str, Any]()
        asks = adapter(custom_of(design))
        make = partial(RunRow, mechanism=name, design=design, has_law=asks.has_law or asks.adds_up)
        offers: Any = custom_kind_of(type(design))
    else:
        whole: Any = design  # a mechanism with its settings
        offers = whole
        settings = design.model_dump(exclude_defaults=True)
        has_law = whole.has_law or whole.adds_up
        name = " ".join((whole.name, *(f"{name} {value}" for name, value in settings.items())))
        make = partial(RunRow, mechanism=name, design=whole.name, has_law=has_law)
    if offers.trust != LOCAL:
        return (make(settings=lambda *_: settings, trust_model=offers.trust, approximate=True),)
    local = make(settings=lambda *_: settings)
    if not local.has_law:
        return (local,)
    # Behind a shuffler a device draws its own question where that would follow from its address
    own_questions = {"own_questions": True} if offers.by_address else {}
    shuffled = replace(local, trust_model=SHUFFLED, approximate=True, settings=lambda *_: settings | own_questions)
    return shuffled, local


def design_rows(settings: Comparison) -> Mapping[str, RunRow]:
    """Return the rows of further mechanisms, by name as in `scenarios.studies.compare.rows.registered_rows`."""
    rows = [row for design in settings.design for row in _rows(design) if row.trust_model in settings.trust_models]
    return {f"{row.trust_model}: {row.mechanism}": row for row in rows if row.offered(settings)}


def require_rows(settings: Comparison, names: Set[str]) -> None:
    """Refuse mechanisms that have no row of these names, and say how those are compared that can get one."""
    for name in settings.mechanisms or ():
        if name in designs().keys() - {row.lower() for row in names}:
            raise InputError(f"mechanism {name!r} has a row only where it is asked for; add it with --design {name}")
        if name not in names | {EVERY_ROW}:
            raise InputError(f"mechanism {name!r} is unknown; {name_choices(name, sorted(names))}")


def check_designs(settings: Comparison, people: int, items: int) -> list[str]:
    """Check the channels of further mechanisms at every epsilon, before anything is measured, and describe them."""
    remarks, numbers = [], settings.grid(people)
    for design in settings.design:
        rows = [row for row in _rows(design) if row.trust_model in settings.trust_models]
        custom, path = isinstance(design, UserClass), path_of(design)
        if strange := [row for row in rows if f"{row.trust_model}: {row.mechanism}" in registered_rows()]:
            raise InputError(f"design is {strange[0].mechanism}, which is compared already; leave it out")
        if not rows:
            models = " or ".join(row.trust_model for row in _rows(design))
            raise InputError(f"design is {path}, a row of trust model {models}; add that to --trust-models")
        row = rows[-1]
        if not row.reaches(min(numbers), settings):
            raise InputError(
                f"design is {path}, of which at most {settings.devices} devices answer, as there is no law to draw "
                f"the sum of {min(numbers)} answers from; raise --devices, or lower --scale"
            )
        hows = []
        for epsilon in settings.epsilon:
            request = RowRequest(settings=settings, epsilon=epsilon, users=min(numbers), seed=settings.seed)
            if (checked := resolve(row.scenario_of(items, request)).custom) is not None:
                hows.append(checked[1].how)
        values = "".join(f", {name} {value}" for name, value in values_of(design).items())
        if custom or values:
            how = f"; its channel was {' or '.join(dict.fromkeys(hows))}" if hows else ""
            remarks.append(f"{row.mechanism} is {path}{values}{how}")
        if left := [f"{users:,}" for users in numbers if not row.reaches(users, settings)]:
            remarks.append(
                f"{row.mechanism} is not measured with {', '.join(left)} people: it has no law to draw the sum of "
                f"their answers from, and at most {settings.devices:,} devices answer; raise --devices"
            )
    return remarks


def path_of(design: Settings) -> str:
    """Return a mechanism's name, or a custom one's import path."""
    return str(custom_kind_of(type(design)).name if isinstance(design, UserClass) else getattr(design, "name", ""))


def values_of(design: Settings) -> Mapping[str, Any]:
    """Return a mechanism's settings by name: all of a custom one, of others those that are not as ever."""
    return settings_of(design) if isinstance(design, UserClass) else design.model_dump(exclude_defaults=True)
