"""What is checked of a mechanism that was found: every choice of its settings that can be listed, as a run asks it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal, get_args, get_origin

import numpy as np
from pydantic import ValidationError

from actors.mechanisms import half_of as device_half
from coordinator.protocol.admitted import admit
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.errors import InputError
from coordinator.protocol.mechanisms import half_of as public_half
from coordinator.protocol.messages import Query
from coordinator.protocol.own import Mechanism
from coordinator.server.server_half import POOLED, ServerHalf
from scenarios.conformance.subject import PLAIN, PUBLIC, RUN, TINY, Size, Subject
from scenarios.data.block_world import settle
from scenarios.given.config import Scenario
from scenarios.given.mechanisms import server_half, variants
from scenarios.given.run_spec import RunSpec
from scenarios.own.halves import OwnHalf, OwnSettings, half_of_class, own_of, settings_in

Told = Mapping[str, Any]
"""Settings by name, those that are not the default."""


def subjects(design: str | Mechanism, told: Told | None = None) -> list[Subject]:
    """Return a mechanism with the settings that are told, or with every choice that can be listed; see `choices`.

    Designs that can ask about some items only are also asked so, with an estimate of each item that is expected; those
    that ask groups different things are also asked what earlier groups are asked.

    Raises
    ------
    InputError
        If there is no such mechanism, or it cannot be asked so.
    """
    if isinstance(design, Mechanism):
        half: ServerHalf = half_of_class(type(design))
        wanted: list[Told] = [settings_in(design).model_dump()]
    else:
        half = server_half(design)
        wanted = [one for one in choices(half) if not refusal(half, one)] if told is None else [told]
    found = [subject_of(half, chosen) for chosen in wanted]
    found += [subject_of(half, chosen, of=of) for chosen in wanted for of in half.groups]
    return found + [subject_of(half, chosen, pooled=True) for chosen in wanted if _pools(half, chosen)]


def _pools(half: ServerHalf, told: Told) -> bool:
    """Return whether a mechanism with these settings can ask about some items only."""
    return set(POOLED) <= set(half.policies) and set(POOLED) <= set(half.policies_with(half.settings(**told)))


def refusal(half: ServerHalf, told: Told) -> str:
    """Return what one's own class says against settings that nobody gave, because its range ends before; else nothing.

    Only numbers that were doubled are tried: what is told, listed or the default must be taken.
    """
    fields = half.settings.model_fields
    doubled = [type(value) in (int, float) and value == 2 * fields[name].default for name, value in told.items()]
    if not isinstance(half, OwnHalf) or not doubled or not all(doubled):
        return ""
    try:
        subject = subject_of(half, told)
        for size in (TINY, RUN):
            subject.public.channel(subject.query(size, PLAIN))
    except Exception as error:  # one's own code may raise anything
        return str(error).splitlines()[0] if str(error) else type(error).__name__
    return ""


def skipped(design: str | Mechanism) -> list[tuple[str, str]]:
    """Return labels of the choices that `subjects` leaves out, and what the class says against each."""
    if isinstance(design, Mechanism):
        return []
    half = server_half(design)
    return [(_label(half, one), reason) for one in choices(half) if (reason := refusal(half, one))]


def choices(half: ServerHalf) -> Iterator[Told]:
    """Yield settings: the default, variants, every combination of named alternatives, and numbers twice as large."""
    fields = half.settings.model_fields
    named = {name: alternatives(field.annotation) for name, field in fields.items()}
    combined = [dict(zip(named, chosen, strict=True)) for chosen in itertools.product(*named.values())]
    twice = [{name: 2 * field.default} for name, field in fields.items() if type(field.default) in (int, float)]
    seen: list[Told] = []
    for told in ({}, *variants(half), *combined, *twice):
        new = {name: value for name, value in told.items() if value not in (fields[name].default, None)}
        if new not in seen:
            seen.append(new)
            yield new


def alternatives(annotation: Any) -> list[Any]:
    """Return the values that a setting's type names, or None where it names none."""
    if annotation is bool:
        return [False, True]
    if get_origin(annotation) is Literal:
        return list(get_args(annotation))
    inside = [value for part in get_args(annotation) for value in alternatives(part) if value is not None]
    return inside or [None]


def scenario_of(half: ServerHalf, told: Told, size: Size, epsilon: Epsilon, **changes: Any) -> Scenario:
    """Return a small scenario of two clusters, filled in and settled.

    Raises
    ------
    InputError
        If the settings do not fit.
    """
    world = {"items": size.items, "rated": size.rated, "users": size.users}
    spent = "inf" if epsilon is None or not half.private else str(epsilon)
    try:
        given = Scenario.model_validate({"design": half.name, **told, **world, "epsilon": spent, **changes})
    except ValidationError as error:
        raise InputError(str(error.errors()[0]["msg"]).removeprefix("Value error, ")) from None
    return settle(given.complete())


def subject_of(half: ServerHalf, told: Told, *, pooled: bool = False, of: str = "") -> Subject:
    """Return a mechanism with one choice of its settings, as scenarios ask it.

    Parameters
    ----------
    half : ServerHalf
        Of the mechanism.
    told : dict
        Its settings that are not the default.
    pooled : bool
        Whether it asks about all items but the first, with an estimate of each that is expected.
    of : str
        Which of its groups of devices is asked, `ServerHalf.groups`; by default the first query is meant.
    """

    def asks(size: Size, epsilon: Epsilon, round_number: int, public_seed: bytes) -> Query:
        scenario = scenario_of(half, told, size, epsilon)
        design, asked = RunSpec(scenario).design, {"round_number": round_number, "public_seed": public_seed}
        if pooled:
            pool = np.arange(1, size.items, dtype=np.int32)
            asked |= {"pool": pool, "expected": np.linspace(-0.6, 0.6, pool.size)}
        ask = getattr(design, f"of_{of}") if of else design.query
        query = ask(**asked, epsilon=RunSpec(scenario).budget)  # type: ignore[arg-type] # of a `PoolDesign`
        if isinstance(scenario.settings, OwnSettings):  # its channel is what is checked, so it is known here unchecked
            own = own_of(scenario.settings)
            admit(replace(own, parameters=frozenset(query.parameters), arrays=frozenset(query.arrays)))
        return query

    query = asks(TINY, PLAIN, 0, PUBLIC)
    return Subject(
        label=_label(half, told) + " pool=some" * pooled + f" of {of}" * bool(of),
        public=public_half(query.design),
        device=device_half(query.design),
        server=half,
        asks=asks,
        scenario=None
        if pooled or of
        else lambda size, epsilon, **changes: scenario_of(half, told, size, epsilon, **changes),
    )


def _label(half: ServerHalf, told: Told) -> str:
    return " ".join([half.name, *(f"{name}={value}" for name, value in told.items())])
