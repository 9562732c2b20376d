"""Which cluster the SDK talks to, by the kubeconfigs that there are, in a pod and outside."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest
import yaml
from kubernetes import client
from laneway.sdk import UnreachableError
from laneway.sdk.cluster import Cluster
from laneway.sdk.kubeconfig import load_config

from tests.support.pod_environment import NAMESPACE, SERVER, enter_pod, leave_kubeconfigs

HOME = ".kube/config"


def server_of(name: str) -> str:
    return f"https://{name}.invalid"


def write(
    folder: Path,
    files: Mapping[str, str | None],
    user: Mapping[str, object] = MappingProxyType({"token": "t"}),
) -> None:
    """Write kubeconfigs, each with a current context and with one named other; one with None has nothing in it."""
    for path, current in files.items():
        name = path.rpartition("/")[2]
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": current,
            "clusters": [{"name": name, "cluster": {"server": server_of(name)}}],
            "contexts": [
                {"name": each, "context": {"cluster": name, "user": "u", "namespace": f"of-{each}"}}
                for each in (name, f"other-{name}")
            ],
            "users": [{"name": "u", "user": dict(user)}],
        }
        (folder / path).parent.mkdir(exist_ok=True)
        text = "" if current is None else yaml.safe_dump(document)
        (folder / path).write_text(text, encoding="utf-8")


def chosen(folder: Path, variable: tuple[str, ...] = (), /, **given: str) -> tuple[str, str | None, str]:
    """The server, the context and the namespace that are used with a KUBECONFIG and with arguments."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.chdir(folder)
        if variable:
            monkeypatch.setenv("KUBECONFIG", os.pathsep.join(variable))
        cluster = Cluster(**given)
    return cluster.server, cluster.context, cluster.namespace


