"""Watching: how far a run has come, told while it lasts and shown to whoever asks."""
