"""The agent of one node: sessions, memory lanes and turns on its GPUs.

Data flow: the device plugin writes a folder for each container that holds shares of a GPU (``containers``).
The container's processes connect there (``sessions``). One object per GPU decides on lanes and turns
(``turns``), with ``laneway.lanes``. Its state survives a restart (``recovery``) and is reported to the
cluster, to Prometheus and over HTTP (``report``). Only ``gpus`` calls NVML. All decisions are made on one
thread, the event loop's. Other threads see frozen snapshots.
"""
