"""The untrusted server, except for the public protocol."""
