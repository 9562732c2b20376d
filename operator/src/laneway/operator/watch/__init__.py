"""Observe: the connection to the API server, and what reads from it into the cache."""
