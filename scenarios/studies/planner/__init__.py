"""Planning: how many users each design needs, or how much epsilon, from exact moments and before anything is run."""
