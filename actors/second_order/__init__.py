"""Private devices of the two-tier model: each completes its own vector and says one thing about it, once."""
