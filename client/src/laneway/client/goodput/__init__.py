"""What goodput depends on: the batch, its growth, and the gradient noise scale (Pollux, OSDI'21, section 3)."""
