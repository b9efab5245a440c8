"""Everything that runs and sweeps keep on the disk: checked, bound to its run, and locked while it is in use."""
