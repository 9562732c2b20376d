"""Recovery after a restart of the agent: lanes, counters, and which processes were connected."""
