"""Workloads made to break the scheduler: each must leave every other job its share. In simulated time."""
