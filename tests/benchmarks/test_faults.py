"""The simulation of faults: its histories hold, it replays them, and it finds bugs that are planted."""

import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from evidence import size

from actors.database import _PRAGMAS, Database
from actors.keeper import Charge, UnreachableError
from actors.ledger import Costly, Ledger
from actors.private_cohort import PrivateCohort
from benchmarks.faults import __main__ as command
from benchmarks.faults.disk import Connection
from benchmarks.faults.history import FAMILIES, numbers_of, play
from benchmarks.faults.scheduler import KINDS, LATER
from coordinator.aggregators.gathering import ShareServer
from coordinator.protocol.checked import MOST_DEVICES
from coordinator.protocol.coins import derive
from coordinator.protocol.errors import InputError
from coordinator.protocol.features import ItemFeatures
from coordinator.protocol.messages import Query, Release
from coordinator.protocol.second_order import SecondOrderQuery
from coordinator.protocol.shares import PublishedSum, ShareRoll
from coordinator.protocol.trust import Openings
from coordinator.server.completion.batches import BatchPlan
from coordinator.server.completion.crowd import EXPECT, PublicHost
from coordinator.server.fleet.panel import Panel


@pytest.fixture(autouse=True, scope="module")
def waits() -> Iterator[None]:
    """Let SQLite wait for the disk, here a simulated one; in other tests it does not."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("actors.database._PRAGMAS", _PRAGMAS[:-1])
        yield


HISTORIES = size(1000, 70)
"""Of all families together: some 15 s of one core; a night takes `python -m benchmarks.faults --histories 1000000`."""
RUN, ONLINE, TWO_TIER = FAMILIES
Plant = Callable[[pytest.MonkeyPatch], None]


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_whatever_happens_what_must_hold_holds(family: str) -> None:
    told = [play(number) for number in numbers_of(0, HISTORIES // len(FAMILIES) + 1, family)]
    wrong = {one.number: one.wrong for one in told if one.wrong}
    assert not wrong, f"replay one: python -m benchmarks.faults --history {min(wrong)}"
    kinds = set(KINDS) - ({"server's host dies"} if family != TWO_TIER else set())
    kinds -= set(LATER) if family != RUN else set()
    assert {kind for one in told for kind in one.fired} == kinds, "some kind of fault never happened"
    assert sum(one.attempts > 1 for one in told) > len(told) / 10, "hardly any run was resumed"


@pytest.mark.few(3)
@pytest.mark.parametrize("number", [3, 15, 216, 54, 4, 22, 38, 2261])
def test_a_history_replays_exactly(number: int) -> None:
    """Some of each family, 54 with two servers; in 216 all devices refuse two rounds, whose digests are the same."""
    first, second = play(number), play(number)
    assert first == second
    assert not first.wrong
    assert len(first.trace) > 10


def test_histories_of_a_family_are_those_whose_numbers_say_so() -> None:
    for family in FAMILIES:
        numbers = numbers_of(7, 2, family)
        assert [play(number).family for number in numbers] == [family] * 2
        assert numbers[0] >= 7
    assert numbers_of(7, 4, None) == [7, 8, 9, 10]


def books_afterwards(self: Ledger, entry: Charge) -> list[tuple[int, int]]:
    """Books what was answered before only when the next question comes."""
    owed: list[str] = vars(self).setdefault("owed", [])
    known, _ = self._keeper.read(self.first, self.stop)
    if owed:
        self._keeper.book(self.first, self.stop, known, owed)
        owed.clear()
    self._ranges, booked, refused = self._charged(entry, self.budget)
    owed += [replace(entry, first=low, stop=high).line() for low, high in booked]
    return refused


def book_late(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Ledger, "_charge", books_afterwards)


def lose_a_wait(patch: pytest.MonkeyPatch) -> None:
    """SQLite leaves it to the system when the disk gets a commit."""
    patch.setattr("actors.database._PRAGMAS", _PRAGMAS)


def take_any_answer(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Panel, "_current", lambda *_: True)


def rest_on_the_last_step(patch: pytest.MonkeyPatch) -> None:
    """Public users' hosts do not look whether they have gone through the E-step that the server speaks of."""
    patch.setattr(PublicHost, "ask", asks_without_looking)


def asks_without_looking(self: PublicHost, method: str, *told: Any) -> list[Any]:
    _first, _stop, _step, features, *arguments = told
    call = [features] if method == EXPECT else arguments
    return [getattr(cohort, method)(*call) for cohort in self._cohorts]


def trust_what_a_dead_keeper_left(patch: pytest.MonkeyPatch) -> None:
    """A commit that its process did not live to wait for is acted on, and not waited for either."""
    patch.setattr(Connection, "execute", sqlite3.Connection.execute)


def write_over_a_log(patch: pytest.MonkeyPatch) -> None:
    """A commit goes over an older log, so that one that is cut off seems to be there as a whole."""
    patch.setattr(Database, "_empty_log", lambda *_: None)


def let_voters_refuse_in_silence(patch: pytest.MonkeyPatch) -> None:
    """So whoever takes part follows from the network, too."""
    book = Ledger.book

    def refuse(self: Ledger, query: Costly, first: int, stop: int) -> list[tuple[int, int]]:
        try:
            return book(self, query, first, stop)
        except UnreachableError:
            return [(first, stop)]

    patch.setattr(Ledger, "book", refuse)


