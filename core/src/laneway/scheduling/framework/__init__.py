"""What the actions of a cycle work with: the statement, and the cache of what did not fit."""
