"""The device plugin: allocates shares of GPUs to containers through the kubelet.

The agent writes which GPUs there are (`inventory_file`). The plugin advertises hundredths of them (`devices`)
and stays registered (`registration`). When the kubelet admits a pod, it asks which ids it should take
(`admitting_pod` finds the pod, `preferred_allocation` chooses), then allocates them (`allocation`). Before
the container starts, the kubelet's PodResources API says which container holds them (`pod_resources`). That
is recorded for the agent (`share_manager`, `container_folders`).
"""
