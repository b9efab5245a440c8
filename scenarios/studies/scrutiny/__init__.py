"""Scrutiny of a mechanism: what each must keep, and what attacks on real releases give away, beside its claim."""
