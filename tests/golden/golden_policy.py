"""A policy of one's own, as a user writes one in a file: it asks about what is still in doubt."""

import numpy as np

from coordinator.server.rounds.setting import Setting
from coordinator.server.rounds.state import Ask, ServerState


class Doubtful:
    """Asks 700 devices about all items, then 300 at a time about the doubtful ones."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting

    def next_query(self, state: ServerState) -> Ask | None:
        """Return the next round, or None where there is no doubt left."""
        if not state.asked:
            return self.setting.ask(state, users=700)
        doubtful = np.flatnonzero(self.setting.believe(state).doubt > 1e-6).astype(np.int32)
        return self.setting.ask(state, users=300, pool=doubtful) if doubtful.size else None
