"""What crosses in the two-tier model: one question to a private device, and its one second-order release."""

from dataclasses import dataclass, field

from coordinator.protocol.arrays import Floats, Floats2, Words
from coordinator.protocol.budget import Epsilon, require_epsilon
from coordinator.protocol.checked import MOST_DEVICES, Checked, require_bool, require_bytes, require_name, require_whole
from coordinator.protocol.coins import as_words, digest_of
from coordinator.protocol.errors import InputError
from coordinator.protocol.features import ItemFeatures
from coordinator.protocol.second_order_mechanisms import check_mechanism, public_part_of, second_order_public_halves


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcement(Checked):
    """The one model that private devices will answer about, named before anybody is asked."""

    model: bytes  # `ItemFeatures.digest`

    def check(self) -> None:
        """Refuse what is no digest; see `Checked.check`."""
        require_bytes("digest of a model", self.model, 16)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SecondOrderQuery(Checked):
    """What the server asks of private devices, once; all of it is public."""

    # `ItemFeatures.digest` of the one model that devices complete their vectors with; announced before anyone answers,
    # and the only one that a device will ever answer
    model: bytes
    mechanism: str  # A name of `coordinator.protocol.second_order_mechanisms.second_order_public_halves`
    epsilon: Epsilon = None  # The mechanism's privacy parameter [nats]; None where it has none
    batch: int = 0  # Which batch of devices, from 0
    # Signs of one size: the device releases its own h in full precision, not the public one; nothing is private then
    own_h: bool = False

    def check(self) -> None:
        """Refuse what no device could answer; see `Checked.check`."""
        require_bytes("model", self.model, 16)
        require_name("mechanism", self.mechanism)
        require_epsilon(self.epsilon)
        require_whole("batch", self.batch, 0, MOST_DEVICES)
        require_bool("own_h", self.own_h)
        check_mechanism(self.mechanism, self.epsilon)
        if self.own_h and not public_part_of(self.mechanism).releases_own_h:
            about = next(name for name, part in second_order_public_halves().items() if part.releases_own_h)
            raise InputError(f"own_h is True, which is about {about}; the mechanism is {self.mechanism}, leave it out")

    @property
    def id(self) -> bytes:
        """Sixteen bytes: digest of the whole content, computed at each look."""
        content = {name: getattr(self, name) for name in ("mechanism", "batch", "own_h")}
        epsilon = None if self.epsilon is None else str(self.epsilon)
        return digest_of({"kind": "second-order", "model": self.model.hex(), "epsilon": epsilon, **content})

    @property
    def words(self) -> Words:
        """The id as two 64-bit words, as coins are keyed."""
        return as_words(self.id)

    def require(self, features: ItemFeatures) -> None:
        """Refuse a model that is not the one the query names, or that the mechanism cannot be used with."""
        if features.digest != self.model:
            raise InputError(
                f"model {features.digest.hex()[:8]} is not the announced one, {self.model.hex()[:8]}; send that one"
            )
        public_part_of(self.mechanism).require(features)


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondOrderRelease(Checked):
    """The one thing that a private device ever lets out."""

    query_id: bytes  # Which query it answers
    device: int  # Public address of the device
    mechanism: str  # As in the query
    # In the mechanism's own format; see the modules of `coordinator.protocol.second_order_mechanisms`
    payload: bytes = field(repr=False)

    def check(self) -> None:
        """Refuse what is no release of any mechanism; see `Checked.check`."""
        require_bytes("query id", self.query_id, 16)
        require_whole("device", self.device, 0, MOST_DEVICES)
        public_part_of(require_name("mechanism", self.mechanism))
        if type(self.payload) is not bytes:
            raise InputError(f"payload is a {type(self.payload).__name__}; it must be bytes")

    def as_vector(self, features: ItemFeatures, query: SecondOrderQuery, *, rescale: bool = True) -> Floats:
        """Return the row z whose ``z z^T`` the server adds to its second moment of residuals, float64, shape (m,)."""
        # With ``rescale`` what has another energy than public users' vectors is brought to theirs.
        self.require(query, features)
        return public_part_of(self.mechanism).row(self.payload, features, query, rescale=rescale)

    def as_moment(self, features: ItemFeatures, query: SecondOrderQuery) -> Floats2:
        """Return the released r x r moment of directions, symmetric."""
        self.require(query, features)
        return public_part_of(self.mechanism).released_moment(self.payload, self.device, features, query)

    def require(self, query: SecondOrderQuery, features: ItemFeatures) -> None:
        """Raise InputError if this is no release of ``query`` about ``features``, or its payload is none."""
        if self.query_id != query.id or self.mechanism != query.mechanism:
            raise InputError(f"release of query {self.query_id.hex()[:8]} is no answer to {query.id.hex()[:8]}")
        public_part_of(query.mechanism).require_payload(self.payload, features, query)
