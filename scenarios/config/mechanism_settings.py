"""Find mechanisms and policies by name or import path, and take their settings out of a scenario's values."""

from __future__ import annotations

import hashlib
import importlib.util
import re
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from coordinator.protocol.custom import UserClass, settings_of
from coordinator.protocol.errors import InputError, name_choices
from coordinator.protocol.mechanism import FIXED, GROUPS, ONE_ROUND, POSTERIOR, Settings
from coordinator.protocol.mechanisms import mechanisms
from coordinator.protocol.pools import AGREEMENTS
from coordinator.protocol.trust_models import TWO_SERVERS
from scenarios import PACKAGES
from scenarios.config.custom_kinds import CustomKind, MechanismKind, custom_kind_of, mechanism_with
from scenarios.config.files import first_line
from scenarios.config.identity import OURS, build_mechanism, import_class, import_object, modules_of

if TYPE_CHECKING:
    from coordinator.server.rounds.state import Policy


_PATH = re.compile(r"[\w.]+:[\w.]+")  # The import path of a custom mechanism, ``package.module:Name``

ORDER = (
    "maxsense", "sign", "anchor", "multi-maxsense", "grr", "oue", "olh", "hadamard", "subset", "set", "pairs",
    "pairwise", "totals", "pair-totals", "curator-items", "curator-pairs", "item-query", "full-reveal",
)  # fmt: skip
"""Mechanisms as they are listed; others come after them, by name."""
VARIANTS: dict[str, tuple[dict[str, str], ...]] = {
    "multi-maxsense": ({"questions": "ceil"}, {"questions": "auto"}),
    **dict.fromkeys(("totals", "pair-totals"), ()),  # of two servers, whom a plan asks nobody to trust
    "pairwise": (*({"agreement": agreement} for agreement in AGREEMENTS), {"rated_items": "public"}),
}
"""Settings that plans compare, of mechanisms that they compare at other than the default ones, or not at all."""


def designs() -> dict[str, MechanismKind]:
    """Return every mechanism by its name, as they are listed."""
    places = {name: rank for rank, name in enumerate(ORDER)}
    return dict(sorted(mechanisms().items(), key=lambda item: (places.get(item[0], len(places)), item[0])))


def variants(mechanism: MechanismKind) -> tuple[dict[str, str], ...]:
    """Return the settings that a plan compares a mechanism at."""
    return VARIANTS.get(mechanism.name, ({},))


def mechanism_kind(design: str) -> MechanismKind:
    """Return a mechanism by its name, or a custom one by its import path."""
    if _PATH.fullmatch(design):
        return custom_kind_of(import_class(design))
    if (mechanism := designs().get(design)) is None:
        remedy = f"{name_choices(design, designs(), 'choose one of')}, or your own, mypackage.mymodule:MyMechanism"
        raise InputError(f"design is {design!r}; {remedy}")
    return mechanism


def all_settings() -> dict[str, FieldInfo]:
    """Return the settings of all mechanisms by their names; those that share a name share its field."""
    return {name: field for mechanism in designs().values() for name, field in mechanism.settings.model_fields.items()}


def shared_settings() -> list[str]:
    """Return the names of settings that several mechanisms of plans share, which a plan compares them at."""
    names = [
        name for mechanism in designs().values() if variants(mechanism) for name in mechanism.settings.model_fields
    ]
    return [name for name in all_settings() if names.count(name) > 1]


def take_settings(mechanism: MechanismKind, values: dict[str, Any]) -> Settings:
    """Take a mechanism's settings out of a scenario's flat values, and refuse those that are about others."""
    for name in sorted(all_settings().keys() & values.keys()):
        if name not in mechanism.settings.model_fields:
            _require_default(mechanism, name, values.pop(name))
    theirs = {name: values.pop(name) for name in mechanism.settings.model_fields if name in values}
    if isinstance(mechanism, CustomKind):
        return build_mechanism(mechanism.kind, theirs)
    try:
        settings: Settings = mechanism.settings.model_validate(theirs)
    except ValidationError as error:
        raise InputError(first_line(error, mechanism.settings)) from None
    return settings