@pytest.mark.parametrize("in_pod", [True, False], ids=["in a pod", "outside"])
@pytest.mark.parametrize(
    ("story", "variable", "given", "want"),
    [
        ("the home's", (), {}, ("config", "config")),
        ("another context of the home's", (), {"context": "other-config"}, ("config", "other-config")),
        ("the variable's", ("a",), {}, ("a", "a")),
        ("the given one", ("a",), {"kubeconfig": "b"}, ("b", "b")),
        ("the first current context of several files", ("a", "b"), {}, ("a", "a")),
        ("some files have no current context, or are missing", ("none", "missing", "b"), {}, ("b", "b")),
        ("a file has nothing in it", ("empty", "b", "comment"), {}, ("b", "b")),
        ("a context of the second file", ("a", "b"), {"context": "other-b"}, ("b", "other-b")),
    ],
)
def test_a_kubeconfig_is_used_in_the_order_of_kubectl(
    story: str,
    variable: tuple[str, ...],
    given: dict[str, str],
    want: tuple[str, str],
    in_pod: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (enter_pod if in_pod else leave_kubeconfigs)(tmp_path, monkeypatch)
    write(tmp_path, {HOME: "config", "a": "a", "b": "b", "none": ""})
    (tmp_path / "empty").touch()
    (tmp_path / "comment").write_text("# none\n", encoding="utf-8")
    name, context = want
    assert chosen(tmp_path, variable, **given) == (server_of(name), context, f"of-{context}"), story


@pytest.mark.parametrize(
    ("story", "files", "variable", "says"),
    [
        ("there is none", {}, (), ""),
        ("none has a current context", {HOME: ""}, (), ""),
        ("the home's has nothing in it", {HOME: None}, (), ""),
        ("the variable's is missing", {HOME: "config"}, ("gone",), "there is no kubeconfig gone: using the pod's service account"),
    ],
)  # fmt: skip
def test_the_service_account_is_used_in_a_pod_where_no_context_is_chosen(
    story: str,
    files: dict[str, str | None],
    variable: tuple[str, ...],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    enter_pod(tmp_path, monkeypatch)
    write(tmp_path, files)
    with caplog.at_level(logging.WARNING):
        assert chosen(tmp_path, variable) == (SERVER, None, NAMESPACE), story
    assert "".join(record.message for record in caplog.records) == says


@pytest.mark.parametrize(
    ("files", "given", "says"),
    [
        (
            {},
            {"context": "x"},
            "no cluster is configured: there is no kubeconfig ~/.kube/config, and so no context x; "
            "set KUBECONFIG, give the path of one, or leave the context out to use the pod's service account",
        ),
        (
            {HOME: "config"},
            {"context": "x"},
            "no cluster is configured: the kubeconfig ~/.kube/config has no context x; its contexts: config, other-config",
        ),
        (
            {HOME: "config"},
            {"kubeconfig": "gone"},
            "no cluster is configured: there is no kubeconfig gone; set KUBECONFIG or give the path of one",
        ),
        (
            {"a": ""},
            {"kubeconfig": "a"},
            "no cluster is configured: the kubeconfig a has no current context; its contexts: a, other-a",
        ),
    ],
)
def test_what_a_user_names_is_used_in_a_pod_or_refused(
    files: dict[str, str],
    given: dict[str, str],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    enter_pod(tmp_path, monkeypatch)
    write(tmp_path, files)
    with pytest.raises(UnreachableError) as caught:
        chosen(tmp_path, **given)
    assert str(caught.value) == says


def test_a_pod_without_a_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    enter_pod(tmp_path, monkeypatch)
    (tmp_path / "token").unlink()
    with pytest.raises(UnreachableError) as caught:
        chosen(tmp_path)
    want = "the pod's service account cannot be used: Service token file does not exist; set KUBECONFIG"
    assert str(caught.value) == want


@pytest.mark.parametrize("in_pod", [True, False], ids=["in a pod", "outside"])
def test_a_token_ends_before_the_end_of_its_files_line(
    in_pod: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (enter_pod if in_pod else leave_kubeconfigs)(tmp_path, monkeypatch)
    (tmp_path / "token").write_text("secret\n", encoding="utf-8")
    if not in_pod:
        write(tmp_path, {HOME: "config"}, {"tokenFile": str(tmp_path / "token")})
    settings = client.Configuration()
    load_config(settings, None, None)
    for _ in range(2):  # each request may read it again
        assert settings.get_api_key_with_prefix("BearerToken").lower() == "bearer secret"


@pytest.mark.parametrize("token", ["a\nb", "\u2603"])
def test_a_token_that_no_header_can_have(token: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    leave_kubeconfigs(tmp_path, monkeypatch)
    write(tmp_path, {HOME: "config"}, {"token": token})
    with pytest.raises(UnreachableError, match="gives a token that is not one line of ASCII text"):
        chosen(tmp_path)


@pytest.mark.parametrize("field", ["as", "as-uid", "as-groups", "as-user-extra"])
def test_a_user_who_is_to_act_as_another_one_does_not_act_as_itself(
    field: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kubectl acts as the other one, who may have fewer rights."""
    leave_kubeconfigs(tmp_path, monkeypatch)
    write(tmp_path, {HOME: "config"}, {"token": "t", field: "viewer"})
    with pytest.raises(UnreachableError, match=rf"the user u, who acts as another one \({field}: viewer\)"):
        chosen(tmp_path)


@pytest.mark.parametrize("in_pod", [True, False], ids=["in a pod", "outside"])
def test_a_proxy_that_needs_a_package(in_pod: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (enter_pod if in_pod else leave_kubeconfigs)(tmp_path, monkeypatch)
    if not in_pod:
        write(tmp_path, {HOME: "config"})
    monkeypatch.setenv("HTTPS_PROXY", "socks5://192.0.2.1:1080")
    with pytest.raises(UnreachableError, match="install the Python package PySocks"):
        load_config(client.Configuration(), None, None)
    monkeypatch.setenv("NO_PROXY", "192.0.2.9,.invalid")
    load_config(client.Configuration(), None, None)


def test_a_proxy_without_a_scheme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    leave_kubeconfigs(tmp_path, monkeypatch)
    write(tmp_path, {HOME: "config"})
    monkeypatch.setenv("HTTPS_PROXY", "proxy.example")
    with pytest.raises(UnreachableError, match=r"the proxy proxy\.example: begin it with http://"):
        chosen(tmp_path)
