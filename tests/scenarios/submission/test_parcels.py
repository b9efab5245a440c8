"""Results in a log: whole, among lines of others, or not at all."""

from __future__ import annotations

import random

import pytest

from scenarios.submission.parcel import MARK, WIDTH, DamagedError, Parcel, packed

LARGE = random.Random(0).randbytes(1_000_000)
"""A megabyte that cannot be compressed."""


def taken(lines: list[str]) -> Parcel:
    """A parcel that has seen these lines."""
    parcel = Parcel()
    for line in lines:
        parcel.take(line)
    return parcel


@pytest.mark.parametrize("content", [b"", b"{}", "é\n".encode() * 9, LARGE], ids=["empty", "small", "text", "large"])
def test_a_result_arrives_as_it_was(content: bytes) -> None:
    lines = packed(content)
    assert all(len(line) < WIDTH + 200 for line in lines)
    assert taken(lines).content() == content


def test_lines_of_others_are_shown_and_do_no_harm() -> None:
    first, *rest = packed(LARGE)
    parcel = Parcel()
    assert parcel.take("a line") == "a line"
    assert parcel.take(f"half a line {first}") == "half a line "
    assert [parcel.take(line) for line in ("", "another", *reversed(rest))] == ["", "another"] + [""] * len(rest)
    assert parcel.content() == LARGE


def test_the_last_of_two_results_counts() -> None:
    assert taken([*packed(b"first"), *packed(b"second")]).content() == b"second"


def test_a_log_without_a_result() -> None:
    assert taken(["nothing", f"{MARK} is what marks results"]).content() is None


def test_a_lost_part_is_noticed() -> None:
    lines = packed(LARGE)
    with pytest.raises(DamagedError, match=f"lacks 1 of {len(lines)} parts"):
        taken(lines[:-1]).content()


def test_a_changed_part_is_noticed() -> None:
    (line,) = packed(b"some result")
    changed = line[:-8] + ("A" if line[-8] != "A" else "B") + line[-7:]
    with pytest.raises(DamagedError, match="damaged"):
        taken([changed]).content()
