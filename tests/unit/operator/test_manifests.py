"""The objects that are made for a job."""

from __future__ import annotations

from typing import Any

import pytest
from laneway.api import names
from laneway.api.template_profile import TemplateProfile
from laneway.operator.execute.manifests import gang_service, worker_pod
from laneway.operator.state.records.priority_class import PriorityClassRecord

from tests.unit.operator.builders import a_job, a_view, reconciled_job_of


def pod_of(
    rank: int = 0, attempt: int = 3, nodes: tuple[str, ...] = ("n1",), gpus: int = 1, **spec: Any
) -> Any:
    job = a_job().gang(len(nodes)).spec(**spec).placed(*nodes, gpus=gpus, percent=100).record
    assert job.desired is not None
    return worker_pod(job, job.desired.spec, job.status.placement[rank], attempt)


def template(pod_spec: dict[str, Any] | None = None, **container: Any) -> dict[str, Any]:
    containers = [{"name": "main", "image": "i", **container}]
    return {"spec": {"containers": containers, **(pod_spec or {})}}


def environment(pod: dict[str, Any]) -> dict[str, Any]:
    return {
        each["name"]: each.get("value", each.get("valueFrom")) for each in pod["spec"]["containers"][0]["env"]
    }


def test_a_pod_says_whose_it_is_and_which_gpus_were_chosen() -> None:
    pod = pod_of(rank=1, nodes=("n1", "n1"), gpus=2)
    metadata = pod["metadata"]
    assert metadata["name"] == "job-1"
    assert metadata["labels"] == {
        names.JOB_LABEL: "job",
        names.JOB_UID_LABEL: "uid-job",
        names.RANK_LABEL: "1",
        names.ATTEMPT_LABEL: "3",
        names.GANG_LABEL: "true",
    }
    assert metadata["annotations"][names.GPUS_ANNOTATION] == "n1/2,n1/3"
    assert metadata["annotations"][names.SPANS_GPUS_ANNOTATION] == "true"
    (owner,) = metadata["ownerReferences"]
    assert (owner["uid"], owner["controller"], owner["blockOwnerDeletion"]) == ("uid-job", True, True)
    assert pod["spec"]["containers"][0]["resources"]["limits"][names.GPU_PERCENT] == "200"


@pytest.mark.parametrize(
    ("configured", "own", "wanted"),
    [
        ("", {}, None),
        ("nvidia", {}, "nvidia"),
        ("nvidia", {"runtimeClassName": "kata"}, "kata"),
    ],
)
def test_a_template_without_a_runtime_class_gets_the_configured_one(
    configured: str, own: dict[str, Any], wanted: str | None
) -> None:
    job = a_job().spec(template=template(own)).placed("n1", percent=100).record
    assert job.desired is not None
    pod = worker_pod(job, job.desired.spec, job.status.placement[0], 1, runtime_class=configured)
    assert pod["spec"].get("runtimeClassName") == wanted


def test_it_tolerates_the_taint_of_gpu_nodes_beside_the_templates_own() -> None:
    ours = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
    own = {"key": "team", "operator": "Exists"}
    assert pod_of()["spec"]["tolerations"] == [ours]
    assert pod_of(template=template({"tolerations": [own]}))["spec"]["tolerations"] == [own, ours]
    assert pod_of(template=template({"tolerations": [ours]}))["spec"]["tolerations"] == [ours]


def test_the_users_labels_stay_and_ours_win() -> None:
    given = template()
    given["metadata"] = {"labels": {"team": "x", names.RANK_LABEL: "9"}, "annotations": {"note": "y"}}
    metadata = pod_of(template=given)["metadata"]
    assert metadata["labels"]["team"] == "x"
    assert metadata["labels"][names.RANK_LABEL] == "0"
    assert metadata["annotations"]["note"] == "y"


def test_the_container_named_trainer_gets_the_gpu_wherever_it_stands() -> None:
    given = {"spec": {"containers": [{"name": "logger", "image": "l"}, {"name": "trainer", "image": "t"}]}}
    logger, trainer = pod_of(template=given)["spec"]["containers"]
    assert "resources" not in logger
    assert "env" not in logger
    assert trainer["resources"]["limits"] == {names.GPU_PERCENT: "100"}


def test_the_users_own_limits_stay() -> None:
    given = template(resources={"limits": {"cpu": "2"}, "requests": {"cpu": "1"}})
    resources = pod_of(template=given)["spec"]["containers"][0]["resources"]
    assert resources == {"limits": {"cpu": "2", names.GPU_PERCENT: "100"}, "requests": {"cpu": "1"}}


