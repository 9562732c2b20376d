"""Reports of the agent: the GPUNode, Prometheus metrics, and HTTP answers.

All are built from frozen snapshots, on other threads than the loop's.
"""
