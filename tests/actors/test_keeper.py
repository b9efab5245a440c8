"""The keeper's file: charged before answered, and read by whoever embodies the device next, not by two at a time."""

import json
import sqlite3
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from fractions import Fraction
from itertools import groupby, product
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
import worlds
from evidence import examples, sample, size
from faults import Deaf, limited
from hypothesis import given, settings
from hypothesis import strategies as st
from runs import present, tree
from worlds import in_world, keeper_on

from actors import database
from actors.database import Chain, Database
from actors.device import Cohort
from actors.host import OpeningKeeper
from actors.keeper import LEDGER, Charge, Keeper, owner_of, spent_by
from actors.ledger import Ledger
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.errors import InputError, LedgerError
from coordinator.protocol.mechanisms import mechanism_of
from coordinator.protocol.mechanisms.maxsense import MaxSense
from coordinator.protocol.messages import Query


@contextmanager
def hasty_threads() -> Iterator[None]:
    """Let threads take turns as often as they can."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(usual)


WORLD = worlds.world(items=40, rated=5)
BUDGET = Fraction(1)


def query(number: int, epsilon: Fraction = Fraction(1, 3)) -> Query:
    return in_world(MaxSense, items=40, rated=5).query(round_number=number, public_seed=worlds.PUBLIC, epsilon=epsilon)


def cohort(folder: Path, first: int = 0, stop: int = 60) -> Cohort:
    """Devices whose keeper was just started, on a folder."""
    return Cohort(worlds.block_ratings(WORLD), WORLD.secret, first, stop, BUDGET, keeper=keeper_on(folder))


def lines(devices: Cohort) -> int:
    return devices.ledger._keeper.read(0, 60)[0]


def test_who_embodies_devices_next_knows_what_they_spent(tmp_path: Path) -> None:
    """Whatever cohorts there are then; an answer that is repeated is booked once."""
    for first, stop in ((0, 25), (25, 60)):
        before = cohort(tmp_path, first, stop)
        released = before.answer(query(0), first, stop)
        assert before.answer(query(0), first, stop) == released
    cohort(tmp_path, 10, 40).answer(query(1), 10, 30)
    again = cohort(tmp_path)
    assert again.ledger.spending() == [(0, 10, Fraction(1, 3)), (10, 30, Fraction(2, 3)), (30, 60, Fraction(1, 3))]
    assert lines(again) == 3
    assert again.answer(query(0), 0, 60).refused == 0
    assert again.answer(query(2), 0, 60).refused == 0
    assert again.answer(query(3), 0, 60).refused == 20


def test_a_long_book_tells_of_each_device_what_is_about_it(tmp_path: Path) -> None:
    """Also of entries that came after those for which there was room at first, and where it is read anew."""
    keeper = keeper_on(tmp_path)
    for number in range(200):
        assert keeper.book(number, number + 2, number, [f"[{number}]"]) == (number + 1, [])
    for book in (keeper, keeper_on(tmp_path)):
        assert book.read(100, 101) == (200, ["[99]", "[100]"])
        assert book.read(0, 300, since=198) == (200, ["[198]", "[199]"])


def test_nothing_is_answered_that_cannot_be_booked_until_it_can_be(tmp_path: Path) -> None:
    """A disk that is full is one line, whoever asks, and a repeat needs none of it."""
    devices = cohort(tmp_path)
    devices.answer(query(0), 0, 60)
    with limited():
        many = (devices.answer(query(number, Fraction(1, 10**6)), 0, 60) for number in range(1, 300))
        with pytest.raises(LedgerError, match=r"cannot be written \(No space left on device\); devices do not answer"):
            list(many)
        assert devices.answer(query(0), 0, 60).refused == 0
    spent = devices.ledger.spent(0)
    assert devices.answer(query(300), 0, 60).refused == 0
    assert cohort(tmp_path).ledger.spent(0) == present(spent) + Fraction(1, 3)


def test_it_is_booked_before_it_is_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def sketched(*_: object) -> None:
        seen.append(lines(devices))
        raise KeyboardInterrupt

    devices, half = cohort(tmp_path), mechanism_of(query(0).design)
    monkeypatch.setattr(type(half), "sketch", sketched)
    with pytest.raises(KeyboardInterrupt):
        devices.answer(query(0), 0, 60)
    assert seen == [1]


def test_no_byte_that_is_changed_gives_anything_back(tmp_path: Path) -> None:
    """Two answers of 1/2 fill the budget, in the file or, where the process was killed, in its log."""
    devices = cohort(tmp_path)
    for number in range(2):
        devices.answer(query(number, Fraction(1, 2)), 0, 60)
    killed = tree(tmp_path)
    keeper_on(tmp_path).close()
    for files in (killed, tree(tmp_path)):
        for name, good in files.items():
            for place in sample(range(len(good)), size(1000, 25)):
                flipped = good[:place] + bytes([good[place] ^ 1 << place % 8]) + good[place + 1 :]
                assert spent_after(tmp_path, {**files, name: flipped}) in (None, 1), (name, place)


def test_no_bit_at_the_head_of_its_last_frame_is_changed_in_silence(tmp_path: Path) -> None:
    """Of the pages after the commit, and of the salts of the log: SQLite takes each for the end of what was written."""
    devices = cohort(tmp_path)
    for number in range(2):
        devices.answer(query(number, Fraction(1, 2)), 0, 60)
    files = tree(tmp_path)
    (name,) = (name for name in files if name.endswith("-wal"))
    good = files[name]
    head = len(good) - 24 - int.from_bytes(good[8:12])
    assert spent_after(tmp_path, files) == 1
    for place, bit in product(range(head + 4, head + 16), range(8)):
        flipped = good[:place] + bytes([good[place] ^ 1 << bit]) + good[place + 1 :]
        assert spent_after(tmp_path, {**files, name: flipped}) is None, (place - head, bit)


def spent_after(folder: Path, files: dict[str, bytes]) -> Fraction | None:
    """What every device spent, as files tell it; None where they are refused."""
    keeper_on(folder).close()
    for path in folder.iterdir():
        path.unlink()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    try:
        ((*_, spent),) = cohort(folder).ledger.spending()
    except LedgerError:
        (folder / LEDGER.name).unlink()
        return None
    return spent


def test_a_log_that_was_cut_off_loses_its_last_charges_alone(tmp_path: Path) -> None:
    """A charge that is not there as a whole was never answered; those before it are."""
    devices = cohort(tmp_path)
    ends = []
    for number in range(3):
        devices.answer(query(number), 0, 60)
        ends.append(len(tree(tmp_path)["ledger.db-wal"]))
    killed = tree(tmp_path)
    for cut in sample(range(ends[0], ends[-1] + 1), size(200, 20)):
        files = {**killed, "ledger.db-wal": killed["ledger.db-wal"][:cut]}
        assert spent_after(tmp_path, files) == Fraction(sum(end <= cut for end in ends), 3), cut


NO_EPSILONS = ("-100", "0", "0/3", 0.5, -1, True, [1], "one", "1/0")
NO_ENTRIES = ['["zz", "1", 0, 9]', '["00", "1"]', "{}", "5", "[" * 100_000]
NO_ENTRIES += [json.dumps(["00", epsilon, 0, 9]) for epsilon in NO_EPSILONS]


@pytest.mark.parametrize("line", NO_ENTRIES, ids=lambda line: line[:20])
def test_a_line_that_holds_no_entry_is_told(line: str, tmp_path: Path) -> None:
    """Even with a digest that goes with it."""
    good = Charge(bytes(16), Fraction(1), 0, 9).line()
    write_rows(tmp_path, [(0, 9, good), (0, 9, line)])
    with pytest.raises(LedgerError, match=r"is damaged in row 1|line is no charge.*what devices spent is not known"):
        cohort(tmp_path).ledger.spending()


def write_rows(folder: Path, rows: list[tuple[Any, ...]]) -> None:
    """Write rows as a keeper does, whatever they hold."""
    file = Database(folder, LEDGER, owner_of(folder))
    Chain(file, "charges", "first INTEGER NOT NULL, stop INTEGER NOT NULL, entry TEXT NOT NULL").append(rows)
    file.close()


def test_two_processes_at_a_time_are_refused_in_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the first one ends, however it does; what it wrote is then there for the next one, and for any tool."""
    monkeypatch.setattr("actors.database.PATIENCE", 0.01)
    late = Keeper(tmp_path)  # of a book that nobody had begun
    cohort(tmp_path).answer(query(0), 0, 60)
    for act in (lambda: Keeper(tmp_path), lambda: late.book(0, 9, 0, ["[]"])):
        with pytest.raises(LedgerError, match=rf"^ledger {tmp_path}/ledger.db is in use by another blindrec .*wait"):
            act()
    keeper_on(tmp_path).close()
    assert list(tree(tmp_path)) == [LEDGER.name]
    with pytest.raises(LedgerError, match="in use"):  # it has not read what was booked meanwhile
        late.book(0, 9, 0, ["[]"])
    late.close()
    with closing(sqlite3.connect(tmp_path / LEDGER.name)) as tool:
        assert tool.execute("SELECT first, stop FROM charges").fetchall() == [(0, 60)]


