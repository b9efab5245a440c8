"""From statistics to estimates, posteriors and item clusters."""
