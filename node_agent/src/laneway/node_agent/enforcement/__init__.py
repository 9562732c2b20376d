"""How containers are held to their quotas where their clients do not do it themselves.

readings of GPUs ─▶ owners (whose process is that?) ─▶ breach (is it too much?) ─▶ watch (for how long?) ─▶ eviction
mps_daemon ─▶ levels (what can be held on this GPU, and why no more) ─▶ inventory, GPUNode
"""
