"""Rounds and policies as state machines without input or output."""
