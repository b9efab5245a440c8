"""Experiments: the one package that knows both sides."""
