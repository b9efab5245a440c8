"""What audits, checks and bounds of shufflers cannot say anything about ends with one line that names it."""

from collections.abc import Callable
from typing import Any

import pytest
from runs import Command, refused

from coordinator.protocol.errors import InputError
from scenarios.studies.scrutiny.shuffled_checks import check
from scenarios.studies.scrutiny.shuffling import amplified

REFUSED: dict[str, list[str]] = {
    "audit --design nonsense": ["design is 'nonsense'", "maxsense"],
    "audit --design grr --epsilon inf": ["epsilon is inf", "finite"],
    "audit --design grr --releases 5": ["releases is 5"],
    "audit --design grr --rated 9": ["rated is 9"],
    "audit --design grr --confidence 1": ["confidence is 1"],
    "audit --design sslp --setting theta=2": ["two tiers", "leave them out"],
    "audit --design grr --users 50": ["users is 50", "--trust shuffled"],
    "audit --design grr --epsilon-local 2": ["epsilon_local is 2", "--trust shuffled"],
    "audit --design grr --trust nobody": ["trust is 'nobody'", "local", "shuffled"],
    "audit --trust two-servers --design set": ["set", "totals"],
    "audit --trust two-servers --rounds 5": ["rounds is 5"],
    "audit --trust two-servers --epsilon-local 2": ["epsilon_local is 2"],
    "audit --trust two-servers --own-questions": ["own_questions is True"],
    "audit --trust two-servers --audit-delta 0.1 --users 20": ["delta is 0.1", "20 users"],
    "audit --trust two-servers --epsilon inf": ["epsilon is inf"],
    "audit --trust shuffled --design maxsense": ["maxsense", "address"],
    "audit --trust shuffled --design pairs": ["pairs", "shuffled separately"],
    "audit --trust shuffled --design grr --users 1": ["users is 1"],
    "audit --trust shuffled --design grr --releases 5": ["releases is 5"],
    "audit --trust shuffled --design grr --rounds 5": ["rounds is 5"],
    "audit --trust shuffled --design grr --epsilon 1 --epsilon-local 2": ["epsilon is 1", "epsilon_local 2"],
    "audit --trust shuffled --design oue --items 40": ["bits", "lower items"],
    "audit --trust shuffled --design grr --audit-delta 2": ["delta is 2"],
    "audit --trust shuffled --design sslp": ["sslp"],
    "check nonsense": ["design is 'nonsense'", "maxsense"],
    "check maxsense --setting theta": ["setting is 'theta'", "name=value"],
    "check maxsense --setting theta=-1": ["theta", "-1"],
    "check maxsense --setting vectors=2": ["vectors is 2", "sign"],
    "check sign --setting vectors=3": ["vectors is 3", "power of two"],
    "check maxsense --epsilon inf": ["epsilon is inf", "finite"],
    "check maxsense --epsilon x": ["epsilon", "x"],
    "check maxsense --json /nowhere/at/all": ["json file /nowhere/at/all cannot be written"],
    "check maxsense --trust shuffled": ["maxsense", "address"],
    "check grr --trust shuffled --epsilon 1": ["epsilon is 1", "leave it out"],
    "check grr --trust both": ["trust is 'both'", "shuffled"],
    "amplify maxsense": ["maxsense", "address", "grr, oue, subset or set"],
    "amplify hadamard": ["hadamard", "address"],
    "amplify pairs": ["pairs", "shuffled separately"],
    "amplify set --epsilon-local 2 --setting counted_group=0.1": ["set", "shuffled separately"],
    "amplify full-reveal": ["full-reveal", "not private"],
    "amplify grr --users 0": ["users is 0"],
    "amplify grr --delta 0.01": ["delta is 0.01", "1 / 100000", "1e-05"],
    "amplify grr --epsilon inf": ["epsilon is inf"],
    "amplify grr --epsilon 1 --epsilon-local 4": ["epsilon is 1", "epsilon_local 4"],
    "amplify set --setting padded=1000": ["padded"],
    "amplify nonsense": ["nonsense", "maxsense"],
}


@pytest.mark.parametrize("command", REFUSED)
def test_what_cannot_be_scrutinized_ends_with_one_line(command: str, blindrec: Command) -> None:
    line = refused(blindrec, *command.split())
    assert all(part in line for part in REFUSED[command]), line


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (check, "mechanism is a NoneType"),
        (lambda nothing: amplified(nothing, 1000), "mechanism is a NoneType"),
        (lambda nothing: amplified("grr", 1000, items=nothing), "items is a NoneType"),
    ],
)
def test_nothing_at_all_is_refused_from_python(call: Callable[[Any], object], line: str) -> None:
    with pytest.raises(InputError, match=line):
        call(None)
