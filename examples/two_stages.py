"""Two stages: a screening, and one more round about the items that it left in doubt.

Where a round takes a day, as with real devices, a policy of thirty rounds is no use. This one has two: a share of the
devices is asked about all items, all others only about those whose cluster is still doubtful.
"""

from dataclasses import dataclass

import numpy as np

from blindrec import Ask, ServerState, Setting


@dataclass(frozen=True)
class TwoStages:
    """A screening of all items, then what is doubtful.

    Attributes
    ----------
    setting : Setting
        What can be asked.
    screening : float
        Share of the devices that are asked first.
    clear : float
        Doubt up to which an item is left alone.
    """

    setting: Setting
    screening: float = 0.5
    clear: float = 0.001

    def next_query(self, state: ServerState) -> Ask | None:
        """Return the screening, then the round about what is in doubt, then None."""
        if not state.asked:
            return self.setting.ask(state, users=max(1, round(self.screening * state.devices)))
        if len(state.asked) == 2:
            return None
        believed = self.setting.believe(state)
        pool = np.flatnonzero(believed.doubt > self.clear).astype(np.int32)
        if not pool.size:
            return None
        return self.setting.ask(
            state, users=self.setting.users_left(state), pool=pool, expected=believed.expected[pool]
        )


def quick(setting: Setting) -> TwoStages:
    """Return one that screens with a third of the devices: ``--policy two_stages:quick``."""
    return TwoStages(setting, screening=1 / 3)
