"""Privacy parameters are read exactly, refused in one line, and add up without rounding."""

import copy
import math
import pickle
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import worlds
from hypothesis import given
from hypothesis import strategies as st
from messages import COSTS, SCALARS, Number, forged
from worlds import features_of

from coordinator.protocol.ballots import Ballot, Service
from coordinator.protocol.budget import PrivacyParameter, add, as_float, parse_epsilon, require_epsilon, within
from coordinator.protocol.errors import InputError
from coordinator.protocol.features import ItemFeatures
from coordinator.protocol.messages import Query
from coordinator.protocol.second_order import SecondOrderQuery

POSITIVE = st.fractions(min_value=Fraction(1, 10**9), max_value=100)
REFUSED = [
    *("0", 0, 0.0, "-0", -1, "-1/3", "0/5", "1/0", "-inf", -math.inf, "nan", math.nan, "sNaN", "1/nan", "inf/2"),
    *("1/inf", "", " ", "one", "1,5", "1/2/3", "0x10", "1 2", "--1", "1/-2", None, True, False, [1]),
]
MAYBE = st.one_of(st.none(), POSITIVE)


EXACT: dict[Fraction | None, tuple[object, ...]] = {
    Fraction(1): ("1", 1, 1.0),
    Fraction(1, 10): (0.1, "0.1", np.float64(0.1)),
    Fraction(1, 3): ("1/3", Fraction(2, 6)),
    Fraction(5, 2): ("  2.50 ",),
    Fraction(1, 1000): ("1e-3",),
    Fraction(20): ("2E1",),
    Fraction(1, 10**300): (1e-300,),
    None: ("inf", "Infinity", "INF", math.inf),
}


@pytest.mark.parametrize("exact", EXACT)
def test_values_are_read_exactly(exact: Fraction | None) -> None:
    assert {parse_epsilon(value) for value in EXACT[exact]} == {exact}


@pytest.mark.parametrize("value", REFUSED)
def test_what_is_no_privacy_parameter_is_refused_in_one_line(value: object) -> None:
    with pytest.raises(InputError) as caught:
        parse_epsilon(value, "budget")
    text = str(caught.value)
    assert text.startswith("budget is ")
    assert str(value).strip() in text
    assert "\n" not in text
    assert "above 0" in text


@given(st.floats(min_value=1e-300, max_value=1e300))
def test_a_float_is_the_decimal_it_prints(value: float) -> None:
    exact = parse_epsilon(value)
    assert exact == Fraction(repr(value))
    assert as_float(exact) == value
    assert as_float(Fraction(10) ** 400) == math.inf


@given(MAYBE, MAYBE)
def test_infinity_absorbs_and_is_within_itself_only(one: Fraction | None, other: Fraction | None) -> None:
    assert add(one, other) == add(other, one)
    assert as_float(add(one, other)) == pytest.approx(as_float(one) + as_float(other))
    exact = (one is None, one or Fraction(0)) <= (other is None, other or Fraction(0))
    assert within(one, other) == (exact or other is None)


# No privacy parameter is 0, negative or rounded: not built, not unpickled, not forged, not in a message.
NONE_SUCH: list[Any] = [
    *(one for one in COSTS if one not in (Fraction(1, 10**9), Fraction(31), Fraction(10**400), Fraction(1, 10**400))),
    *(one for one in SCALARS if one is not None),
]
SEED = bytes(range(16))
QUERY = worlds.maxsense_query(items=10, sensing=0.25, epsilon=Fraction(1, 3), round_number=3, public_seed=SEED)
SIGNS = worlds.sign_query([1, 4, 9], items=10, epsilon=Fraction("2.5"), centres=[-3, 0, 32])
SERVICE = Service(
    client=2,
    recommender="p-rec",
    rounds=2,
    objects=2,
    epsilon=Fraction(1, 3),
    titles=np.array([[0, 1], [5, 3]], np.int32),
    own_device=4,
)
FEATURES = features_of(np.array([[1.0], [2.0]]), np.array([3.0, 2.5]), lowest=1.0, scale=(1.0, 5.0), mean_degree=2.0)
ASKED = SecondOrderQuery(model=FEATURES.digest, mechanism="sslp", epsilon=Fraction(5, 2), batch=3)


@pytest.mark.parametrize("value", ["1/3", "2", 5, Fraction(1, 10**9), PrivacyParameter(7)])
def test_it_is_its_fraction_and_arithmetic_makes_plain_ones(value: Any) -> None:
    one = PrivacyParameter(value)
    assert one == Fraction(value)
    assert (str(one), hash(one)) == (str(Fraction(value)), hash(Fraction(value)))
    assert type(one / 3) is type(one - 1) is type(one + one) is Fraction
    assert add(one, one) == 2 * Fraction(value)
    for again in (pickle.loads(pickle.dumps(one)), copy.copy(one), copy.deepcopy(one), require_epsilon(one)):
        assert type(again) is PrivacyParameter
        assert again == one
    assert type(parse_epsilon(value)) is PrivacyParameter


