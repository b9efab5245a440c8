"""Asking a policy for its next round, and checking that round, because a policy may be a user's own."""

from __future__ import annotations

import copy
import traceback

from coordinator.protocol.budget import as_float, within
from coordinator.protocol.errors import InputError, PolicyError
from coordinator.protocol.messages import Query
from coordinator.protocol.own import MechanismError
from coordinator.protocol.questions import check_question
from coordinator.server.rounds.state import Ask, Policy, ServerState

_OURS = "coordinator."
"""Where blindrec's own policies live."""


def next_ask(policy: Policy, state: ServerState, *, most_rounds: int) -> Ask | None:
    """Return a policy's next round, or None where it stops.

    Parameters
    ----------
    policy : Policy
        Anybody's.
    state : ServerState
        The state after all rounds so far.
    most_rounds : int
        How many rounds there may be.

    Raises
    ------
    PolicyError
        If the policy raised something, returned no round, asks about unknown items or devices or an impossible epsilon,
        or does not stop. The error is one line that names the policy and the round.
    """
    where = whose(policy, state)
    try:
        ask = policy.next_query(state)
    except MechanismError:
        raise  # the error already names class, method and round
    except (Exception, SystemExit) as error:
        raise PolicyError(f"{where}: it raised {_at(error, policy)}") from error
    if ask is None:
        return None
    if len(state.asked) >= most_rounds:
        raise PolicyError(f"{where}: it does not stop after {most_rounds} rounds, the most there may be (most_rounds)")
    if complaint := complaint_about(ask, state):
        raise PolicyError(f"{where}: {complaint}")
    return ask


class Rested:
    """A fresh copy of a policy, which must ask the same as the policy that has seen all rounds.

    A resumed run needs this, because it continues with a new policy that has not seen the earlier rounds.

    Parameters
    ----------
    policy : Policy
        The policy before the first round; blindrec's own policies are not copied.

    Raises
    ------
    PolicyError
        If it cannot be copied.
    """

    def __init__(self, policy: Policy) -> None:
        self._made: Policy | None = None
        if not type(policy).__module__.startswith(_OURS):
            try:
                self._made = copy.deepcopy(policy)
            except Exception as error:
                raise PolicyError(
                    f"policy {type(policy).__name__} cannot be copied: {in_a_line(error)}; keep its setting and plain "
                    "values only"
                ) from error

    def hold(self, ask: Ask | None, state: ServerState, *, most_rounds: int) -> None:
        """Refuse the policy's next round if a fresh copy would ask something else in this state.

        Raises
        ------
        PolicyError
            If the two differ.
        """
        if self._made is None:
            return
        fresh = copy.deepcopy(self._made)
        if next_ask(fresh, state, most_rounds=most_rounds) != ask:
            raise PolicyError(
                f"{whose(fresh, state)}: made anew it would go on otherwise, as it would in a resumed run; let what it "
                "asks follow from its setting and the state alone, without chance and without remembering"
            )


def whose(policy: Policy, state: ServerState) -> str:
    """Return the policy and the round, as errors name them."""
    return f"policy {type(policy).__name__}, round {len(state.asked)}"


def complaint_about(ask: object, state: ServerState) -> str | None:
    """Return what is wrong with the next round, or None."""
    if not isinstance(ask, Ask) or not isinstance(ask.query, Query):
        return f"it returned {_shown(ask)}, which is no blindrec.Ask of a query; return one, or None to stop"
    try:
        Query.valid(ask.query)
    except InputError as error:
        return f"its query cannot be asked: {error}"
    return (
        _complaint_about_round(ask.query, state)
        or _complaint_about_devices(ask, state)
        or _complaint_about_epsilon(ask.query, state)
        or _complaint_about_items(ask.query, state)
        or _complaint_of_devices(ask.query)
    )


def _complaint_about_round(query: Query, state: ServerState) -> str | None:
    if query.round != len(state.asked):
        return f"its query says round {query.round}; coins of a round are used once, give {len(state.asked)}"
    return None


def _complaint_about_devices(ask: Ask, state: ServerState) -> str | None:
    for name, place in (("first", ask.first), ("stop", ask.stop)):
        if type(place) is not int:
            return f"{name} of the devices it asks is {_shown(place)}, a {type(place).__name__}; give an int"
    if 0 <= ask.first < ask.stop <= state.devices:
        return None
    return f"it asks devices {ask.first} to {ask.stop}, stop not included; there are {state.devices}, from 0 on"


def _complaint_about_epsilon(query: Query, state: ServerState) -> str | None:
    asked, budget = as_float(query.epsilon), as_float(state.budget)
    if not within(query.epsilon, state.budget):
        return f"its query costs epsilon {asked:g}, above the devices' budget of {budget:g}; ask for no more than that"
    return None


def _complaint_about_items(query: Query, state: ServerState) -> str | None:
    first = state.asked[0].query if state.asked else query
    if query.items != first.items:
        return f"its query has a catalogue of {query.items} items, earlier rounds had {first.items}"
    return None


def _complaint_of_devices(query: Query) -> str | None:
    """Return why no device would answer a query: its parameters, pool, questions or epsilon are impossible; or None."""
    try:
        check_question(query)
    except InputError as error:
        return f"its query cannot be asked: {error}"
    return None


def _at(error: BaseException, policy: Policy) -> str:
    """Return an error's type, its last line in the policy's own file, and its text."""
    code = getattr(getattr(type(policy), "next_query", None), "__code__", None)
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if code and frame.filename == code.co_filename]
    kind, text = type(error).__name__, in_a_line(error).partition(": ")[2]
    return f"{kind} in line {lines[-1]}: {text}" if lines else f"{kind}: {text}"


def in_a_line(error: BaseException) -> str:
    """Return an error's type and text, without line breaks."""
    return " ".join(f"{type(error).__name__}: {error}".split())


def _shown(value: object) -> str:
    try:
        text = " ".join(repr(value).split())
    except Exception:
        text = f"a {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:60]}..."
