"""Families of experiments: the main job, online recommendation, and two tiers."""
