"""Online recommendation experiments: p-REC, its rivals, adversaries, bounds and exact privacy loss."""
