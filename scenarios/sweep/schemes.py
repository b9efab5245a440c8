"""The schemes that an adaptive sweep compares, by name, in the order of the table."""

from __future__ import annotations

from dataclasses import dataclass

from coordinator.server.server_half import ELIMINATE, ONE_ROUND, POSTERIOR


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheme:
    """One of the ways to learn all labels that adaptive sweeps compare.

    Attributes
    ----------
    name, label : str
        Its name on the command line, and in tables and figures, where a setting's name in braces stands for its value.
    design, decoder, policy : str
        As in a scenario.
    takes : tuple of str
        Settings of the mechanism for which the sweep has flags.
    emulated : bool
        Whether sweeps may draw its statistic from exact moments.
    """

    name: str
    label: str
    design: str
    decoder: str = POSTERIOR
    policy: str = ONE_ROUND
    takes: tuple[str, ...] = ()
    emulated: bool = False

    @property
    def adaptive(self) -> bool:
        """Whether its policy stops by itself."""
        return self.policy != ONE_ROUND


SCHEMES = {
    scheme.name: scheme
    for scheme in (
        Scheme(name="paper", label="MaxSense, paper", design="maxsense", decoder="paper"),
        Scheme(name="centred", label="MaxSense, centred", design="maxsense", decoder="centred"),
        Scheme(name="sign", label="sign sensing", design="sign", emulated=True),
        Scheme(name="adaptive-maxsense", label="adaptive MaxSense", design="maxsense", policy=ELIMINATE),
        Scheme(name="adaptive-sign", label="adaptive sign sensing", design="sign", policy=ELIMINATE, emulated=True),
        Scheme(
            name="adaptive-vectors",
            label="adaptive sign sensing, {vectors} vectors",
            design="sign",
            policy=ELIMINATE,
            takes=("vectors",),
            emulated=True,
        ),
    )
}
BASE = "adaptive-sign"
"""The scheme that the others are divided by."""
