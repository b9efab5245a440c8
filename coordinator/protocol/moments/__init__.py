"""Exact moments of what the server sees."""
