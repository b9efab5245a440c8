"""No privacy at all, in public: the completed vector itself, what all mechanisms are held against."""

from __future__ import annotations

from typing import ClassVar

from coordinator.protocol.payloads import Numbers


class Exact(Numbers):
    """The completed vector r, m numbers."""

    name = "exact"
    order = 70
    promise = "none: the completed vector itself is released"
    private: ClassVar[bool] = False


PUBLIC = (Exact(),)
