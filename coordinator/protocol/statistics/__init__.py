"""Mergeable sums of releases, in whole numbers."""
