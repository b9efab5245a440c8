"""Sweeps: how many users it takes, measured over a grid of settings."""
