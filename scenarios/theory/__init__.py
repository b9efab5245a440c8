"""Theory of the Price of Privacy: what any learner needs at least, and what MaxSense needs at most."""
