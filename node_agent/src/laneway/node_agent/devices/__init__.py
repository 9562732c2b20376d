"""How the GPUs reach containers: what the node supports, and which strategy follows."""
