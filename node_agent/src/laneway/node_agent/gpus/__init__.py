"""The GPUs of the node: what they are and how they do. Nothing outside this folder talks to NVML."""
