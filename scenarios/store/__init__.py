"""One durable, checked, run-bound log and its lock: what runs and sweeps keep, and how a folder is theirs."""
