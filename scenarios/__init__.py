"""Experiments: the one package that knows both sides."""

PART_OF = "blindrec"
PACKAGES = ("actors", "blindrec", "coordinator", "scenarios")
"""All packages of blindrec: what travels to a cluster, and what a run's code digest is made of."""
