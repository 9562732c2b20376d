"""One cycle: which jobs have changed, what the scheduler is told of them, and which writes its plan demands."""
