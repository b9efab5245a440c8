"""The journal: rounds come back as they were, damage is told in a line, and killed runs end like all others."""

import zipfile
from dataclasses import fields, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import mechanisms
import numpy as np
import pytest
from faults import LAYOUT, left, stopped
from runs import Command, small, tree

from coordinator.protocol.errors import InputError
from coordinator.protocol.mechanism import as_kind
from coordinator.protocol.mechanisms import mechanisms as registered_mechanisms
from coordinator.protocol.statistics.statistic import Statistic
from coordinator.server.rounds.rounds import Round
from coordinator.server.rounds.state import Ask
from scenarios.backends.selection import InProcess
from scenarios.backends.session import InMemoryRounds
from scenarios.config.mechanism_settings import variants
from scenarios.families.main.run import run
from scenarios.store.journal import Journal
from scenarios.store.record_log import count_records, from_bytes, to_bytes

pytestmark = pytest.mark.usefixtures("few_draws")

KINDS: list[dict[str, Any]] = [
    *(
        {"design": name, "policy": policy}
        for name, half in registered_mechanisms().items()
        for policy in half.policies_with(half.settings())
    ),
    *(
        {"design": name, **told}
        for name, half in registered_mechanisms().items()
        for told in variants(as_kind(half))
        if told
    ),
    {"design": mechanisms.OUE()},
    {"epsilon": "1/3"},
    {"policy": "eliminate", "epsilon": "inf"},
    {"design": "sign", "vectors": 8, "policy": "fixed", "rounds": 3, "answers_per_device": 3},
]


BEFORE = "ab" * 32


def rounds_of(**changes: Any) -> list[Round]:
    """The rounds of a small run."""
    kept = InMemoryRounds()
    run(small(users=500, **changes), InProcess(1), rounds=kept)
    return kept.rounds


def same(one: Round, other: Round) -> bool:
    """Whether two rounds are alike to the last bit, types and all."""
    parts = [one.ask.query, other.ask.query], [one.statistic, other.statistic]
    for first, second in parts:
        for part in fields(first):
            mine, theirs = getattr(first, part.name), getattr(second, part.name)
            assert type(mine) is type(theirs), part.name
            if isinstance(mine, np.ndarray):
                assert mine.dtype == theirs.dtype
                assert mine.tolist() == theirs.tolist()
            else:
                assert mine == theirs, part.name
    assert one.ask.query.id == other.ask.query.id
    return (type(one.statistic), one.ask, one.digest) == (type(other.statistic), other.ask, other.digest)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: " ".join(map(str, kind.values())))
def test_rounds_come_back_as_they_were(kind: dict[str, Any], tmp_path: Path) -> None:
    rounds = rounds_of(**kind)
    written = Journal(tmp_path, 3)
    for over in rounds:
        again, before = from_bytes(Journal.codec, to_bytes(Journal.codec, over, BEFORE))
        assert same(again, over)
        assert before == BEFORE
        written.keep(over)
    assert all(same(one, other) for one, other in zip(Journal(tmp_path, 3), rounds, strict=True))
    assert count_records(tmp_path) == len(rounds) >= 1


def test_every_statistic_can_be_kept() -> None:
    kept = {type(rounds_of(design=one)[0].statistic).__name__ for one in (*registered_mechanisms(), mechanisms.OUE())}
    ours = (
        kind for kind in Statistic.__subclasses__() if kind.__module__.startswith("coordinator.protocol.statistics")
    )
    assert kept == {kind.__name__ for kind in ours}


def test_epsilons_and_pools_of_all_sorts_come_back() -> None:
    """Among them those that no float holds."""
    over = rounds_of(design="sign")[0]
    query = over.ask.query
    for epsilon in (None, Fraction(1, 3), Fraction(10**30 + 1, 10**30)):
        for pool in (None, np.array([39], np.int32), np.arange(40, dtype=np.int32)):
            changed = replace(query, epsilon=epsilon, pool=pool)
            again = Round(ask=Ask(query=changed, first=7, stop=10**12), statistic=over.statistic, digest=over.digest)
            assert same(from_bytes(Journal.codec, to_bytes(Journal.codec, again, BEFORE))[0], again)


