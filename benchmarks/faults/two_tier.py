"""Small worlds of two tiers, and the conditions that must hold there."""

import base64
from fractions import Fraction
from functools import partial
from typing import Any, cast

import numpy as np

from actors.second_order.cohort import Consent, PrivateCohort
from benchmarks.faults.disk import Disk
from benchmarks.faults.scheduler import Violation
from benchmarks.faults.witness import Witness
from benchmarks.faults.world import Family, Straight, World, straight, undisturbed
from coordinator.protocol.coins import derive
from coordinator.protocol.features import ItemFeatures
from coordinator.protocol.rating_table import Rows
from coordinator.protocol.second_order import Announcement, SecondOrderQuery, SecondOrderRelease
from coordinator.server.completion.batches import PRIVATE, Batch, BatchPlan
from coordinator.server.completion.fitting import Fitting
from coordinator.server.fleet.cohorts import cut
from scenarios.backends.session import DeviceGroup
from scenarios.families.two_tier.two_tier_run import KeptBatches
from scenarios.store.manifest import TWO_TIER

PUBLIC, PRIVATES, ITEMS, RATED = 8, 6, 5, 3
STARS = (1.0, 2.0, 3.0, 4.0, 5.0)
SECRET = derive(0, "faults in two tiers")


def _rows(users: int, seed: int) -> Rows:
    random = np.random.default_rng(seed)
    items = np.sort(np.argsort(random.random((users, ITEMS)), axis=1)[:, :RATED], axis=1).astype(np.int32).ravel()
    starts = np.arange(users + 1, dtype=np.int64) * RATED
    return Rows(starts=starts, items=items, values=random.choice(STARS, items.size), count=ITEMS)


def _world(mechanism: str, epsilon: Fraction, *, batch: int, each: int) -> World:
    """Return a world of private devices in batches, and in cohorts of so many ``each``."""
    rows = _rows(PRIVATES, 2)
    crew = DeviceGroup(
        kind=partial(PrivateCohort, consent=Consent(mechanisms=frozenset({mechanism}), epsilon=epsilon)),
        holdings=rows,
        bounds=cut(0, PRIVATES, each),
    )
    plan = BatchPlan(
        public=_rows(PUBLIC, 1),
        private=PRIVATES,
        mechanism=mechanism,
        epsilon=epsilon,
        fitting=Fitting(rank=2, kappa=1.0),
        lowest=STARS[0],
        highest=STARS[-1],
        levels=STARS,
        iterations=1,
        batch=batch,
        batch_iterations=1,
        weight=0.25,
    )
    return World(plan=plan, crews={PRIVATE: crew}, secret=SECRET)


_TRUTH: dict[tuple[bytes, bytes], list[bytes]] = {}


def truth(world: World, query: SecondOrderQuery, features: ItemFeatures) -> list[bytes]:
    """Return the answer of every device that answers a query."""
    key = query.id, features.digest
    if key not in _TRUTH:
        crew = world.crews[PRIVATE]
        cohort = cast("PrivateCohort", crew.kind(crew.holdings, SECRET, 0, crew.holdings.users))
        cohort.pin(query.model, 0, PRIVATES)
        _TRUTH[key] = [release.payload for release in cohort.answer(query, features, 0, PRIVATES)]
    return _TRUTH[key]


class BatchWitness(Witness):
    """See `benchmarks.faults.witness.Witness`. A device is charged by its one answer about one model."""

    def __init__(self, world: World, disk: Disk) -> None:
        super().__init__(disk)
        self._world = world
        self._models: dict[int, str] = {}
        self._answered = set[int]()

    def key(self, question: Any) -> bytes:
        """Return the name under which devices that could not book a question are noted."""
        model: bytes = question.model
        return model

    def forget_book(self) -> None:
        """Start to read the books again from the beginning."""
        super().forget_book()
        self._models.clear()
        self._answered.clear()

    def line(self, entry: Any) -> None:
        """Take in a promise or an answer; see `actors.second_order.cohort`."""
        if type(entry) is dict:
            for device in range(entry["first"], entry["stop"]):
                self._about(device, entry["model"])
            return
        device, query_id, model, *_, payload = entry
        self._about(device, model)
        if device in self._answered:
            raise Violation(f"device {device} booked two answers")
        self._answered.add(device)
        self.booked.add((device, query_id, payload))

    def _about(self, device: int, model: str) -> None:
        if self._models.setdefault(device, model) != model:
            raise Violation(f"device {device} booked two models")

    def leaves(self, question: Any, public: tuple[Any, ...], first: int, stop: int, answer: Any) -> None:
        """Refuse an answer that the device never gives, or that is not booked on the disk."""
        if type(question) is Announcement:
            if answer is not None:
                raise Violation(f"devices {first} to {stop - 1} answered an announcement")
            return
        said = set[Any]()
        for release in answer:
            if type(release) is not SecondOrderRelease or not first <= release.device < stop:
                raise Violation(f"a {type(release).__name__} leaves devices {first} to {stop - 1}")
            if release.payload != truth(self._world, question, *public)[release.device]:
                raise Violation(f"device {release.device} said two things")
            said.add(_spelled(release.device, release.query_id, release.payload))
        self.must_be_booked(said, question)

    def keeps(self, record: Any) -> None:
        """Refuse a stored batch whose answers the witness has not seen."""
        if type(record) is not Batch:
            raise Violation(f"a {type(record).__name__} is kept")
        pairs = zip(record.devices, record.payloads, strict=True)
        stored_lines = {_spelled(device, record.query_id, payload) for device, payload in pairs}
        if not stored_lines <= self.said:
            raise Violation(f"batch {record.batch} is kept otherwise than it answered")

    def ends(self, outcome: Any, rounds: list[Any]) -> None:
        """Refuse an end that differs from the one without faults, except in devices that were cut off."""
        self.nothing_forgotten()
        answered = {device for record in rounds for device in record.devices}
        missing, excused = set(range(PRIVATES)) - answered, set[int]().union(*self.excused.values())
        if missing - excused:
            raise Violation(f"devices {sorted(missing - excused)} did not answer, without a cause")
        whole = straight(self._world, Straight(self._world), rounds) if missing else undisturbed(self._world)
        if outcome.releases_sha256 != whole.releases_sha256 or outcome.announced != whole.announced:
            raise Violation("it ended with other releases or models than if nothing had happened")
        if outcome.features.digest != whole.features.digest or outcome.answered != len(answered):
            raise Violation("it ended with another model than if nothing had happened")


def _spelled(device: int, query_id: bytes, payload: bytes) -> tuple[int, str, str]:
    """Return an answer as the book holds it."""
    return device, query_id.hex(), base64.b64encode(payload).decode()


BATCHES = Family(
    name=TWO_TIER,
    worlds=(
        _world("pmc-rr", Fraction(1, 2), batch=3, each=2),
        _world("sslp", Fraction(1), batch=2, each=3),
        _world("privunit", Fraction(2), batch=4, each=6),
    ),
    stored_rounds=partial(KeptBatches, seed=0),
    witness=BatchWitness,
)
