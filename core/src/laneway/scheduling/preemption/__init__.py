"""Stage: preemption. The protocol is in ``policy``; every other file is one policy."""
