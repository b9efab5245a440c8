"""The manifest of a run's folder names the run, its scenario and its code; a digest reveals any change of it."""

import hashlib
import json
import os
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from actors.database import FORMAT
from coordinator.protocol.errors import InputError, ReadError
from coordinator.protocol.limits import read_whole
from scenarios.config.files import LARGEST_WHOLE, MOST_SETTINGS, json_object
from scenarios.store.whole_files import write_json

FOLDER, MANIFEST = "rounds", "scenario.json"
PROGRESS = "progress.json"
"""The run's progress, beside its manifest, for whoever watches it; no run resumes from that file."""
RUN, ONLINE, TWO_TIER, SWEEP = KINDS = "run", "online", "two-tier", "sweep"  # Commands whose experiments can be resumed
_KEPT = {
    RUN: ("round", "rounds"),
    ONLINE: ("client", "clients"),
    TWO_TIER: ("batch", "batches"),
    SWEEP: ("unit", "units"),
}
_NAME = re.compile("[0-9a-f]{32}")
UNCLAIMED = "0" * 32  # The run's name in folders that were never claimed, such as temporary ones


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The facts about a run that its folder records."""

    kind: str = RUN  # The experiment's command, one of `KINDS`
    # The run's name: 32 random hexadecimal digits, which distinguish it from other runs of the same scenario
    run: str = field(default_factory=lambda: os.urandom(16).hex())
    scenario: dict[str, Any]  # The scenario's given values; for a sweep, the settings that all of its units depend on
    source_sha256: str | None  # Digest of the file of ratings, or of the world file, that it reads
    code_sha256: str  # Digest of the code that makes queries; see `scenarios.config.mechanism_settings.code_digest`
    repeat: int = 1  # Number of seeds
    command: str | None = None  # The command that began a sweep, with which it goes on; None from Python

    @property
    def identity(self) -> tuple[str, dict[str, Any], str | None]:
        """The values that a resumed run must share."""
        return self.kind, self.scenario, self.source_sha256

    @property
    def whole(self) -> str:
        """The digest of everything that two equal finished runs share: identity, seeds and code."""
        return digest([self.identity, self.repeat, self.code_sha256])

    def resume_hint(self, count: int, out: Path) -> str:
        """Say how many records the folder holds and how to resume."""
        singular, plural = _KEPT[self.kind]
        stored = f"{count} {singular} is kept" if count == 1 else f"{count} {plural} are kept"
        how = "the same command" if self.kind == SWEEP else f"the same command or blindrec resume {out}"
        return f"{stored} in {out}, {how} goes on"

    def write(self, out: Path) -> None:
        """Write the manifest to a run's folder."""
        content = {"format": FORMAT, **asdict(self)}
        write_json(out / FOLDER / MANIFEST, {**content, "sha256": digest(content)})


def bound(manifest: Manifest | None, part: object) -> str:
    """Return the digest that binds a part of a folder to its run: of the run's name, its identity and the part."""
    return digest([manifest.run, part, manifest.identity] if manifest else [UNCLAIMED, part, None])


def digest(value: object) -> str:
    """Return the SHA-256 of a value's JSON."""
    return hashlib.sha256(json.dumps(json.loads(json.dumps(value)), sort_keys=True).encode()).hexdigest()


def read_manifest(out: Path) -> Manifest | None:
    """Return the manifest of a run's folder, or None where there is none."""
    path = out / FOLDER / MANIFEST
    remedy = "put it back as it was, or run the scenario in a new folder"

    def refused(complaint: str) -> InputError:
        return InputError(f"output folder {out}: {path} {complaint}; {remedy}")

    try:
        content = json_object(read_whole(path, MOST_SETTINGS), str(path), remedy)
        form, check = content["format"], content.pop("sha256", None)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ReadError(f"{path} cannot be read ({error.strerror}); make it readable") from None
    except (InputError, KeyError):
        raise refused("is damaged") from None
    if form != FORMAT:
        raise InputError(
            f"output folder {out} has format {str(form)[:20]}, this version of blindrec reads {FORMAT}; resume "
            "with the version that wrote it, or name a new folder"
        )
    if check != digest(content):
        raise refused("was changed since the run began")
    try:
        manifest = Manifest(**{name: value for name, value in content.items() if name != "format"})
    except TypeError:
        raise refused("is damaged") from None
    whole = type(manifest.repeat) is int and 1 <= manifest.repeat <= LARGEST_WHOLE
    for good, complaint in (
        (manifest.kind in KINDS, f"is of a {str(manifest.kind)[:40]!r}, no experiment"),
        (_NAME.fullmatch(str(manifest.run)), f"names run {str(manifest.run)[:40]!r}, no name of a run"),
        (whole, f"has repeat {str(manifest.repeat)[:40]}"),
        (isinstance(manifest.command, str | None), f"names command {str(manifest.command)[:40]}"),
    ):
        if not good:
            raise refused(complaint)
    return manifest
