"""Anchor sensing on the server: its queries, estimates of pairs and of items, and when an item is decided."""
