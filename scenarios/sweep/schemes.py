"""The schemes that an adaptive sweep compares, by name."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheme:
    """A way to learn all labels.

    Attributes
    ----------
    label : str
        Name in tables and figures, where ``{vectors}`` stands for their number.
    design, decoder, policy : str
        As in a scenario.
    several : bool
        Whether a device chooses among several sign vectors.
    """

    label: str
    design: str
    decoder: str
    policy: str = "one-round"
    several: bool = False

    @property
    def adaptive(self) -> bool:
        """Whether its policy stops by itself."""
        return self.policy != "one-round"

    @property
    def emulated(self) -> bool:
        """Whether its statistic can be drawn from exact moments."""
        return self.design == "sign"


SCHEMES = {
    "paper": Scheme(label="MaxSense, paper", design="maxsense", decoder="paper"),
    "centred": Scheme(label="MaxSense, centred", design="maxsense", decoder="centred"),
    "sign": Scheme(label="sign sensing", design="sign", decoder="posterior"),
    "adaptive-maxsense": Scheme(label="adaptive MaxSense", design="maxsense", decoder="posterior", policy="eliminate"),
    "adaptive-sign": Scheme(label="adaptive sign sensing", design="sign", decoder="posterior", policy="eliminate"),
    "adaptive-vectors": Scheme(
        label="adaptive sign sensing, {vectors} vectors",
        design="sign",
        decoder="posterior",
        policy="eliminate",
        several=True,
    ),
}
"""In the order of the table."""
BASE = "adaptive-sign"
"""The scheme that the others are divided by."""
