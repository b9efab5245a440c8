"""What an attack on real releases finds out, beside the epsilon that is claimed and the exact one."""
