"""Layouts cover every device once and never leave bounds that packed bits need."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.protocol.errors import InputError
from coordinator.server.fleet.cohorts import MOST_BITS, MOST_BLOCKS, SMALLEST_BLOCK, Layout, calls, cut, plan_layout
from coordinator.server.rounds.transcript import leaf_of


@given(st.integers(0, 500), st.integers(0, 500), st.integers(1, 90))
def test_a_cut_covers_everything_once(first: int, length: int, size: int) -> None:
    pieces = cut(first, first + length, size)
    assert [device for a, b in pieces for device in range(a, b)] == list(range(first, first + length))
    assert all(b - a == size for a, b in pieces[:-1])
    assert all(0 < b - a <= size for a, b in pieces)


def test_nothing_is_cut_into_nothing() -> None:
    assert cut(7, 7, 3) == []
    assert cut(9, 7, 3) == []


@given(st.integers(1, 10**13), st.integers(1, 5000), st.integers(1, 2 * 10**8))
def test_blocks_are_whole_bytes_and_bring_back_few_bits(devices: int, workers: int, bits: int) -> None:
    layout = Layout(devices=devices, workers=workers, devices_per_actor=devices)
    block, leaf = layout.block_of(bits), leaf_of(bits)
    assert block % 8 == leaf % 8 == 0
    assert block * bits <= MOST_BITS or block == 8
    assert layout.block_of(1) >= SMALLEST_BLOCK
    assert layout.block_of(bits + 1) <= block
    assert block <= leaf or (block % leaf == 0 and devices > MOST_BLOCKS * leaf)


@given(st.integers(0, 10**7), st.integers(0, 10**7), st.integers(1, 10**5), st.sampled_from([1, 100, 30_000]))
def test_calls_lie_in_a_leaf_or_are_whole_leaves(first: int, length: int, size: int, bits: int) -> None:
    leaf = leaf_of(bits)
    size = max(size, leaf // 50)
    pieces = calls(first, first + length, size, bits)
    assert pieces == sorted(pieces)
    assert sum(stop - start for start, stop in pieces) == length
    assert all(left[1] == right[0] for left, right in itertools.pairwise(pieces))
    for start, stop in pieces:
        assert 0 < stop - start <= size
        assert start // leaf == (stop - 1) // leaf or start % leaf == stop % leaf == 0


@given(st.integers(1, 10**6), st.integers(1, 64))
def test_without_a_wish_there_is_a_cohort_a_worker_at_most(devices: int, workers: int) -> None:
    layout = plan_layout(devices=devices, workers=workers, devices_per_actor=None)
    assert len(layout.cohorts) <= workers
    assert layout.devices_per_actor % 8 == 0
    assert (layout.cohorts[0][0], layout.cohorts[-1][1]) == (0, devices)
    assert all(left[1] == right[0] for left, right in zip(layout.cohorts, layout.cohorts[1:], strict=False))


@given(st.integers(1, 3000), st.integers(1, 3000))
def test_a_wish_is_kept(devices: int, wish: int) -> None:
    layout = plan_layout(devices=devices, workers=2, devices_per_actor=wish)
    assert layout.devices_per_actor == wish
    assert len(layout.cohorts) == -(-devices // wish)


@pytest.mark.parametrize(
    ("devices", "workers", "wish", "name", "value"),
    [
        (0, 1, 8, "devices", 0),
        (-5, 1, None, "devices", -5),
        (10, 0, None, "workers", 0),
        (10, -2, 8, "workers", -2),
        (10, 1, -1, "devices_per_actor", -1),
        (10, 1, 0, "devices_per_actor", 0),
    ],
)
def test_impossible_layouts_are_refused_by_name(
    devices: int, workers: int, wish: int | None, name: str, value: int
) -> None:
    with pytest.raises(InputError, match=rf"^{name} is {value}; it must be at least 1$"):
        plan_layout(devices=devices, workers=workers, devices_per_actor=wish)
