"""The data that the scheduler reads and returns: the snapshot, the plan, GPU classes, and models of a job's speed."""
