"""The loop that every backend runs: ask, absorb, ask again, learn. How questions travel is a transport's affair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from coordinator.aggregation import Statistic
from coordinator.protocol.messages import Model, Release
from coordinator.rating_decoders import Curator
from coordinator.server import Ask, Policy, ServerState, absorb, learn
from coordinator.transcript import Transcript


class Transport(Protocol):
    """Carries a question to devices and brings the releases and their statistic back."""

    def ask(self, ask: Ask) -> tuple[Statistic, Sequence[Release]]:
        """Ask every device of ``ask`` and return the merged statistic and all releases."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Learner:
    """How the server turns statistics into an item model.

    Attributes
    ----------
    clusters : int
        Number of item clusters L.
    decoder : str
        Name of the decoder.
    curator : Curator or None
        Where the server is a trusted curator: the noise that it publishes under.
    """

    clusters: int
    decoder: str
    curator: Curator | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a run ends with, on the server's side.

    Attributes
    ----------
    state : ServerState
        Queries and statistics of all rounds.
    model : Model
        The learned item model.
    releases_sha256 : str
        Digest over all releases in device order.
    """

    state: ServerState
    model: Model
    releases_sha256: str


def conduct(policy: Policy, learner: Learner, transport: Transport, *, devices: int) -> Outcome:
    """Run rounds until the policy stops, and learn.

    Parameters
    ----------
    policy : Policy
        Says which query comes next.
    learner : Learner
        Decoder and number of clusters.
    transport : Transport
        Carries the questions.
    devices : int
        Number of devices that can be asked.

    Returns
    -------
    Outcome
    """
    state, transcript = ServerState(devices=devices), Transcript()
    while (ask := policy.next_query(state)) is not None:
        statistic, releases = transport.ask(ask)
        transcript.add(releases)
        state = absorb(state, ask, statistic)
    model = learn(state, clusters=learner.clusters, decoder=learner.decoder, curator=learner.curator)
    return Outcome(state=state, model=model, releases_sha256=transcript.hexdigest())
