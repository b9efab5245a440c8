"""Years: what it costs to keep asking, on every rung of trust."""
