"""Pictures of results: panels that are declared family by family, and drawn in one place in one style."""
