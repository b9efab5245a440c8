"""One's own designs: found by import path, identified by their source, checked, and sent along."""
