"""Figures for the agent: the measured profile and the progress that the script reports."""
