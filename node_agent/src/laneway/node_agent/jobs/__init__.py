"""Jobs on a machine without Kubernetes: ``run-job`` gives a command a share of a GPU while it runs."""
