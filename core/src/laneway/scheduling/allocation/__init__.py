"""Stage: allocation of CPUs and memory to placed gangs. The protocol is in ``policy``; what a job makes of CPUs and memory
in ``sensitivity`` and ``minio``; ``shares``, ``options``, ``parts`` and ``load`` are what the policies are built from."""
