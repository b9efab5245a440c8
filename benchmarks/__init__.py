"""Speed only: every figure is a ratio to a named rival or to the physical floor, measured in one run."""
