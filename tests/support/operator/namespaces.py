"""Namespaces in which pods can be created."""

from __future__ import annotations

from laneway.operator.watch.apiserver import ApiError, ApiServer

from tests.support.operator.waiting import until


async def add_namespace(api: ApiServer, namespace: str) -> None:
    """Create a namespace, and wait for its service account: until kube-controller-manager has made that, the API server refuses pods."""

    async def account_is_there() -> bool:
        try:
            await api.request("GET", f"/api/v1/namespaces/{namespace}/serviceaccounts/default")
        except ApiError as error:
            if error.status != 404:
                raise
            return False
        return True

    await api.request("POST", "/api/v1/namespaces", body={"metadata": {"name": namespace}})
    await until(f"{namespace} has the service account of its pods", account_is_there)
