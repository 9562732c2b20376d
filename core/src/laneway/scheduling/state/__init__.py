"""What the scheduler keeps between cycles: jobs, their ranks, the waiting queue and the jobs that may be preempted."""
