"""Execute: every write to the cluster, its order, and the lease that allows it."""
