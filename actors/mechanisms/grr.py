"""k-ary randomized response on devices: the random item itself is what the channel takes."""

from __future__ import annotations

from actors.one_item import OneItem


class Grr(OneItem):
    """The sketch is the value."""

    names = ("grr",)


DEVICE = (Grr(),)
