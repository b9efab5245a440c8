"""The server's Ray actors, and how they ask devices."""
