"""The untrusted server: everything of it but what is public."""
