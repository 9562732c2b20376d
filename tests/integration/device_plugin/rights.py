"""The rights of the device plugin in its tests."""

from __future__ import annotations

RIGHTS = """
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: test-device-plugin}
rules:
- {apiGroups: [""], resources: [pods], verbs: [list, watch]}
- {apiGroups: [""], resources: [nodes], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: test-device-plugin}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: test-device-plugin}
subjects:
- {apiGroup: rbac.authorization.k8s.io, kind: User, name: test-device-plugin}
"""
