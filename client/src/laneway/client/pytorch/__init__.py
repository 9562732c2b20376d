"""PyTorch's hooks: where an iteration begins and ends, and which memory and model sizes are reported."""
