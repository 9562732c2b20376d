"""Explains a waiting job to its user: the reason, estimates of its start, and suggestions."""
