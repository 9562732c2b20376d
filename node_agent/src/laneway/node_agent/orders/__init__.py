"""Orders to pause and to offload: where they come from (the GPUNode's spec, a file), and how containers follow them."""
