"""Studies of many runs or of a mechanism: sweeps, plans, comparisons of trust models, audits and checks."""
