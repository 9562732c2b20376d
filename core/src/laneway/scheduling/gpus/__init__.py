"""GPUs: which jobs hold them, how much of them is free, and what the cluster could hold."""