@pytest.mark.parametrize("value", ["0", "-1/3", 0, -1, 0.5, True, Fraction(0), Fraction(-9), "inf", "nan", "one", None])
def test_none_is_built_that_is_invalid(value: Any) -> None:
    with pytest.raises(InputError, match=r"^[^\n]*$"):
        PrivacyParameter(value)
    with pytest.raises(InputError):
        PrivacyParameter(1, value if value is not None else -1)


def test_none_is_unpickled_that_is_invalid() -> None:
    """What was forged in one process does not become one in another."""
    for parts in ((-100, 1), (0, 1), (1, -1)):
        made: Any = object.__new__(PrivacyParameter)
        made._numerator, made._denominator = parts
        sent = pickle.dumps(made)
        with pytest.raises(InputError):
            pickle.loads(sent)


@pytest.mark.parametrize("message", [QUERY, SERVICE, ASKED], ids=lambda one: type(one).__name__)
def test_no_message_holds_an_invalid_one(message: Any) -> None:
    """Neither where it is built nor where it arrives; a message that holds another one is checked, too."""
    fields = {name: getattr(message, name) for name in type(message).__dataclass_fields__}
    for value in NONE_SUCH:
        with pytest.raises(InputError, match=r"^[^\n]*epsilon[^\n]*$"):
            type(message)(**{**fields, "epsilon": value})
        bad = forged(message, epsilon=value)
        with pytest.raises(InputError, match=r"^[^\n]*epsilon[^\n]*$"):
            type(message).arrived(bad)
        if message is SERVICE:
            with pytest.raises(InputError, match="epsilon"):
                Ballot.arrived(forged(Ballot(service=SERVICE, first=0, stop=1), service=bad))


@pytest.mark.parametrize("message", [QUERY, SIGNS, SERVICE, ASKED, FEATURES], ids=lambda one: type(one).__name__)
def test_a_message_that_travels_is_the_same_one(message: Any) -> None:
    again = type(message).arrived(pickle.loads(pickle.dumps(message)))
    digest = "digest" if message is FEATURES else "id"
    assert getattr(again, digest) == getattr(message, digest)
    if message is not FEATURES:
        assert type(again.epsilon) is PrivacyParameter


def test_a_message_is_of_one_type_and_whole() -> None:
    class Mine(Query):
        __slots__ = ()

    lying: Any = object.__new__(Mine)
    torn: Any = object.__new__(Query)
    for name in Query.__dataclass_fields__:
        object.__setattr__(lying, name, getattr(QUERY, name))
        if name != "epsilon":
            object.__setattr__(torn, name, getattr(QUERY, name))
    for bad, words in ((lying, "not a Mine"), (torn, "lacks epsilon"), (SERVICE, "not a Service"), (None, "NoneType")):
        with pytest.raises(InputError, match=words):
            Query.arrived(bad)


def test_whole_numbers_that_are_given_as_reals_become_floats_and_ids_stay() -> None:
    whole = replace(FEATURES, kappa=2, lowest=1, highest=5, scale=(1, 5), common_h=1, mean_degree=np.float64(2.0))
    real = replace(FEATURES, kappa=2.0, lowest=1.0, highest=5.0, scale=(1.0, 5.0), common_h=1.0, mean_degree=2.0)
    assert whole.digest == real.digest
    told = whole.kappa, whole.lowest, whole.highest, *(whole.scale or ()), whole.common_h, whole.mean_degree
    assert {type(one) for one in told} == {float}
    assert {type(one) for one in SIGNS.parameters.values()} == {float}
    assert replace(SIGNS, parameters={"vectors": np.float64(1), "kept": 1.0}).id == SIGNS.id


@pytest.mark.parametrize("name", ["kappa", "lowest", "highest", "common_h", "mean_degree", "scale"])
def test_what_no_float_is_exactly_is_refused_where_a_model_is_built_or_arrives(name: str) -> None:
    """Models whose highest rating was 2**60 and 2**60 + 1 shared one digest; 10**30 stopped compiled code."""
    values: list[Any] = [2**60 + 1, 10**30, 10**40, 10**400, np.float32(5), np.int64(5), True, Number(5)]
    for value in values if name != "lowest" else ():
        changes: dict[str, Any] = {name: (1.0, value) if name == "scale" else value}
        with pytest.raises(InputError, match="give a real number"):
            replace(FEATURES, **{"highest": 1e50, **changes})
    arrived: list[Any] = [1, 2**60, 10**30, np.int64(1), np.float32(1)]
    for value in arrived:
        with pytest.raises(InputError, match="give a real number"):
            ItemFeatures.arrived(forged(FEATURES, **{name: (value,) if name == "scale" else value}))
        with pytest.raises(InputError, match="give a real number"):
            Query.arrived(forged(SIGNS, parameters={"vectors": value, "kept": 1.0}))
