"""What a private device takes part in: set by the experimenter when devices are made, never by a server."""

from __future__ import annotations

from dataclasses import dataclass

from coordinator.protocol.budget import Epsilon, as_float, require_epsilon, within
from coordinator.protocol.errors import ConsentError, InputError
from coordinator.protocol.second_order import SecondOrderQuery
from coordinator.protocol.second_order_mechanisms import found, half_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Consent:
    """Mechanisms that devices answer through, and the largest epsilon that they do it under.

    Attributes
    ----------
    mechanisms : frozenset of str
        Some of `coordinator.protocol.second_order_mechanisms.found`.
    epsilon : Fraction or None
        Largest epsilon of those that have one [nats], as the mechanism counts it: of a bit, of a coordinate, or of a
        release, see `SecondOrderPublic.epsilon_of`; None: any.
    own_h : bool
        Whether a device may release its own h in full precision: nothing is private then.

    Raises
    ------
    InputError
        If a mechanism is unknown, or epsilon is no privacy parameter.
    """

    mechanisms: frozenset[str]
    epsilon: Epsilon
    own_h: bool = False

    def __post_init__(self) -> None:
        """Refuse what nobody could agree to."""
        object.__setattr__(self, "epsilon", require_epsilon(self.epsilon))
        if unknown := self.mechanisms - found().keys():
            raise InputError(f"mechanism is {min(unknown)!r}; choose some of {', '.join(found())}")

    def require(self, query: SecondOrderQuery) -> None:
        """Refuse a query that this consent does not cover.

        Raises
        ------
        ConsentError
        """
        if query.mechanism not in self.mechanisms:
            agreed = ", ".join(sorted(self.mechanisms)) or "nothing"
            raise ConsentError(f"private devices agreed to {agreed}; they refuse {query.mechanism}")
        if half_of(query.mechanism).takes_epsilon and not within(query.epsilon, self.epsilon):
            raise ConsentError(
                f"private devices agreed to epsilon {as_float(self.epsilon):g} at most; they refuse "
                f"{query.mechanism} at {as_float(query.epsilon):g}"
            )
        if query.own_h and not self.own_h:
            raise ConsentError("private devices agreed to the public h only; they refuse to tell their own (own_h)")
