"""What the agent remembers over its own restart, and how it finds back: lanes, counters, and who was connected."""
