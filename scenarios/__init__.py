"""Experiments: the one package that knows both sides."""

import importlib.metadata
import sys

PART_OF = "blindrec"
PACKAGES = ("actors", "blindrec", "coordinator", "scenarios")
"""All packages of blindrec: what travels to a cluster, and what a run's code digest is made of."""


def runtime() -> str:
    """Return the versions that must be the same here and on a cluster."""
    return f"Python {sys.version_info.major}.{sys.version_info.minor} with Ray {importlib.metadata.version('ray')}"
