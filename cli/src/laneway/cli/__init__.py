"""``laneway`` and ``kubectl laneway``: TrainingJobs from a shell, and the simulator.

``main`` parses the command line and hands it to one of ``verbs``; only ``cluster`` talks to the API server, with the
user's own kubeconfig; ``job_format`` formats a job as text. Exit codes are in ``exit_codes``.
"""
