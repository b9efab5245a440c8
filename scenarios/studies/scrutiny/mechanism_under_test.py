"""The mechanism under test: its three halves with one choice of its settings, and its queries in small worlds."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import combinations, product
from math import comb
from typing import Any, Literal, NamedTuple, get_args, get_origin

import numpy as np

from actors.ratings import StoredRatings
from actors.seeds import Coins
from coordinator.protocol.arrays import Ints, Words
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.checked import shown
from coordinator.protocol.coins import as_words, derive
from coordinator.protocol.custom import UserClass, admit
from coordinator.protocol.errors import InputError
from coordinator.protocol.mechanism import POOLED, Mechanism
from coordinator.protocol.mechanisms import check_question, mechanism_of
from coordinator.protocol.messages import Query
from coordinator.protocol.rating_table import RowTable
from scenarios.config.custom_kinds import CustomKind, MechanismKind, custom_kind_of, custom_of, mechanism_with
from scenarios.config.mechanism_settings import mechanism_kind, variants
from scenarios.config.resolve import ResolvedRun, resolve
from scenarios.config.scenario import Scenario
from scenarios.config.settings import validated

EPSILONS = (Fraction(1, 10), Fraction(1), Fraction(3))  # the default epsilons at which channels are enumerated [nats]
PLAIN = Fraction(1)  # the epsilon of all checks but those of the channel [nats]
SECRET, PUBLIC = derive(0, "devices"), derive(0, "public")
ROUNDS = ((0, PUBLIC), (1, PUBLIC), (0, bytes(16)), (7, derive(1, "public")))
"""Rounds and public seeds with which channels are checked: an honest mechanism is so in all of them."""
Rated = tuple[tuple[int, bool], ...]  # items that a device rated, ascending, each with whether it liked it
Choice = Mapping[str, Any]  # settings that differ from the default, by name
ENUMERATED = 250  # inputs of a catalogue up to which every one is tried
DRAWN = 40  # random inputs of a larger catalogue, beside plain ones


class Size(NamedTuple):
    """The size of a world."""

    items: int
    rated: int
    users: int


TINY = Size(items=5, rated=3, users=1000)  # so small that everything a device may have rated can be enumerated
MIDDLE = Size(items=60, rated=20, users=1000)  # random ratings reach cases that a tiny catalogue does not have
RUN = Size(items=200, rated=20, users=1_000_000)  # the size of a typical run


def every_rating(size: Size) -> Iterator[Rated]:
    """Yield all that a device may have rated: every set of at most ``rated`` items, and every like."""
    for count in range(size.rated + 1):
        for items in combinations(range(size.items), count):
            for likes in product((False, True), repeat=count):
                yield tuple(zip(items, likes, strict=True))


class Neighbours(NamedTuple):
    """Pairs of inputs, by their places among some inputs: shape (pairs, 2)."""

    rows: tuple[Rated, ...]
    pairs: Ints


def inputs(size: Size, coins: np.random.Generator) -> list[Rated]:
    """Return what a device may have rated: everything in a tiny catalogue, else plain inputs and drawn ones."""
    if sum(comb(size.items, count) << count for count in range(size.rated + 1)) <= ENUMERATED:
        return list(every_rating(size))
    whole = range(min(size.rated, size.items))
    plain: list[Rated] = [(), *(tuple((item, like) for item in whole) for like in (True, False))]
    plain += [((item, like),) for item in (0, 1, size.items - 1) for like in (True, False)]
    plain += [tuple((item, like == (item > 0)) for item in whole) for like in (True, False)]
    for _ in range(DRAWN):
        rated_items = np.sort(coins.choice(size.items, coins.integers(1, len(whole) + 1), replace=False))
        plain.append(tuple((int(item), bool(coins.integers(2))) for item in rated_items))
    return list(dict.fromkeys(plain))


def comparable(rows: Sequence[Rated], *, names_rated: bool) -> Ints:
    """Return the places of two inputs that are neighbours: any two, or where rated items are public, rated alike."""
    alike = [tuple(item for item, _ in row) for row in rows]
    pairs = [pair for pair in combinations(range(len(rows)), 2) if not names_rated or alike[pair[0]] == alike[pair[1]]]
    return np.array(pairs, np.int64).reshape(-1, 2)


def stored(rows: Sequence[Rated], user: Sequence[int] | Ints, items: int) -> StoredRatings:
    """Return the ratings of devices, of which the i-th has those of ``rows[user[i]]``; rated items are public."""
    flat = [rating for row in rows for rating in row]
    return StoredRatings(
        rows=RowTable(
            starts=np.cumsum([0, *map(len, rows)]),
            items=np.array([item for item, _ in flat], np.int32),
            values=np.array([like for _, like in flat], np.bool_),
            count=items,
        ),
        user=np.array(user, np.int32),
        rated_public=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MechanismUnderTest:
    """A mechanism with one choice of its settings."""

    label: str  # its name, with the settings that differ from the default
    public: Mechanism
    server: MechanismKind
    asks: Callable[[Size, Epsilon, int, bytes], Query]  # its query in a small world; epsilon as scenarios say it [nats]
    epsilons: tuple[Fraction, ...] = EPSILONS  # where its channel is enumerated [nats]
    run_of: Callable[..., ResolvedRun] | None = None  # the same as a run; None where there is none

    def query(self, size: Size, epsilon: Epsilon, *, round_number: int = 0, public_seed: bytes = PUBLIC) -> Query:
        """Return the query in a small world of two clusters."""
        return self.asks(size, epsilon, round_number, public_seed)


def coins_of(query: Query, first: int, devices: int, secret: bytes = SECRET) -> Coins:
    """Return the private coins of devices from ``first`` on."""
    return Coins(as_words(secret), first, devices, query.words)


@dataclass(frozen=True, slots=True)
class CoinsPerInput:
    """Coins of a few devices, once for each of several inputs, so that one call sketches all inputs on each device."""

    coins: Coins
    inputs: int

    @property
    def first(self) -> int:
        """The first device; what counts on from it is told one input at a time."""
        if self.inputs > 1:
            raise ValueError("the same devices stand for several inputs; take their numbers")
        return self.coins.first

    @property
    def devices(self) -> int:
        """Number of devices, counted once for each input."""
        return self.coins.devices * self.inputs

    @property
    def numbers(self) -> Ints:
        """Numbers of the devices."""
        return np.tile(self.coins.numbers, self.inputs)

    def streams(self, query: Query) -> Words:
        """Return public streams; see `Coins`."""
        return np.tile(self.coins.streams(query), self.inputs)

    def sketch(self, question: int = 0) -> Words:
        """Return coins for sketches; see `Coins`."""
        return np.tile(self.coins.sketch(question), self.inputs)

    def release(self, question: int) -> Words:
        """Return coins for randomizers; see `Coins`."""
        return np.tile(self.coins.release(question), self.inputs)

    def choices(self) -> Words:
        """Return streams for choices; see `Coins`."""
        return np.tile(self.coins.choices(), self.inputs)

    def keys(self) -> tuple[Words, Words]:
        """Return keys; see `Coins`."""
        low, high = self.coins.keys()
        return np.tile(low, self.inputs), np.tile(high, self.inputs)


def subjects(design: str | UserClass, settings: Choice | None = None) -> list[MechanismUnderTest]:
    """Return a mechanism with these settings, or with every choice that can be listed; see `choices`."""
    # Designs that can ask about some items only are also asked so, with an estimate of each item that is expected;
    # those that ask groups different things are also asked what earlier groups are asked.
    mechanism, custom = kind_and_settings(design)
    if isinstance(design, UserClass):
        variants = [custom]
    else:
        variants = (
            [choice for choice in choices(mechanism) if not refusal(mechanism, choice)]
            if settings is None
            else [settings]
        )
    plain = [subject_of(mechanism, choice) for choice in variants]
    grouped = [subject_of(mechanism, choice, of=of) for choice in variants for of in mechanism.groups]
    able = variants if set(POOLED) <= set(mechanism.policies) else []  # that can ask about some items only
    able = [choice for choice in able if {*POOLED} <= {*mechanism_with(mechanism.settings(**choice)).policies_with()}]
    return plain + grouped + [subject_of(mechanism, choice, pooled=True) for choice in able]


def kind_and_settings(design: str | UserClass) -> tuple[MechanismKind, Choice]:
    """Return a mechanism's server half, and the settings that a custom one has as it is given; else none."""
    if isinstance(design, UserClass):
        return custom_kind_of(type(design)), design.model_dump()
    if not isinstance(design, str):
        raise InputError(f"mechanism is {shown(design)}; give a name, package.module:Name, or a Mechanism")
    return mechanism_kind(design), {}


