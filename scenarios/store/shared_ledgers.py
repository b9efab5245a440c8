"""Ledgers that outlive a run: a folder of the devices' keeper, which later runs of the same devices join."""

from pathlib import Path
from typing import Any

from actors.durable_log import make_folder
from coordinator.protocol.errors import InputError, LostError
from scenarios.config.files import file_sha256, read_object
from scenarios.config.scenario import Scenario
from scenarios.store.manifest import digest
from scenarios.store.whole_files import write_json

_DEVICES = "devices.json"  # Whose ledger it is
_WORLD = ("seed", "items", "rated", "users", "like", "class_shares", "cluster_shares", "drift")
"""What devices are, beside a file: who they are, and what they rated and like in each period."""


def shared_ledger(folder: Path, scenario: Scenario) -> Path:
    """Return the ledger of a filled-in scenario's devices in a folder, and refuse a folder of other devices.

    Of another plan than theirs devices themselves refuse everything: each charge names the agreement it was made under.
    """
    ledger, devices = (folder / f"seed-{scenario.seed}").absolute(), _devices(scenario)
    path = ledger / _DEVICES
    owners = read_object(path, f"put it back as it was, or name a new folder than {folder}")
    if owners is None:
        try:
            make_folder(ledger)
            write_json(path, devices)
        except OSError as error:
            raise LostError(f"{path} cannot be written ({error.strerror}); free space there") from None
    elif owners != devices:
        names = ", ".join(name for name in devices if owners.get(name) != devices[name] and name != "sha256")
        raise InputError(f"ledger {folder} is of devices with other {names or 'content'}; name a new folder")
    return ledger


def _devices(scenario: Scenario) -> dict[str, Any]:
    values = {name: scenario.model_dump(mode="json")[name] for name in _WORLD}
    file = None if scenario.ratings is None else file_sha256(scenario.ratings, "ratings file")
    values |= {"ratings": file}
    return {**values, "sha256": digest(values)}
