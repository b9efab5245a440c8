"""Speed, every figure a ratio to a named rival or to the physical floor, measured in one run; `kills`: survival."""