def refusal(mechanism: MechanismKind, choice: Choice) -> str:
    """Return what a custom class says against settings that nobody chose, because its range ends before."""
    # Only numbers that were doubled are tried: what a user gives, what is listed and the default must be taken.
    fields = mechanism.settings.model_fields
    doubled = [type(value) in (int, float) and value == 2 * fields[name].default for name, value in choice.items()]
    if not isinstance(mechanism, CustomKind) or not doubled or not all(doubled):
        return ""
    try:
        subject = subject_of(mechanism, choice)
        for size in (TINY, RUN):
            check_question(subject.query(size, PLAIN))
    except Exception as error:  # custom code may raise anything
        return str(error).splitlines()[0] if str(error) else type(error).__name__
    return ""


def omissions(design: str | UserClass) -> list[tuple[str, str]]:
    """Return labels of the choices that `subjects` leaves out, and what the class says against each."""
    if isinstance(design, UserClass):
        return []
    mechanism = mechanism_kind(design)
    return [
        (_label(mechanism, choice), reason) for choice in choices(mechanism) if (reason := refusal(mechanism, choice))
    ]


def choices(mechanism: MechanismKind) -> Iterator[Choice]:
    """Yield settings: the default, variants, every combination of named alternatives, and numbers twice as large."""
    fields = mechanism.settings.model_fields
    named = {name: alternatives(field.annotation) for name, field in fields.items()}
    combined = [dict(zip(named, values, strict=True)) for values in product(*named.values())]
    twice = [{name: 2 * field.default} for name, field in fields.items() if type(field.default) in (int, float)]
    seen: list[Choice] = []
    for choice in ({}, *variants(mechanism), *combined, *twice):
        new = {name: value for name, value in choice.items() if value not in (fields[name].default, None)}
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


