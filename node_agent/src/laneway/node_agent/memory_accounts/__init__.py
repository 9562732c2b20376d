"""The memory accounts of containers: the interposer in each process asks here before the driver allocates."""