def test_each_intermediary_has_a_table_of_its_own(tmp_path: Path) -> None:
    keeper = keeper_on(tmp_path)
    assert keeper.book(0, 9, 0, ["[1]"]) == keeper.book(0, 9, 0, ["[2]"], "the shuffler") == (1, [])
    keeper = keeper_on(tmp_path)
    assert (keeper.read(0, 9), keeper.read(0, 9, opener="the shuffler")) == ((1, ["[1]"]), (1, ["[2]"]))
    for opener in ('x"; DROP TABLE charges', "", 5):
        with pytest.raises(InputError, match=r"opener is .*give a name of small letters"):
            OpeningKeeper(keeper).book(0, 9, 0, ["[]"], opener)  # type: ignore[arg-type] # a keeper without Ray


def test_a_book_that_lost_a_part_is_told(tmp_path: Path) -> None:
    """A log that was cut at the end of a line looks whole; devices that knew more do not go on."""
    devices = cohort(tmp_path)
    devices.answer(query(0), 0, 60)
    keeper_on(tmp_path).close()
    (tmp_path / LEDGER.name).unlink()
    devices.ledger._keeper = keeper_on(tmp_path)
    with pytest.raises(LedgerError, match="has 0 entries, devices knew 1; what devices spent is not known"):
        devices.answer(query(1), 0, 60)


