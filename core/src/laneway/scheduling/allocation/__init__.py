"""Stage: allocation of CPUs and memory to placed gangs. The protocol is in ``policy``; ``sensitivity`` and ``minio`` model
how a job's throughput depends on CPUs and memory; the policies are built from ``shares``, ``options``, ``parts`` and
``load``. ``floors`` holds any policy to the fewest CPUs of each worker."""
