"""Small worlds of two tiers, and the conditions that must hold there."""

from fractions import Fraction
from functools import partial
from typing import Any, cast

import numpy as np

from actors.private_cohort import PrivateCohort
from benchmarks.faults.disk import Disk
from benchmarks.faults.scheduler import Violation
from benchmarks.faults.witness import Witness
from benchmarks.faults.world import Family, World, continued, undisturbed
from coordinator.protocol.agreement import Agreement
from coordinator.protocol.arrays import Bits2
from coordinator.protocol.coins import derive
from coordinator.protocol.features import ItemFeatures
from coordinator.protocol.messages import Release
from coordinator.protocol.rating_table import Rows
from coordinator.protocol.second_order import SecondOrderQuery
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
    agreement = Agreement(designs=(mechanism,), budget=epsilon, answers=1)
    crew = DeviceGroup(
        kind=partial(PrivateCohort, agreement=agreement),
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


_TRUTH: dict[bytes, Bits2] = {}


def truth(world: World, query: SecondOrderQuery, features: ItemFeatures) -> Bits2:
    """Return the answer of every device that answers a query."""
    if query.id not in _TRUTH:
        crew = world.crews[PRIVATE]
        cohort = cast("PrivateCohort", crew.kind(crew.holdings, SECRET, 0, crew.holdings.users))
        cohort.announce(query, 0, PRIVATES)
        _TRUTH[query.id] = query.payloads(cohort.answer(query, features, 0, PRIVATES), features)[1]
    return _TRUTH[query.id]


class BatchWitness(Witness):
    """See `benchmarks.faults.witness.Witness`. The budget of a device is one answer."""

    def __init__(self, world: World, disk: Disk) -> None:
        super().__init__(disk, world.crews[PRIVATE].kind.keywords["agreement"].budget)  # type: ignore[attr-defined] # partial
        self._world = world
        self._answers: dict[tuple[int, bytes], bytes] = {}

    def leaves(self, question: Any, public: tuple[Any, ...], first: int, stop: int, answer: Any) -> None:
        """Refuse an answer that the device never gives, or that is not booked on the disk."""
        if not public:
            if answer is not None:
                raise Violation(f"devices {first} to {stop - 1} answered an announcement")
            return
        if type(answer) is not Release or (answer.first, answer.first + answer.count) != (first, stop):
            raise Violation(f"a {type(answer).__name__} leaves devices {first} to {stop - 1}")
        devices, payloads = question.payloads(answer, *public)
        if not np.array_equal(payloads, truth(self._world, question, *public)[devices]):
            raise Violation(f"devices {first} to {stop - 1} said two things")
        said = devices.tolist()
        self.must_be_booked({(device, question.id.hex()) for device in said}, question)
        self._answers |= {(device, question.id): row.tobytes() for device, row in zip(said, payloads, strict=True)}

    def keeps(self, record: Any) -> None:
        """Refuse a stored batch whose answers the witness has not seen."""
        if type(record) is not Batch:
            raise Violation(f"a {type(record).__name__} is kept")
        for device, row in zip(record.devices.tolist(), record.payloads, strict=True):
            if self._answers.get((device, record.query_id)) != row.tobytes():
                raise Violation(f"batch {record.batch} is kept otherwise than it answered")

    def ends(self, outcome: Any, rounds: list[Any]) -> None:
        """Refuse an end that differs from the one without faults, except in devices that were cut off."""
        self.nothing_forgotten()
        answered = {device for record in rounds for device in record.devices.tolist()}
        missing, excused = set(range(PRIVATES)) - answered, set[int]().union(*self.excused.values())
        if missing - excused:
            raise Violation(f"devices {sorted(missing - excused)} did not answer, without a cause")
        whole = continued(self._world, rounds) if missing else undisturbed(self._world)
        if outcome.releases_sha256 != whole.releases_sha256 or outcome.announced != whole.announced:
            raise Violation("it ended with other releases or models than if nothing had happened")
        if outcome.features.digest != whole.features.digest or outcome.answered != len(answered):
            raise Violation("it ended with another model than if nothing had happened")


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
