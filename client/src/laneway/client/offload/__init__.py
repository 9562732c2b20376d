"""Moving the process's persistent memory to the host and back, on the agent's order."""
