"""A simulation of faults: whole runs in one process, disturbed by one seeded scheduler; a history is one number."""
