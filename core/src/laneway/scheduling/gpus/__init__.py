"""GPUs: which jobs hold them, what is free of them, and what the cluster could hold."""
