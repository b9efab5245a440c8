"""What a run goes on by is known by its code: every module of blindrec counts, wherever it stands."""

from __future__ import annotations

from pathlib import Path

import pytest

import actors
import blindrec
import coordinator
import scenarios
from scenarios.config import mechanism_settings


@pytest.mark.parametrize("package", [actors, blindrec, coordinator, scenarios])
def test_every_module_counts(package: object) -> None:
    folder = Path(str(getattr(package, "__file__"))).parent  # noqa: B009 (modules are typed without it)
    held = set(mechanism_settings._our_code())
    found = sorted(folder.rglob("*.py"))
    assert len(found) > 2
    assert all(path.read_bytes() in held for path in found)


def test_another_code_is_another_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    before = mechanism_settings.code_digest("")
    assert before == mechanism_settings.code_digest("")
    ours = mechanism_settings._our_code()
    for place in (0, len(ours) - 1):
        changed = (*ours[:place], ours[place] + b"\n", *ours[place + 1 :])
        monkeypatch.setattr(mechanism_settings, "_our_code", lambda changed=changed: changed)
        assert mechanism_settings.code_digest("") != before
