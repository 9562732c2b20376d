"""Enforces quotas on containers whose clients do not enforce them.

readings of GPUs ─▶ process_owners (whose process?) ─▶ violation (too much?) ─▶ escalation (for how long?) ─▶ eviction
mps_daemon ─▶ levels (what can be enforced on this GPU, and why no more) ─▶ inventory, GPUNode
"""
