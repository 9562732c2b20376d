"""Reconcile: from one job, its pods and its nodes to the status that it is to have. Pure functions."""