def test_public_arrays_come_back() -> None:
    """By any name, whatever else is kept under it."""
    over = rounds_of()[0]
    arrays = {"pool": np.arange(3), "a/b": np.eye(2), "told": np.array([1 << 63], np.uint64)}
    asked = replace(over.ask, query=replace(over.ask.query, arrays=arrays))
    back = from_bytes(Journal.codec, to_bytes(Journal.codec, replace(over, ask=asked), BEFORE))[0].ask.query
    assert back.id == asked.query.id != over.ask.query.id
    assert {name: (array.dtype, array.tolist()) for name, array in back.arrays.items()} == {
        name: (array.dtype, array.tolist()) for name, array in arrays.items()
    }


def test_seeds_are_kept_apart_and_nothing_is_read_beyond_a_gap(tmp_path: Path) -> None:
    rounds = rounds_of(design="sign", policy="fixed", rounds=4)
    for seed, over in [*((0, over) for over in rounds), (1, rounds[0])]:
        Journal(tmp_path, seed).keep(over)
    assert [len(list(Journal(tmp_path, seed))) for seed in (0, 1, 2)] == [4, 1, 0]
    assert count_records(tmp_path) == 5
    (Journal(tmp_path, 0).folder / "000002.npz").unlink()
    (Journal(tmp_path, 0).folder / ".000002.npz.half").write_bytes(b"half")
    assert count_records(tmp_path) == 4
    assert (len(list(Journal(tmp_path, 0))), count_records(tmp_path)) == (2, 3)
    for over in rounds[2:]:
        Journal(tmp_path, 0).keep(over)
    assert len(list(Journal(tmp_path, 0))) == 4


def damages(good: bytes, other: Path) -> list[bytes]:
    """Files that are no round: cut off at every twentieth byte, a bit turned there, empty, text, another archive."""
    with zipfile.ZipFile(other, "w") as archive:
        archive.writestr("told.npy", "no array")
    places = range(0, len(good), 20)
    turned = [good[:place] + bytes([good[place] ^ 1 << place % 8]) + good[place + 1 :] for place in places]
    return [*(good[:place] for place in places), *turned, b"", b"no round", b"PK\x03\x04", other.read_bytes()]


def test_the_round_before_a_damaged_one_is_gone_on_from(tmp_path: Path) -> None:
    """Whatever happened to its file: it is put aside, and so are those after it."""
    rounds, file = rounds_of(design="sign", policy="fixed", rounds=3), tmp_path / "rounds" / "seed-0" / "000001.npz"
    for over in rounds:
        Journal(tmp_path, 0).keep(over)
    files = tree(file.parent)
    for content in damages(file.read_bytes(), tmp_path / "other.zip"):
        for name, good in files.items():
            (file.parent / name).write_bytes(good)
        file.write_bytes(content)
        found = Journal(tmp_path, 0)
        assert [same(one, rounds[0]) for one in found] == [True]
        assert found.damaged == file
        assert sorted(path.name for path in file.parent.iterdir()) == ["000000.npz", "000001.damaged", "000002.damaged"]


def test_a_round_that_another_version_kept_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    over = rounds_of(design="sign")[0]
    monkeypatch.setattr("scenarios.store.record_log.FORMAT", 1)
    Journal(tmp_path, 0).keep(over)
    monkeypatch.undo()
    with pytest.raises(InputError, match=r"000000.npz: a kept round has format 1, this version of blindrec reads 4"):
        list(Journal(tmp_path, 0))


RUN = ["run", "--design", "sign", "--policy", "eliminate", "--items", "20", "--rated", "5", "--users", "3000"]
RUN += ["--epsilon", "2", "--answers-per-device", "2", "--workers", "2", "--json", "-"]


def test_a_repeat_that_was_stopped_goes_on_with_the_seed_it_was_at(blindrec: Command, tmp_path: Path) -> None:
    """Even with other speed flags than before."""
    flags = [*RUN, "--backend", "inprocess", "--repeat", "3"]
    rounds = blindrec(*flags, "--out", tmp_path / "whole").result["runs"][0]["rounds"]
    stopped(blindrec, rounds + 2, *flags, "--out", tmp_path / "out")
    assert [len(list(Journal(tmp_path / "out", seed))) for seed in range(3)] == [rounds, 2, 0]
    assert blindrec(*flags, "--workers", 1, "--devices-per-actor", 700, "--out", tmp_path / "out").code == 0
    assert left(tmp_path / "out", LAYOUT) == left(tmp_path / "whole", LAYOUT)
