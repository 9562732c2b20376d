"""The GPUs of the node and their health. Nothing outside this package calls NVML."""
