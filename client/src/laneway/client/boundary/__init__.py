"""Iteration boundaries: the guard around each iteration, and the delivery of SIGTERM between iterations."""
