"""The Ray edge of the server: its actors, and whom they ask."""
