"""Devices that lie: who does, what they agreed on, and the worst answer that each of them can give to a query."""
