"""What the API server serves, and lets the operator do. kopf reads discovery once, when it starts, and never watches a kind missing then."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from laneway.operator.pacing import CRD_POLL_SECONDS
from laneway.operator.state.resources import Resource
from laneway.operator.watch.apiserver import ApiError, ApiServer, UnknownOutcome

logger = logging.getLogger(__name__)


async def until_discovered(api: ApiServer, kinds: Iterable[Resource]) -> None:
    """Wait until discovery lists these kinds, such as those of CRDs that are about to be applied."""
    for resource in kinds:
        waited = False
        while problem := await _problem(api, resource):
            if not waited:
                extra = {"problem": problem}
                logger.warning("waiting for the API server to serve %s", resource.plural, extra=extra)
                waited = True
            await asyncio.sleep(CRD_POLL_SECONDS)


async def serves(api: ApiServer, path: str, name: str) -> bool:
    """Return whether a version of an API group, such as ``/api/v1``, has a kind or a subresource, such as ``pods/resize``.

    Raises:
        ApiError, UnknownOutcome
    """
    return any(each["name"] == name for each in (await api.request("GET", path))["resources"])


async def may(api: ApiServer, namespace: str, verb: str, resource: str, subresource: str) -> bool:
    """Return whether the operator has a permission in a namespace. Everybody may ask that (``system:basic-user``).

    Raises:
        ApiError, UnknownOutcome
    """
    asked = {"namespace": namespace, "verb": verb, "resource": resource, "subresource": subresource}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": asked},
    }
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    answer = await api.request("POST", path, body=review)
    return bool((answer.get("status") or {}).get("allowed"))


async def _problem(api: ApiServer, resource: Resource) -> str:
    """Return why a kind of a named API group is not served; empty where it is."""
    try:
        groups = (await api.request("GET", "/apis"))["groups"]
        versions = [each["groupVersion"] for group in groups for each in group["versions"]]
        if resource.api_version not in versions:
            return f"{resource.api_version} is not among the API groups"
        served = (await api.request("GET", f"/apis/{resource.api_version}"))["resources"]
    except (ApiError, UnknownOutcome) as error:
        return str(error)
    names = [each["name"] for each in served]
    return "" if resource.plural in names else f"{resource.api_version} has no {resource.plural}"
