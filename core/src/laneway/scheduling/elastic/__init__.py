"""How many workers elastic jobs get.

The protocol is in ``policy``; ``pollux`` and ``bftrainer`` implement it. The value of workers to a job is its goodput
(``goodput``): ``throughput``, which ``fit`` estimates from the job's own step times, times ``efficiency``.
"""
