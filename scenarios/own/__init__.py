"""Users' own mechanisms and policies: found by import path, identified by source, checked, and sent to workers."""
