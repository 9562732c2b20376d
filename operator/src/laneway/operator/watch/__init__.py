"""Observe: the connection to the API server, and the watches and lists that fill the cache."""