@pytest.mark.parametrize("line", ["", "5", "a", '["a\nb"]', "[\x00]", "[\u00e9]", 5, None])
def test_a_line_of_the_book_is_a_line(line: Any, tmp_path: Path) -> None:
    keeper = Keeper(tmp_path)
    with pytest.raises(InputError, match="a line of a book is"):
        keeper.book(0, 60, 0, ["[]", line])
    assert (keeper.read(0, 60), list(tmp_path.iterdir())) == ((0, []), [])


@pytest.mark.parametrize("row", [(60, 0, "[]"), (0, 60, "5"), (-1, 60, "[]"), (0, "x", "[]"), (0, 60, b"[]")], ids=str)
def test_a_row_that_is_about_no_devices_is_told(row: tuple[Any, ...], tmp_path: Path) -> None:
    write_rows(tmp_path, [row])
    with pytest.raises(LedgerError, match="is damaged in row 0 of table"):
        Keeper(tmp_path)


# Two processes embody the same devices, since one was taken for dead and is not: they never spend twice.
USERS = 12
COSTS: list[Epsilon] = [Fraction(1, 3), Fraction(1, 2), Fraction(1), Fraction(2, 7), None]
QUERIES = [worlds.maxsense_query(items=4, sensing=0.5, epsilon=cost, round_number=k) for k, cost in enumerate(COSTS)]
CUTS = [[(0, 12)], [(0, 5), (5, 12)], [(0, 4), (4, 8), (8, 12)]]
"""Each process has cohorts of its own: it was started by another run of the same devices, perhaps."""
Call = tuple[int, Query, int, int]
CALLS = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from(QUERIES), st.integers(0, USERS), st.integers(0, USERS)), max_size=30
)


class Late(Deaf):
    """A keeper that somebody else calls first, as often as the process looked before it books."""

    def __init__(self, keeper: Keeper, others: list[tuple[Ledger, int]]) -> None:
        super().__init__(keeper, below=0)
        self.others = others

    def book(self, first: int, stop: int, known: int, lines: Sequence[str], opener: str = "") -> tuple[int, list[str]]:
        if self.others:
            ledger, number = self.others.pop()
            ledger.charge(QUERIES[number], ledger.first, ledger.stop)
        return super().book(first, stop, known, lines, opener)


def charged(ledgers: list[Ledger], number: int, low: int, high: int) -> None:
    for ledger in ledgers:
        if (first := max(low, ledger.first)) < (stop := min(high, ledger.stop)):
            ledger.charge(QUERIES[number], first, stop)


