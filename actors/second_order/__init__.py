"""Private devices of the two-tier model: each completes its own vector and releases a private summary, once."""
