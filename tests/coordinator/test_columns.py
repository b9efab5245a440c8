"""Counts straight from packed releases are those of unpacked ones; what is no subset is refused."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import worlds

from coordinator.protocol.arrays import Bits2, Ints2
from coordinator.protocol.errors import InputError
from coordinator.protocol.messages import Query, Release, pack
from coordinator.protocol.value_channels import subset_form
from coordinator.server.mechanisms import aggregate, no_release
from coordinator.server.statistics.slices import column_counts, subset_counts


def release_of(query_id: bytes, bits: Bits2, *, silent: bool) -> Release:
    heard = np.random.default_rng(len(bits)).random(len(bits)) < 0.8 if silent else np.ones(len(bits), np.bool_)
    return Release(
        query_id=query_id,
        first=3,
        count=len(bits),
        width=bits.shape[1],
        bits=pack(bits * heard[:, None]),
        answered=pack(heard.astype(np.uint8)) if silent else None,
    )


@pytest.mark.parametrize("silent", [False, True])
@pytest.mark.parametrize("width", [1, 5, 64, 65, 130])
@pytest.mark.parametrize("devices", [0, 1, 2, 3, 63, 64, 257])
def test_columns_add_up(devices: int, width: int, silent: bool) -> None:
    bits = np.random.default_rng([devices, width]).integers(0, 2, (devices, width), np.uint8)
    release = release_of(bytes(16), bits, silent=silent)
    assert column_counts(release).tolist() == release.unpacked().sum(axis=0).tolist()


def test_bits_of_silent_devices_do_not_count() -> None:
    """Whoever sends them in spite of it."""
    release = replace(release_of(bytes(16), np.ones((9, 70), np.uint8), silent=False), answered=bytes([0b10100000, 0]))
    assert set(column_counts(release).tolist()) == {2}


def query_of(values: int, chosen: int) -> Query:
    """Subset selection among so many values, "none" among them."""
    parts, bits = subset_form(values, chosen)
    return Query(
        design="subset",
        items=values - 1,
        round=0,
        public_seed=worlds.PUBLIC,
        epsilon=Fraction(1),
        questions=parts,
        answer_bits=bits,
        parameters={"sides": 1, "chosen": chosen},
    )


def written(query: Query, named: Ints2) -> Bits2:
    """Subsets as bits, one row a device."""
    if query.answer_bits == 1:
        bits = np.zeros((len(named), query.bits), np.uint8)
        bits[np.arange(len(named))[:, None], named] = 1
        return bits
    return ((named[:, :, None] >> np.arange(query.answer_bits)[::-1]) & 1).astype(np.uint8).reshape(len(named), -1)


@pytest.mark.parametrize("silent", [False, True])
@pytest.mark.parametrize(("values", "chosen"), [(300, 7), (300, 90), (41, 6), (41, 7)])
def test_subsets_are_counted_in_either_form(values: int, chosen: int, silent: bool) -> None:
    query = query_of(values, chosen)
    named = np.sort(np.random.default_rng(chosen).random((201, values)).argsort(axis=1)[:, :chosen], axis=1)
    release = release_of(query.id, written(query, named), silent=silent)
    expected = np.bincount(named[release.answered_mask()].ravel(), minlength=values)
    assert subset_counts(query, release, values=values, subset_size=chosen).tolist() == expected.tolist()
    statistic = aggregate(query, release)
    assert statistic.ones == int(release.unpacked().sum())
    assert aggregate(query, no_release(query)).answered == 0


@pytest.mark.parametrize(
    ("chosen", "wrong"),
    [(4, [1, 2, 3, 3]), (4, [2, 1, 3, 4]), (4, [1, 2, 3, 40]), (4, [0, 0, 0, 0]), (20, [*range(19), 18])],
)
def test_what_is_no_subset_is_refused(chosen: int, wrong: list[int]) -> None:
    """A value twice, out of order, out of range, zeros; and a bit too few. From silent devices all of it is ignored."""
    query = query_of(40, chosen)
    named = np.array([list(range(chosen)), wrong])
    release = release_of(query.id, written(query, named), silent=False)
    words = rf"^the release of devices 3 to 4 is no answer to .*: it holds what is no subset of {chosen} of 40 values"
    with pytest.raises(InputError, match=words):
        aggregate(query, release)
    heard = replace(release, answered=bytes([0b10000000]))
    assert aggregate(query, heard).answered == 1
