"""Keeps an iteration's memory within the quota by offloading and recomputing saved activations (docs/fit.md)."""
