"""How many workers malleable jobs get.

The protocol is in ``policy``; ``pollux`` and ``bftrainer`` implement it. What a job makes of workers is its goodput
(``goodput``): ``throughput``, ``fit`` to the job's own step times, times ``efficiency``.
"""