def complain_without_an_announcement(patch: pytest.MonkeyPatch) -> None:
    """Private devices end the run where a process that was started anew knows of no query."""
    answer = PrivateCohort.answer

    def complain(self: PrivateCohort, query: SecondOrderQuery, model: ItemFeatures, first: int, stop: int) -> Release:
        if (release := answer(self, query, model, first, stop)).refused:
            raise InputError(f"{release.refused} private devices were told of no query")
        return release

    patch.setattr(PrivateCohort, "answer", complain)


def run_ahead_of_what_is_kept(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(BatchPlan, "in_step", False)


def redraw_noise_after_a_death(patch: pytest.MonkeyPatch) -> None:
    """A server that was started anew, which collects by itself when it is asked for its sum, has noise of its own."""
    publish = ShareServer.publish

    def redrawing(self: ShareServer[Any], query: Query, other: ShareRoll) -> PublishedSum:
        if self._latest is None:
            self._secret = derive(self._secret, "anew")
        return publish(self, query, other)

    patch.setattr(ShareServer, "publish", redrawing)


def open_whatever_the_other_server_has(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ShareRoll, "same_devices", lambda *_: True)


def forget_what_was_opened(patch: pytest.MonkeyPatch) -> None:
    """A shuffler or server that was started anew writes its book, and knows nothing of the one before."""

    def write(self: Openings, *lines: str) -> bool:
        new: object = lines and self._book
        while new:
            self._position, new = self._book.book(0, MOST_DEVICES, self._position, lines, self._opener)  # type: ignore[union-attr] # it is there
        return False

    patch.setattr(Openings, "_read", write)


def make_up_for_no_step(patch: pytest.MonkeyPatch) -> None:
    """An old call from before the first E-step reaches a host after it."""
    ask = PublicHost.ask

    def always(self: PublicHost, method: str, *told: Any) -> list[Any]:
        if method != EXPECT and told[2] != self._step:
            self.ask(EXPECT, *told[:4])
        return ask(self, method, *told)

    patch.setattr(PublicHost, "ask", always)


NOT_BOOKED = "answered .* not booked on the disk"


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("plant", "family", "first", "complaint"),
    [
        *((book_late, family, 0, NOT_BOOKED) for family in FAMILIES),
        *((lose_a_wait, family, 0, NOT_BOOKED) for family in FAMILIES),
        (take_any_answer, RUN, 48, "is counted|than if nothing had happened|is no answer to"),
        (rest_on_the_last_step, TWO_TIER, 20, "would be asked about|took query|than if nothing had happened"),
        (redraw_noise_after_a_death, RUN, 78, "the server of seeds publishes another sum"),
        (open_whatever_the_other_server_has, RUN, 186, "the server of seeds opens query 0 .* with other devices"),
    ],
)
def test_planted_bugs_show(
    plant: Plant, family: str, first: int, complaint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a panel's epoch is to rounds of queries a step is to public users; other answers are the same each time.

    Histories are looked through from one that showed it on.
    """
    found_and_gone_without(plant, numbers_of(first, 100, family), complaint, monkeypatch)


@pytest.mark.parametrize(
    ("plant", "number", "complaint"),
    [
        *((trust_what_a_dead_keeper_left, number, NOT_BOOKED) for number in (33, 48, 54)),
        (let_voters_refuse_in_silence, 7, "other electors"),
        (let_voters_refuse_in_silence, 454, "was recommended two objects"),
        (complain_without_an_announcement, 59, "told of no query"),
        (run_ahead_of_what_is_kept, 7790, "they refuse query"),
        (make_up_for_no_step, 101, "no attribute 'vectors'"),
        *((write_over_a_log, number, "is damaged in its log") for number in (1308, 2306)),
        (forget_what_was_opened, 5067, "the shuffler opens query 0 .* with other devices"),
        (forget_what_was_opened, 174, "the server of seeds opens query 0 .* with other devices"),
    ],
)
def test_what_was_found_stays_mended(
    plant: Plant, number: int, complaint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of these were in the code."""
    found_and_gone_without(plant, [number], complaint, monkeypatch)


def found_and_gone_without(plant: Plant, numbers: Sequence[int], told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    found = next(one for number in numbers if (one := play(number)).wrong)
    assert re.search(told, found.wrong), f"history {found.number}: {found.wrong}"
    monkeypatch.undo()
    assert not play(found.number).wrong, f"history {found.number} goes wrong without the bug, too"


def test_the_command_counts_histories_by_kind_of_fault(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command.main(histories=4, first=2)
    out = capsys.readouterr().out
    assert not ended.value.code
    assert "4 of 4 histories held" in out
    assert all(re.search(rf"^{kind}( +\d+){{4}}$", out, re.MULTILINE) for kind in KINDS)
    assert re.search("^all +1 +1 +2 +4$", out, re.MULTILINE)


def test_a_wrong_history_can_be_replayed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    lose_a_wait(monkeypatch)
    with pytest.raises(SystemExit) as ended:
        command.main(histories=1, first=0)
    assert ended.value.code == 1
    assert "python -m benchmarks.faults --history 0" in capsys.readouterr().out
    with pytest.raises(SystemExit) as again:
        command.main(history=0)
    assert again.value.code == 1
    assert "not booked on the disk" in capsys.readouterr().out
