"""Speed, every figure a ratio to a rival or to a bare reference kernel, in one run; `kills`, `faults`: survival."""
