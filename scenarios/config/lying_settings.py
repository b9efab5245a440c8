"""What a scenario says of devices that lie, checked: how many, what they want, and what they may know beforehand."""

from dataclasses import dataclass

from pydantic import Field

from coordinator.protocol.errors import InputError
from coordinator.server.server_half import ANCHOR, ELIMINATE, ITEM_BY_ITEM
from scenarios.config.files import brief
from scenarios.config.settings import ExperimentScenario, Malicious

INPUT, INPUT_LATE, UNTARGETED, PROMOTE = "input", "input-late", "untargeted", "promote"
EARLY, LATE = "early", "late"
POISON = "poison-features"
HALVING = "halving"
FEW = 10  # Items that liars promote who make up ratings, if nothing else is said
_NUMBERED = {PROMOTE: True, LATE: True, INPUT: False, INPUT_LATE: False}
"""Attacks with a number: whether it must be given."""
ADAPTIVE = (EARLY, LATE)  # Attacks on rounds that depend on answers
ON_SIDES = (UNTARGETED, INPUT, INPUT_LATE, EARLY)  # Attacks that make sense where clusters have no order
WITHOUT_TRUTH = (PROMOTE, INPUT, INPUT_LATE)
"""Attacks that need not know which items are liked more than others; a file of ratings does not say it."""
FORMS = "input:R, input-late:R, untargeted, promote:R, early, late:M"


@dataclass(frozen=True, slots=True)
class Attack:
    """An attack by name, and its number: of items that are promoted, or of open items."""

    name: str
    number: int | None = None


def parse_attack(text: str) -> Attack:
    """Read an attack as it is given.

    Examples
    --------
    >>> parse_attack("promote:3")
    Attack(name='promote', number=3)
    """
    name, colon, number = text.partition(":")
    if name == POISON:
        raise InputError(f"attack is {POISON}, which is about item features of two tiers; it is no attack on a run")
    if name not in (*_NUMBERED, UNTARGETED, EARLY):
        raise InputError(f"attack is {brief(text)}; choose one of {FORMS}")
    if bool(colon) and name not in _NUMBERED:
        raise InputError(f"attack is {brief(text)}; {name} takes no number, leave it out")
    if not colon:
        if _NUMBERED.get(name):
            raise InputError(f"attack is {brief(text)}; say of how many items, {name}:10")
        return Attack(name, FEW if name in _NUMBERED else None)
    if not (number.isascii() and number.isdigit() and 1 <= int(number[:12]) <= 10**9):
        raise InputError(f"attack is {brief(text)}; give a whole number from 1 on, {name}:10")
    return Attack(name, int(number[:12]))


class AttackSettings(ExperimentScenario):
    """Devices that lie."""

    malicious: Malicious = None
    attack: str | None = Field(default=None, description=f"What liars do: {FORMS} [untargeted].")

    @property
    def plotted(self) -> Attack | None:
        """What liars do; None if nobody lies."""
        return None if self.malicious is None else parse_attack(self.attack or UNTARGETED)

    def check_attack(self, design: str, policy: str, *, knows_truth: bool) -> None:
        """Refuse an attack that there is not, or that this run gives no opportunity for."""
        if self.malicious is None and self.attack is not None:
            raise InputError(f"attack is {self.attack!r}, but nobody lies; give --malicious too")
        if (attack := self.plotted) is None:
            return
        if policy == ANCHOR:
            self._check_sides(attack, design, knows_truth=knows_truth)
        elif attack.name in ADAPTIVE and (policy not in (ELIMINATE, ITEM_BY_ITEM) or design != "sign"):
            raise InputError(
                f"attack is {attack.name}, which is about rounds of sign sensing that depend on answers; choose "
                f"--design sign --policy {ELIMINATE}, or {UNTARGETED}"
            )
        if not knows_truth and attack.name not in WITHOUT_TRUTH:
            raise InputError(
                f"attack is {attack.name}, whose liars know the items' clusters; a ratings file has none, choose one "
                f"of {', '.join(WITHOUT_TRUTH)}"
            )

    def _check_sides(self, attack: Attack, design: str, *, knows_truth: bool) -> None:
        """Refuse what makes no sense where clusters have no order, and every later round is about all items."""
        others = ", ".join(ON_SIDES)
        if attack.name == PROMOTE:
            raise InputError(f"attack is {PROMOTE}, but no cluster of {design} is the more liked one; choose {others}")
        if attack.name not in ON_SIDES:
            raise InputError(f"attack is {attack.name}, which was not worked out for {design}; choose one of {others}")
        if not knows_truth:
            raise InputError(
                f"malicious is {self.malicious:g}, but liars about {design} know the items' clusters; a ratings file "
                "has none, leave it out"
            )
