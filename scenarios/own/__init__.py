"""Custom mechanisms and policies: imported by path, identified by source, checked, and sent to workers."""
