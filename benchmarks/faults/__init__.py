"""A simulation of faults: one seeded scheduler disturbs whole runs in one process, and a number names each history."""