@pytest.mark.parametrize(
    ("affinity", "want"),
    [
        (None, [{"matchFields": ["n1"]}]),
        (
            {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "a", "operator": "Exists"}]},
                {"matchExpressions": [{"key": "b", "operator": "Exists"}]},
            ]}}},
            [{"a": True, "matchFields": ["n1"]}, {"b": True, "matchFields": ["n1"]}],
        ),
    ],
    ids=["none of the user's", "each of the user's alternatives is narrowed"],
)  # fmt: skip
def test_pinning(affinity: Any, want: list[dict[str, Any]]) -> None:
    pod = pod_of(template=template({"affinity": affinity} if affinity else {}))
    terms = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    seen = [
        {
            **{each["key"]: True for each in term.get("matchExpressions", ())},
            "matchFields": [value for field in term["matchFields"] for value in field["values"]],
        }
        for term in terms
    ]
    assert seen == want


def test_preferences_and_pod_affinity_stay() -> None:
    preferred = [{"weight": 1, "preference": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}]
    affinity = {
        "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred},
        "podAntiAffinity": {"x": 1},
    }
    result = pod_of(template=template({"affinity": affinity}))["spec"]["affinity"]
    assert result["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] == preferred
    assert result["podAntiAffinity"] == {"x": 1}


def test_the_rendezvous_of_a_gang() -> None:
    pod = pod_of(rank=1, nodes=("n1", "n2"))
    assert environment(pod) == {
        "MASTER_ADDR": "job-0.laneway",
        "MASTER_PORT": "29500",
        "WORLD_SIZE": "2",
        "RANK": "1",
        "LOCAL_RANK": "0",
        "PET_NNODES": "2",
        "PET_NPROC_PER_NODE": "1",
        "PET_NODE_RANK": "1",
        "PET_MASTER_ADDR": "job-0.laneway",
        "PET_MASTER_PORT": "29500",
        "LANEWAY_JOB": "job",
    }
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("job-1", "laneway")


def test_a_single_process_has_no_rendezvous() -> None:
    """A script such as nanoGPT's joins a process group as soon as it finds RANK."""
    assert environment(pod_of()) == {"LANEWAY_JOB": "job"}


def test_torchrun_starts_a_process_for_each_gpu_of_a_single_worker() -> None:
    job = a_job().spec(gpus={"type": "Count", "count": 4}).placed("n1", gpus=4).record
    assert job.desired is not None
    assert environment(worker_pod(job, job.desired.spec, job.status.placement[0], 1)) == {
        "PET_NNODES": "1",
        "PET_NPROC_PER_NODE": "4",
        "PET_NODE_RANK": "0",
        "PET_MASTER_ADDR": "localhost",
        "PET_MASTER_PORT": "29500",
        "LANEWAY_JOB": "job",
    }


@pytest.mark.parametrize("name", ["RANK", "WORLD_SIZE", "MASTER_PORT", "PET_NNODES", "LANEWAY_JOB"])
def test_a_variable_of_the_template_wins(name: str) -> None:
    given = template(env=[{"name": name, "value": "7"}])
    pod = pod_of(nodes=("n1", "n2"), template=given)
    assert environment(pod)[name] == "7"
    listed = [each["name"] for each in pod["spec"]["containers"][0]["env"]]
    assert len(listed) == len(set(listed))


@pytest.mark.parametrize(
    ("own", "templates", "want"),
    [
        ("urgent", None, "urgent"),
        (None, "patient", "patient"),
        ("urgent", "urgent", "urgent"),
        (None, None, None),
    ],
)
def test_one_priority_class_ranks_the_job_and_is_its_pods(
    own: str | None, templates: str | None, want: str | None
) -> None:
    given = template({"priorityClassName": templates} if templates else {})
    job = a_job().spec(template=given, **({"priorityClassName": own} if own else {})).placed("n1").record
    assert job.desired is not None
    pod = worker_pod(job, job.desired.spec, job.status.placement[0], 1)
    assert pod["spec"].get("priorityClassName") == want
    classes = [
        PriorityClassRecord("urgent", 7, is_default=False),
        PriorityClassRecord("patient", -7, is_default=False),
    ]
    value = {"urgent": 7, "patient": -7, None: 0}[want]
    assert reconciled_job_of(job, view=a_view(priority_classes=classes)).priority == value


def test_two_priority_classes_are_refused() -> None:
    job = a_job().spec(template=template({"priorityClassName": "patient"}), priorityClassName="urgent").record
    assert job.desired is None
    assert "set only one of them" in job.problem


def test_the_clients_folder_comes_before_the_users_pythonpath() -> None:
    given = template(env=[{"name": "PYTHONPATH", "value": "/src:/lib"}])
    assert environment(pod_of(template=given))["PYTHONPATH"] == "/opt/laneway:/src:/lib"
    assert "PYTHONPATH" not in environment(pod_of()), "else the device plugin sets it"


def test_a_pythonpath_that_is_read_from_elsewhere_is_kept_too() -> None:
    source = {"configMapKeyRef": {"name": "c", "key": "k"}}
    seen = environment(pod_of(template=template(env=[{"name": "PYTHONPATH", "valueFrom": source}])))
    assert seen["PYTHONPATH"] == "/opt/laneway:$(LANEWAY_USERS_PYTHONPATH)"
    assert seen["LANEWAY_USERS_PYTHONPATH"] == source


def test_how_a_worker_ends() -> None:
    pod = pod_of()
    assert pod["spec"]["restartPolicy"] == "Never"
    assert pod["spec"]["containers"][0]["terminationMessagePolicy"] == "FallbackToLogsOnError"


@pytest.mark.parametrize(
    ("own", "templates", "want"),
    [(77, None, 77), (None, 90, 90), (None, 0, 0), (0, None, 0), (None, None, 30)],
)
def test_the_grace_period_is_the_jobs_else_the_templates(
    own: int | None, templates: int | None, want: int
) -> None:
    preemption = {} if own is None else {"gracePeriodSeconds": own}
    pod_spec = {} if templates is None else {"terminationGracePeriodSeconds": templates}
    pod = pod_of(preemption=preemption, template=template(pod_spec))
    assert pod["spec"]["terminationGracePeriodSeconds"] == want


def test_a_stored_host_name_does_not_keep_workers_apart() -> None:
    pod = pod_of(rank=1, nodes=("n1", "n2"), template=template({"hostname": "mine", "subdomain": "mine"}))
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("job-1", "laneway")


def test_variables_from_elsewhere_stay_and_lose_to_those_in_env() -> None:
    """Kubernetes prefers ``env``, in which the operator writes its own."""
    source = [{"configMapRef": {"name": "settings"}}]
    pod = pod_of(nodes=("n1", "n2"), template=template(envFrom=source))
    assert pod["spec"]["containers"][0]["envFrom"] == source
    assert environment(pod)["RANK"] == "0"


def test_the_template_itself_is_not_touched() -> None:
    job = a_job().placed("n1").record
    assert job.desired is not None
    before = str(job.desired.spec.template)
    worker_pod(job, job.desired.spec, job.status.placement[0], 1)
    assert str(job.desired.spec.template) == before


PROFILE = TemplateProfile(persistent_bytes=5, ephemeral_bytes=7, framework_bytes=3, iteration_seconds=0.25)


def test_what_is_known_of_the_template_goes_with_the_pod() -> None:
    job = a_job().placed("n1").record
    assert job.desired is not None
    worker = job.status.placement[0]
    known = worker_pod(job, job.desired.spec, worker, 1, PROFILE)["metadata"]["annotations"]
    assert TemplateProfile.model_validate_json(known[names.PROFILE_ANNOTATION]) == PROFILE
    assert (
        names.PROFILE_ANNOTATION
        not in worker_pod(job, job.desired.spec, worker, 1)["metadata"]["annotations"]
    )


def test_the_service_finds_workers_before_they_are_ready() -> None:
    service = gang_service("ns")
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"] is True
    gang, single = (pod_of(nodes=("n1", "n2")[:workers]) for workers in (2, 1))
    selected = service["spec"]["selector"].items()
    assert selected <= gang["metadata"]["labels"].items()
    assert not selected <= single["metadata"]["labels"].items()
    assert gang["spec"]["subdomain"] == service["metadata"]["name"]


def test_what_may_be_done_for_memory_that_does_not_fit_is_told_to_the_client() -> None:
    own = template({}, env=[{"name": "LANEWAY_FIT", "value": "Off"}])
    assert environment(pod_of(memoryFit="Recompute"))["LANEWAY_FIT"] == "Recompute"
    assert environment(pod_of(memoryFit="Recompute", template=own))["LANEWAY_FIT"] == "Off"
    assert environment(pod_of(template=own))["LANEWAY_FIT"] == "Off"
    assert "LANEWAY_FIT" not in environment(pod_of())


def test_a_jobs_minimum_enforcement_is_its_pods_demand() -> None:
    annotated = {"annotations": {names.MINIMUM_ENFORCEMENT_ANNOTATION: "Watchdog"}}
    template = {"metadata": annotated, "spec": {"containers": [{"name": "trainer", "image": "i"}]}}

    def demand(**spec: Any) -> str | None:
        job = a_job().spec(**spec).placed("n1").record
        assert job.desired is not None, job.problem
        annotations = worker_pod(job, job.desired.spec, job.status.placement[0], 1)["metadata"]["annotations"]
        found: str | None = annotations.get(names.MINIMUM_ENFORCEMENT_ANNOTATION)
        assert (found or "None") == job.desired.demand.minimum_enforcement
        return found

    assert demand() is None
    assert demand(minimumEnforcement="MPS") == "MPS"
    assert demand(template=template) == "Watchdog"
    assert demand(template=template, minimumEnforcement="MPS") == "MPS"
    annotated["annotations"][names.MINIMUM_ENFORCEMENT_ANNOTATION] = "hard"
    wrong = a_job().spec(template=template).record
    assert wrong.desired is None
    assert "is 'hard': write one of Cooperative, Watchdog, Interposer, MPS" in wrong.problem
