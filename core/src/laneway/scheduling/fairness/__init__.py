"""Bounded waiting: no job gets much less than its fair share of the time, whatever the order policy prefers."""
