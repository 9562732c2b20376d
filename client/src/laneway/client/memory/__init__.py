"""Meters of the process's device memory, and the enforcement of its quota."""
