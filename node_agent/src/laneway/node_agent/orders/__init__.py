"""Orders to pause and to offload, and their sources: the GPUNode's spec and a file."""
