"""The device plugin: hands shares of GPUs to containers, through the kubelet.

The agent writes which GPUs there are (`inventory_file`); the plugin advertises hundredths of them (`devices`) and
keeps itself registered (`registration`). When the kubelet admits a pod it asks which ids would be best
(`who_asks` finds the pod, `preference` chooses), then orders them (`allocation`), and before the container starts the
kubelet's own records say which container holds them (`kubelet_records`), which is written down for the agent
(`share_manager`, `container_folders`).
"""