class Naive:
    """One dictionary a device, from query id to what it cost; None is infinite."""

    def __init__(self, budget: Epsilon) -> None:
        self.budget = budget
        self.paid: list[dict[bytes, Epsilon]] = [{} for _ in range(USERS)]

    def spent(self, device: int) -> Epsilon:
        costs = list(self.paid[device].values())
        return None if None in costs else sum((cost for cost in costs if cost is not None), start=Fraction(0))

    def charge(self, query: Query, device: int) -> bool:
        """Charge one device; return whether it refuses."""
        if query.id in self.paid[device]:
            return False
        spent = self.spent(device)
        if self.budget is not None and (query.epsilon is None or spent is None or spent + query.epsilon > self.budget):
            return True
        self.paid[device][query.id] = query.epsilon
        return False


@settings(max_examples=examples(160))
@given(budget=st.sampled_from([Fraction(1), Fraction(5, 6), Fraction(2), Fraction(1, 10), None]), calls=CALLS)
def test_processes_that_are_asked_in_any_order_keep_one_book(budget: Epsilon, calls: list[Call]) -> None:
    """The one of a dictionary a device: who refuses, and what each device has spent, exactly."""
    keeper, naive = Keeper(), Naive(budget)
    processes = [[Ledger(first, stop, budget, keeper) for first, stop in cuts] for cuts in CUTS]
    for which, query, one, other in calls:
        low, high = min(one, other), max(one, other)
        refused = [
            device
            for ledger in processes[which]
            if max(low, ledger.first) < min(high, ledger.stop)
            for start, end in ledger.charge(query, max(low, ledger.first), min(high, ledger.stop))
            for device in range(start, end)
        ]
        assert refused == [device for device in range(low, high) if naive.charge(query, device)]
        assert all(ledger.spent(d) == naive.spent(d) for ledger in processes[0] for d in range(USERS))
    spending = sums_of([(device, device + 1, naive.spent(device)) for device in range(USERS)])
    assert spent_by(keeper, USERS) == spending
    for ledgers in processes:
        assert sums_of([one for ledger in ledgers for one in ledger.spending()]) == spending


def sums_of(stretches: list[tuple[int, int, Epsilon]]) -> list[tuple[int, int, Epsilon]]:
    """Stretches, those that spent alike joined."""
    alike = [list(group) for _, group in groupby(stretches, itemgetter(2))]
    return [(group[0][0], group[-1][1], group[0][2]) for group in alike]


@settings(max_examples=examples(100))
@given(
    mine=st.lists(st.integers(0, 3), min_size=1, max_size=6),
    theirs=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), max_size=6),
)
def test_what_comes_between_a_look_and_a_charge_is_taken_in(mine: list[int], theirs: list[tuple[int, int]]) -> None:
    """The other process books in the moment before this one does: never above the budget, never twice."""
    keeper, budget = Keeper(), Fraction(4, 3)
    others = [Ledger(first, stop, budget, keeper) for first, stop in CUTS[2]]
    late = Late(keeper, [(others[which], number) for which, number in theirs])
    ledger = Ledger(0, USERS, budget, late)
    for number in mine:
        ledger.charge(QUERIES[number], 0, USERS)
    late.others.clear()  # a look is a call, too
    told = [ledger.spent(device) for device in range(USERS)]
    assert all(spent is not None and spent <= budget for spent in told)
    assert sums_of([(d, d + 1, spent) for d, spent in enumerate(told)]) == spent_by(keeper, USERS)
    lines = keeper.read(0, USERS)[1]
    assert len(lines) == len(set(lines))


def test_threads_of_several_processes_never_spend_above_the_budget() -> None:
    """Their sums are exact, and what one of them answered the other ones repeat."""
    for _ in range(20):
        keeper = Keeper()
        processes = [[Ledger(a, b, Fraction(1), keeper) for a, b in cuts] for cuts in CUTS]
        with hasty_threads(), ThreadPoolExecutor(6) as threads:
            todo = [(one, number, k, k + 3) for k in range(0, 12, 3) for number in range(4) for one in processes]
            list(threads.map(charged, *zip(*todo, strict=True)))
        spent = {amount for _, _, amount in spent_by(keeper, USERS)}
        assert all(amount is not None and Fraction(1, 2) < amount <= 1 for amount in spent)
        for ledgers in processes:
            own = [one for ledger in ledgers for one in ledger.spending()]
            assert sums_of(own) == spent_by(keeper, USERS)


def test_rows_of_stored_folders_keep_their_digests() -> None:
    assert database._digest(b"before", (1, None, "a")).hex()[:16] == "ca857c62c4d2524f"
    assert database._digest(b"before", (1, b"\0a")).hex()[:16] == "b00e3699dd463258"
