"""The journal: rounds come back as they were, damage is told in a line, and killed runs end like all others."""

from collections import Counter
from contextlib import closing
from dataclasses import fields, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import mechanisms
import numpy as np
import pytest
from evidence import sample, size
from faults import LAYOUT, forget, left, stopped
from runs import Command, small

from actors.database import LONGEST_LOG, Chain, Database
from coordinator.protocol.errors import InputError
from coordinator.protocol.mechanisms import mechanisms as registered_mechanisms
from coordinator.protocol.statistics.statistic import Statistic
from coordinator.server.rounds.rounds import Round
from coordinator.server.rounds.state import Ask
from scenarios.backends.selection import InProcess
from scenarios.backends.session import InMemoryRounds
from scenarios.config.mechanism_settings import variants
from scenarios.families.main.run import run
from scenarios.store.journal import Journal
from scenarios.store.record_log import RUN_FILE, count_records, from_row, to_row

pytestmark = pytest.mark.usefixtures("few_draws")

KINDS: list[dict[str, Any]] = [
    *(
        {"design": name, "policy": policy}
        for name, half in registered_mechanisms().items()
        for policy in half.policies_with(half.settings())
    ),
    *({"design": name, **told} for name, half in registered_mechanisms().items() for told in variants(half) if told),
    {"design": mechanisms.OUE()},
    {"epsilon": "1/3"},
    {"policy": "eliminate", "epsilon": "inf"},
    {"design": "sign", "vectors": 8, "policy": "fixed", "rounds": 3, "answers_per_device": 3},
]


def rounds_of(**changes: Any) -> list[Round]:
    """The rounds of a small run."""
    kept = InMemoryRounds()
    run(small(users=500, **changes), InProcess(1), rounds=kept)
    return kept.rounds


def again_of(over: Round) -> Round:
    """A round as it comes back."""
    return from_row(Journal.codec, to_row(Journal.codec, over))


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
    with closing(Journal(tmp_path, 3)) as written:
        for over in rounds:
            written.keep(over)
    with closing(Journal(tmp_path, 3)) as stored:
        assert all(same(one, other) for one, other in zip(stored, rounds, strict=True))
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
            assert same(again_of(again), again)


def test_public_arrays_come_back() -> None:
    """By any name, whatever else is kept under it."""
    over = rounds_of()[0]
    arrays = {"pool": np.arange(3), "a/b": np.eye(2), "told": np.array([1 << 63], np.uint64)}
    asked = replace(over.ask, query=replace(over.ask.query, arrays=arrays))
    back = again_of(replace(over, ask=asked)).ask.query
    assert back.id == asked.query.id != over.ask.query.id
    assert {name: (array.dtype, array.tolist()) for name, array in back.arrays.items()} == {
        name: (array.dtype, array.tolist()) for name, array in arrays.items()
    }


def test_seeds_are_kept_apart(tmp_path: Path) -> None:
    rounds = rounds_of(design="sign", policy="fixed", rounds=4)
    for seed, over in [*((0, over) for over in rounds), (1, rounds[0])]:
        with closing(Journal(tmp_path, seed)) as journal:
            journal.keep(over)
    assert count_records(tmp_path) == 5
    forget(journal.path, "seed 0", 2)
    for seed, count in enumerate((2, 1, 0)):
        with closing(Journal(tmp_path, seed)) as journal:
            assert len(list(journal)) == count
    with closing(Journal(tmp_path, 0)) as journal:
        with pytest.raises(InputError, match="in use"):  # another process has stored other rounds meanwhile
            journal.keep(rounds[3])
        for over in rounds[2:]:
            journal.keep(over)
        assert len(list(journal)) == 4


def test_no_byte_of_a_round_is_changed_in_silence(tmp_path: Path) -> None:
    """Where the file is cut off or a bit is turned: it is refused in a line, or tells of all rounds as they were."""
    rounds = rounds_of(design="sign", policy="fixed", rounds=3)
    with closing(Journal(tmp_path, 0)) as journal:
        for over in rounds:
            journal.keep(over)
    file = journal.path
    good, told = file.read_bytes(), Counter[bool]()
    places = sample(range(len(good)), size(2000, 30))
    contents = [good[:place] + bytes([good[place] ^ 1 << place % 8]) + good[place + 1 :] for place in places]
    contents += [good[:place] for place in sample(range(2, len(good)), size(300, 10))]
    contents += [b"no round", b"PK\x03\x04" + good[4:]]
    contents += [good.replace(b"tableseed 0", b"table\xc5eed 0")]  # a name that SQLite quotes where it complains
    for content in contents:
        file.write_bytes(content)
        with closing(Journal(tmp_path, 0)) as journal:
            told[refusal_of(journal, rounds).startswith(f"file of records {file} ")] += 1
    assert told[True] > told[False] > 0, "there is room in a file that nobody reads"


def refusal_of(journal: Journal, rounds: list[Round]) -> str:
    """The line in which rounds are refused; empty where they are there as they were."""
    try:
        stored = list(journal)
    except InputError as error:
        return str(error)
    assert all(same(one, other) for one, other in zip(stored, rounds, strict=True))
    return ""


def test_a_round_that_another_version_kept_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    over = rounds_of(design="sign")[0]
    monkeypatch.setattr("actors.database.FORMAT", 4)
    with closing(Journal(tmp_path, 0)) as journal:
        journal.keep(over)
    monkeypatch.undo()
    with (
        closing(Journal(tmp_path, 0)) as journal,
        pytest.raises(InputError, match=r"says that it is of .*, format 4; its folder is .* format 5:"),
    ):
        list(journal)


RUN = ["run", "--design", "sign", "--policy", "eliminate", "--items", "20", "--rated", "5", "--users", "3000"]
RUN += ["--epsilon", "2", "--answers-per-device", "2", "--workers", "2", "--json", "-"]


def test_a_repeat_that_was_stopped_goes_on_with_the_seed_it_was_at(blindrec: Command, tmp_path: Path) -> None:
    """Even with other speed flags than before."""
    flags = [*RUN, "--backend", "inprocess", "--repeat", "3"]
    rounds = blindrec(*flags, "--out", tmp_path / "whole").result["runs"][0]["rounds"]
    stopped(blindrec, rounds + 2, *flags, "--out", tmp_path / "out")
    assert count_records(tmp_path / "out") == rounds + 2
    assert blindrec(*flags, "--workers", 1, "--devices-per-actor", 700, "--out", tmp_path / "out").code == 0
    assert left(tmp_path / "out", LAYOUT) == left(tmp_path / "whole", LAYOUT)


@pytest.mark.parametrize("fails", [False, True])
def test_a_long_log_is_written_into_its_file(fails: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And begins anew at its start; if that fails, what was committed stays so."""
    database = Database(tmp_path, RUN_FILE, "nobody")
    rows = Chain(database, "rows", "content BLOB NOT NULL")
    rows.append([(bytes(3 << 20),)])
    if fails:
        monkeypatch.setattr("actors.database._EMPTY", "no SQL")
    rows.append([(bytes(3 << 20),)])
    log = tmp_path / f"{RUN_FILE.name}-wal"
    assert (log.stat().st_size > LONGEST_LOG) == fails
    assert len(rows) == 2
    database.close()
    assert not log.exists()
