"""What the agent tells others: the cluster (GPUNode), Prometheus, and people who ask over HTTP.

All of it is built from frozen snapshots, on other threads than the loop's.
"""
