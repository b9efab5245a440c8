"""Anchor sensing on the server: what is asked, what it tells of pairs and of items, and when an item is decided."""
