"""The policies that any mechanism may follow, by name; a mechanism's half adds its own, see `ServerHalf.policy`."""

from __future__ import annotations

from dataclasses import dataclass

from coordinator.protocol.errors import InputError
from coordinator.server.rounds.elimination import Eliminate, ItemByItem
from coordinator.server.rounds.schedules import Fixed, OneRound
from coordinator.server.rounds.setting import Setting
from coordinator.server.rounds.state import Policy
from coordinator.server.rounds.verifying import Verifying


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyOptions:
    """What a run says of its policy, beside the setting that every policy is told.

    Attributes
    ----------
    devices : int
        Number of devices that can be asked.
    rounds : int
        Number of rounds of policy fixed.
    verify : int or None
        Items of a pool when fresh devices verify labels at the end; None if they do not.
    """

    devices: int
    rounds: int = 2
    verify: int | None = None


def one_round(setting: Setting, options: PolicyOptions) -> Policy:  # noqa: ARG001 (as all of them)
    """Return the policy of one round."""
    return OneRound(design=setting.design, epsilon=setting.epsilon, public_seed=setting.public_seed)


def fixed(setting: Setting, options: PolicyOptions) -> Policy:
    """Return the policy of a fixed number of rounds.

    Raises
    ------
    InputError
        If devices give too few answers for them, or pools do not divide them.
    """
    answers = options.devices * setting.answers_per_device
    if options.rounds > answers:
        raise InputError(f"rounds is {options.rounds}, but all devices give {answers} answers; ask for fewer rounds")
    if (pools := len(setting.pools)) > options.rounds:
        raise InputError(
            f"rounds is {options.rounds}, but pools of {setting.pool_size} are {pools}; ask for a multiple of {pools}"
        )
    return Fixed(setting=setting, rounds=options.rounds)


def eliminate(setting: Setting, options: PolicyOptions) -> Policy:
    """Return the policy that asks about undecided items, where labels are verified with a verification after it."""
    policy = Eliminate(setting=setting)
    return Verifying(policy=policy, setting=setting, size=options.verify) if options.verify else policy


def item_by_item(setting: Setting, options: PolicyOptions) -> Policy:  # noqa: ARG001 (as all of them)
    """Return the policy that decides item after item."""
    return ItemByItem(setting=setting)
