"""Public knowledge, a leaf package: what both sides may know."""