def small_run(mechanism: MechanismKind, choice: Choice, size: Size, epsilon: Epsilon, **changes: Any) -> ResolvedRun:
    """Return a run in a small world of two clusters."""
    world = {"items": size.items, "rated": size.rated, "users": size.users}
    nats = "inf" if epsilon is None or not mechanism.private else str(epsilon)
    flags = {"design": mechanism.name, **choice, **world, "epsilon": nats, **changes}
    return resolve(validated(Scenario, None, flags))


def subject_of(
    mechanism: MechanismKind, choice: Choice, *, pooled: bool = False, of: str = "", size: Size = TINY
) -> MechanismUnderTest:
    """Return a mechanism with one choice of its settings, as scenarios ask it."""
    # If ``pooled``, it asks about all items but the first, with an estimate of each; ``of`` names one of its groups.

    def asks(size: Size, epsilon: Epsilon, round_number: int, public_seed: bytes) -> Query:
        resolved = small_run(mechanism, choice, size, epsilon)
        settings, design = resolved.scenario.settings, resolved.design
        request: dict[str, Any] = {"round_number": round_number, "public_seed": public_seed}
        if pooled:
            pool = np.arange(1, size.items, dtype=np.int32)
            request |= {"pool": pool, "expected": np.linspace(-0.6, 0.6, pool.size)}
        ask = getattr(design, f"of_{of}") if of else design.query
        query = ask(**request, epsilon=resolved.account.budget)
        if isinstance(settings, UserClass):  # its channel is what is checked, so it is known here unchecked
            custom = custom_of(settings)
            admit(replace(custom, parameters=frozenset(query.parameters), arrays=frozenset(query.arrays)))
        return query

    query = asks(size, PLAIN, 0, PUBLIC)
    return MechanismUnderTest(
        label=_label(mechanism, choice) + " pool=some" * pooled + f" of {of}" * bool(of),
        public=mechanism_of(query.design),
        server=mechanism,
        asks=asks,
        run_of=None if pooled or of else partial(small_run, mechanism, choice),
    )


def _label(mechanism: MechanismKind, choice: Choice) -> str:
    return " ".join([mechanism.name, *(f"{name}={value}" for name, value in choice.items())])
