"""Frequency oracles beside those of other tools, each in an environment of its own."""
