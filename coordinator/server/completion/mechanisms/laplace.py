"""Laplace noise on every coordinate, at the server: noisy rows of a weight that is validated."""

from __future__ import annotations

from coordinator.server.completion.reading import SecondOrderServer


class Laplace(SecondOrderServer):
    """Noisy vectors, row by row."""

    name = "laplace"
    swept = ("5", "1")
    attacked = ("5", "1")


SERVER = (Laplace(),)