def gathered(values: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    """Return a scenario's flat values with its mechanism's settings in one, and what follows from these."""
    design, rest = values.get("design", "maxsense"), dict(values)
    mechanism: MechanismKind = (
        custom_kind_of(type(design)) if isinstance(design, UserClass) else mechanism_kind(str(design))
    )
    if isinstance(stored := rest.pop("settings", None), dict):  # as `model_dump` has them
        rest = {**stored, **rest}
    if isinstance(design, UserClass):
        helpers = {"helpers": design.helpers} if design.helpers else {}
        rest = {**helpers, **settings_of(design), **rest, "design": mechanism.name}
    settings = take_settings(mechanism, rest)
    if isinstance(settings, UserClass) and (strange := sorted(rest.keys() - names)):
        field_names = ", ".join(settings_of(settings))
        raise InputError(
            f"neither design {mechanism.name} nor a scenario has a setting {strange[0]}; the design has {field_names}"
        )
    policy = values.get("policy", mechanism_with(settings).policies_with()[0])
    adapts = policy not in (ONE_ROUND, FIXED, GROUPS) and POSTERIOR in mechanism.decoders
    epsilon = {} if mechanism.private else {"epsilon": "inf"}
    decoder = POSTERIOR if adapts else mechanism.decoders[0]
    trust = {"trust": mechanism.trust} if mechanism.trust == TWO_SERVERS else {}
    return {"decoder": decoder, "policy": policy, **epsilon, **trust, **rest, "settings": settings}


def _require_default(mechanism: MechanismKind, name: str, value: Any) -> None:
    owners = [other for other in designs().values() if name in other.settings.model_fields]
    default = owners[0].settings.model_fields[name].default
    try:
        value = getattr(owners[0].settings.model_validate({name: value}), name)
    except ValidationError as error:
        raise InputError(first_line(error, owners[0].settings)) from None
    if value != default:
        owner_names = " and ".join(other.name for other in owners)
        raise InputError(
            f"{name} is {value!r}, which is about {owner_names}; the design is {mechanism.name}, leave it out"
        )


def custom_designs(
    paths: Sequence[Any], settings: Mapping[str, Any] | None = None, helpers: tuple[str, ...] = ()
) -> tuple[Settings, ...]:
    """Return mechanisms by name, custom ones by their import paths or given as they are, with their settings."""
    values, designs, used = dict(settings or {}), list[Settings](), set[str]()
    for path in paths:
        if not isinstance(path, str):
            designs.append(path)
            continue
        mechanism = mechanism_kind(path)
        fields = mechanism.settings.model_fields.keys() & values.keys()
        used |= fields
        brought = {"helpers": helpers} if "helpers" in mechanism.settings.model_fields else {}
        designs.append(take_settings(mechanism, {**{name: values[name] for name in fields}, **brought}))
    if strange := sorted(values.keys() - used):
        raise InputError(f"setting {strange[0]} is none of {', '.join(map(str, paths)) or 'any design; give --design'}")
    return tuple(designs)


def shared_names() -> list[str]:
    """Return the designs whose devices give shares to two servers, and release nothing."""
    return [name for name, mechanism in designs().items() if mechanism.trust == TWO_SERVERS]


def code_digest(policy: str) -> str:
    """Return the SHA-256 of the code that asks: this package's, and of a custom policy what it is made of."""
    digests = [*_our_code()]
    if ":" in policy:
        import_object(policy, "policy")
        modules = modules_of([policy.partition(":")[0]])
        digests += [hashlib.sha256(text.encode()).digest() for _, text in sorted(modules.items())]
    return hashlib.sha256(b"".join(digests)).hexdigest()


@cache
def _our_code() -> tuple[bytes, ...]:
    """Return the digests of our modules; they are read once, since a process keeps the code that it has loaded."""
    specs = [importlib.util.find_spec(name) for name in PACKAGES]
    folders = [folder for spec in specs if spec for folder in spec.submodule_search_locations or ()]
    files = [path for folder in folders for path in sorted(Path(folder).rglob("*.py"))]
    return tuple(hashlib.sha256(path.read_bytes()).digest() for path in files)


def packages_of_policy(policy: Policy) -> set[str]:
    """Return the packages that a custom policy is made of: its module's, and those beside it that this imports."""
    module = type(policy).__module__
    if module.partition(".")[0] in OURS:  # whose imports are many files to read
        return set()
    return {name.partition(".")[0] for name in (module, *modules_of([module]))} - OURS - {"__main__"}
