"""Enforces quotas on containers whose clients do not enforce them.

readings of GPUs ─▶ process_owners (whose process?) ─▶ violation (too much?) ─▶ escalation (for how long?) ─▶ eviction
mps_limits (set in the daemon, and read back) ─▶ levels (what can be enforced on this GPU, and why no more) ─▶ inventory, GPUNode
mps_command ─▶ mps_daemon: NVIDIA's MPS control daemon, in a process that outlives the agent's
"""
