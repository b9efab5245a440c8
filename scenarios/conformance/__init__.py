"""Conformance: what every mechanism must hold, whoever wrote it; a table of what held."""
