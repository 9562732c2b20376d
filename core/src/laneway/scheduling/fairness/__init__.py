"""Bounded waiting: no job gets much less than its fair share of the time, under any order policy that asks for it."""
