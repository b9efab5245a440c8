"""Formats of rating files: recognised, opened, read and checked."""
