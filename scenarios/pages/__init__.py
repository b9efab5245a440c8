"""Pages to show of results, read through one schema, where each number names its place in the JSON."""
