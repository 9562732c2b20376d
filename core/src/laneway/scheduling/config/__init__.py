"""Policies by name, their parameters, and those that other packages bring."""
