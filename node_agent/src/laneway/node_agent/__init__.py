"""The agent of one node: sessions, memory lanes and turns on its GPUs.

How data passes through it: the device plugin writes a folder for each container that holds shares of a GPU
(``containers``); the container's processes connect there (``sessions``); per GPU one object decides on lanes and turns
(``turns``), with ``laneway.lanes``; what it decided is kept over a restart (``recovery``) and told to the cluster,
Prometheus and people (``report``). ``gpus`` is the only place that talks to NVML. All decisions are made on one thread,
the event loop's; other threads see frozen snapshots.
"""
