"""Two servers that do not trust each other: each adds up shares that look random alone, and publishes a noisy sum."""
