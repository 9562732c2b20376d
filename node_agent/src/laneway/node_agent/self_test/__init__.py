"""The self-test of the memory interposer: whether the library holds a quota on the node's own CUDA driver."""
