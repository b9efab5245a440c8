"""Online recommendation by a trusted curator: p-REC, its rivals, and what the client learns of a voter."""
