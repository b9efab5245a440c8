"""Shufflers that leak, beside the one of runs, which does not; and devices whose questions follow from addresses."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from actors.device_half import DeviceHalf, Sketch
from actors.ratings import Ratings
from actors.seeds import Coins
from coordinator.protocol.agreement import Agreement
from coordinator.protocol.amplification import TwoLevels, one_bit_levels
from coordinator.protocol.arrays import Bits, Bits2, Indices2, Ints
from coordinator.protocol.budget import as_float
from coordinator.protocol.channels import ExactChannel, LogRatio, bit_channel
from coordinator.protocol.messages import Query, Release, pack
from coordinator.protocol.public_half import PublicHalf
from coordinator.protocol.trust import ShuffledRound
from coordinator.shuffler import Shuffler
from scenarios.config.mechanism_settings import server_half
from scenarios.studies.scrutiny.mechanism import MechanismUnderTest, Size, subject_of


def unchecked(kind: type, **values: Any) -> Any:
    """A message that nothing has checked."""
    one: Any = object.__new__(kind)
    for name, value in values.items():
        object.__setattr__(one, name, value)
    return one


class Collecting:
    """It takes what the shuffler of runs takes, and remembers who sent it."""

    def __init__(self, query: Query, agreement: Agreement) -> None:
        self.query, self.agreement = query, agreement
        self.addresses, self.rows = list[int](), list[Bits]()
        self.asked = 0

    def take(self, release: Release) -> None:
        release.require(self.query)
        self.add(release)

    def add(self, release: Release) -> None:
        self.asked += release.count
        answered = np.flatnonzero(release.answered_mask())
        self.addresses += (release.first + answered).tolist()
        self.rows += list(release.unpacked()[answered])

    def order(self) -> Ints:
        """Places of reports in ascending order, as the honest shuffler hands them on."""
        return np.array(sorted(range(len(self.rows)), key=lambda place: self.rows[place].tolist()), np.int64)

    def round(self, order: Ints, *, width: int, checked: bool = True, **more: Any) -> ShuffledRound:
        if len(self.rows) < self.agreement.reports(self.asked):
            return self.of(None)
        rows = [np.pad(self.rows[place], (0, width - self.rows[place].size)) for place in order.tolist()]
        values: dict[str, Any] = {
            "query_id": self.query.id,
            "first": 0,
            "count": len(rows),
            "width": width,
            "refused": 0,
        }
        values |= {"bits": pack(np.array(rows, np.uint8)), "answered": None, "pairs": None} | more
        return self.of(Release(**values) if checked else unchecked(Release, **values), checked=checked)

    def of(self, release: Release | None, *, checked: bool = True) -> ShuffledRound:
        numbers = {"devices": self.asked, "refused": 0, "answered": len(self.rows)}
        values: dict[str, Any] = {"query_id": self.query.id, **numbers, "release": release}
        return ShuffledRound(**values) if checked else unchecked(ShuffledRound, **values)


class Ordered(Collecting):
    """Reports leave in the order in which they came."""

    def close(self) -> ShuffledRound:
        return self.round(np.arange(len(self.rows)), width=self.query.bits)


class Numbered(Collecting):
    """Reports are sorted, and each has its device's number beside it."""

    def close(self) -> ShuffledRound:
        order = self.order()
        pairs = np.array([[self.addresses[place], -1] for place in order.tolist()], "<i4")
        return self.round(order, width=self.query.bits, checked=False, pairs=pairs.tobytes())


class CountingAbsentees(Shuffler):
    """It counts devices that were asked as if they had answered."""

    def __init__(self, query: Query, agreement: Agreement) -> None:
        agreement = replace(agreement, withhold=False)
        super().__init__(agreement.stamped(query), agreement)


class TwoLengths(Collecting):
    """It takes reports that are longer than others, and hands them on as they are."""

    def take(self, release: Release) -> None:
        self.add(release)

    def close(self) -> ShuffledRound:
        return self.round(self.order(), width=max(row.size for row in self.rows))


QUESTIONS = 6  # bits of a question


class QuestionAndBit(ExactChannel):
    """A question of one's own, and a bit about it under randomized response."""

    def __init__(self, query: Query) -> None:
        self.flip = bit_channel(query.epsilon).flip_probability

    @property
    def log_ratio(self) -> LogRatio:
        return LogRatio.of((1 - self.flip) / self.flip)

    def chances(self, private: Ints) -> list[Fraction]:
        own = [self.flip, 1 - self.flip] if private[0] else [1 - self.flip, self.flip]
        return [chance / (1 << QUESTIONS) for _ in range(1 << QUESTIONS) for chance in own]


class Asked(PublicHalf):
    """Devices are asked about whatever their question is, and hand on both question and answer."""

    name = "grr"

    def channel(self, query: Query) -> QuestionAndBit:
        return QuestionAndBit(query)

    def levels(self, query: Query) -> TwoLevels:
        return one_bit_levels()


class Asker(DeviceHalf):
    """``public``: whether the question follows from the device's public address, or from a coin of its own."""

    def __init__(self, public: bool) -> None:
        self.public = public

    def sketch(self, query: Query, ratings: Ratings, coins: Coins) -> Sketch:
        """Whether the first item that a device rated is liked, whatever the question."""
        rated = ratings.rated(coins.master, coins.first, coins.devices)
        liked = np.zeros((coins.devices, 1), np.int32)
        some = np.flatnonzero(np.diff(rated.starts))
        liked[some, 0] = rated.values[rated.starts[some]]
        return Sketch(liked)

    def randomize(self, private: Bits2 | Indices2, query: Query, coins: Coins) -> Bits2:
        question = (coins.streams(query) if self.public else coins.release(1)) >> np.uint64(64 - QUESTIONS)
        flip = coins.release(0) < np.uint64(bit_channel(query.epsilon).flips)
        shifts = np.arange(QUESTIONS)[::-1].astype(np.uint64)
        bits = (question[:, None] >> shifts) & np.uint64(1)
        return np.column_stack([bits, private[:, 0] ^ flip]).astype(np.uint8)


def asking(*, public: bool) -> MechanismUnderTest:
    """A mechanism whose devices hand on a question, of their own or by their address, and an answer."""
    size = Size(items=5, rated=3, users=1000)
    plain = subject_of(server_half("grr"), {}, size=size)

    def asks(size: Size, epsilon: Any, round_number: int, public_seed: bytes) -> Query:
        assert as_float(epsilon) > 0
        return Query(
            design="grr",
            items=size.items,
            round=round_number,
            public_seed=public_seed,
            epsilon=epsilon,
            answer_bits=1 + QUESTIONS,
        )

    return replace(plain, label="asked", public=Asked(), device=Asker(public), asks=asks)
