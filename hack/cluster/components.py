"""The control plane's components as command lines: pure functions of addresses, folders and credentials.

The embedded cluster and the loopback control plane of the integration tests start the same command lines; they
differ in the addresses and in what watches over the processes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hack.cluster.kubeconfigs import write_kubeconfig
from hack.cluster.pki import Authority, Credential, Identity, ensure_signing_key

CLUSTER_DOMAIN = "cluster.local"
KUBELET_CLIENT = "kube-apiserver-kubelet-client"

NODE_GRACE_SECONDS = 20
"""Quicker than kube-controller-manager's default of 50, so that tests which stop a node need not wait as long."""

_FRONT_PROXY = "front-proxy-client"
_SERVICE_ACCOUNT_ISSUER = f"https://kubernetes.default.svc.{CLUSTER_DOMAIN}"


@dataclass(frozen=True)
class Endpoints:
    """Addresses and TCP ports of the control plane."""

    address: str
    service_cidr: str
    service_gateway: str
    """The first address of the service CIDR: the ClusterIP of the Service `kubernetes`."""
    apiserver_port: int = 6443
    etcd_client_port: int = 2379
    etcd_peer_port: int = 2380
    controller_manager_port: int = 10257
    scheduler_port: int = 10259

    @property
    def apiserver_url(self) -> str:
        return f"https://{self.address}:{self.apiserver_port}"

    @property
    def etcd_url(self) -> str:
        return f"https://{self.address}:{self.etcd_client_port}"


@dataclass(frozen=True)
class ControlPlaneFiles:
    """The credentials of a control plane, created below `folder` on first use."""

    folder: Path
    cluster: str
    endpoints: Endpoints
    authority: Authority = field(init=False)
    etcd_authority: Authority = field(init=False)
    front_proxy_authority: Authority = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "authority", Authority(self.folder / "pki", "ca"))
        object.__setattr__(self, "etcd_authority", Authority(self.folder / "pki" / "etcd", "etcd-ca"))
        object.__setattr__(
            self, "front_proxy_authority", Authority(self.folder / "pki" / "front-proxy", "front-proxy-ca")
        )
        for authority in (self.authority, self.etcd_authority, self.front_proxy_authority):
            authority.ensure()

    @property
    def signing_key(self) -> Path:
        return ensure_signing_key(self.folder / "pki" / "service-accounts.key")

    def serving(self, component: str) -> Credential:
        """A serving certificate for a component on the control plane's address."""
        return self.authority.issue(f"{component}-serving", Identity(component, "", self._own_names()))

    def apiserver_serving(self) -> Credential:
        service = "kubernetes.default.svc"
        names = ("kubernetes", "kubernetes.default", service, f"{service}.{CLUSTER_DOMAIN}")
        alternatives = (f"DNS:{name}" for name in names)
        identity = Identity(
            "kube-apiserver", "", (*self._own_names(), *alternatives, f"IP:{self.endpoints.service_gateway}")
        )
        return self.authority.issue("kube-apiserver", identity)

    def kubelet_client(self) -> Credential:
        """The API server's client certificate for kubelets. RBAC gives its user `system:kubelet-api-admin` and nothing else."""
        return self.authority.issue(KUBELET_CLIENT, Identity(KUBELET_CLIENT))

    def etcd_serving(self) -> Credential:
        return self.etcd_authority.issue("etcd", Identity("etcd", "", self._own_names()))

    def etcd_client(self) -> Credential:
        return self.etcd_authority.issue("kube-apiserver-etcd-client", Identity("kube-apiserver-etcd-client"))

    def front_proxy_client(self) -> Credential:
        """Issued by a separate authority, because its holder may impersonate any user to an aggregated API server."""
        return self.front_proxy_authority.issue("front-proxy-client", Identity(_FRONT_PROXY))

    def kubeconfig(self, file_name: str, user: str, group: str = "", embed: bool = False) -> Path:
        """A kubeconfig with its own client certificate, even if another one names the same user."""
        credential = self.authority.issue(f"client-{file_name.replace('/', '-')}", Identity(user, group))
        return write_kubeconfig(
            self.folder / file_name,
            cluster=self.cluster,
            server=self.endpoints.apiserver_url,
            authority=self.authority.certificate,
            user=user,
            credential=credential,
            embed=embed,
        )

    def admin(self) -> Credential:
        """The cluster's owner, in the group that RBAC cannot lock out, because it writes the first role bindings."""
        return self.authority.issue("client-kubeconfig", Identity("laneway-admin", "system:masters"))

    def admin_kubeconfig(self) -> Path:
        """The owner's kubeconfig. It names no other file, so it can be copied."""
        return self.kubeconfig("kubeconfig", "laneway-admin", "system:masters", embed=True)

    def _own_names(self) -> tuple[str, ...]:
        return ("DNS:localhost", "IP:127.0.0.1", *dict.fromkeys([f"IP:{self.endpoints.address}"]))


def etcd_command(program: Path, files: ControlPlaneFiles, data_folder: Path) -> list[str]:
    """etcd serves only holders of a certificate of its own authority."""
    endpoints, serving = files.endpoints, files.etcd_serving()
    peer_url = f"https://{endpoints.address}:{endpoints.etcd_peer_port}"
    flags: dict[str, str | Path] = {
        "name": "laneway",
        "data-dir": data_folder,
        "listen-client-urls": endpoints.etcd_url,
        "advertise-client-urls": endpoints.etcd_url,
        "listen-peer-urls": peer_url,
        "initial-advertise-peer-urls": peer_url,
        "initial-cluster": f"laneway={peer_url}",
        "client-cert-auth": "true",
        "cert-file": serving.certificate,
        "key-file": serving.key,
        "trusted-ca-file": files.etcd_authority.certificate,
        "peer-client-cert-auth": "true",
        "peer-cert-file": serving.certificate,
        "peer-key-file": serving.key,
        "peer-trusted-ca-file": files.etcd_authority.certificate,
        # Halves the tests' time on a slow disk. A killed etcd loses no data; only a power failure of the machine does.
        "unsafe-no-fsync": "true",
        "log-level": "warn",
    }
    return _command(program, flags)


def apiserver_command(
    program: Path,
    files: ControlPlaneFiles,
    *,
    disabled_admission: tuple[str, ...] = (),
    publish_endpoint: bool = True,
) -> list[str]:
    """Node and RBAC authorisation, no anonymous requests, and kubelets with certificates of this cluster.

    `publish_endpoint` writes the address into the Service `kubernetes`, which a loopback address may not be.
    """
    endpoints, serving = files.endpoints, files.apiserver_serving()
    kubelet_client, etcd_client, front_proxy = (
        files.kubelet_client(),
        files.etcd_client(),
        files.front_proxy_client(),
    )
    flags: dict[str, str | Path] = {
        "bind-address": endpoints.address,
        "advertise-address": endpoints.address,
        "secure-port": str(endpoints.apiserver_port),
        "tls-cert-file": serving.certificate,
        "tls-private-key-file": serving.key,
        "client-ca-file": files.authority.certificate,
        "anonymous-auth": "false",
        "authorization-mode": "Node,RBAC",
        "enable-admission-plugins": "NodeRestriction",
        "allow-privileged": "true",
        "etcd-servers": endpoints.etcd_url,
        "etcd-cafile": files.etcd_authority.certificate,
        "etcd-certfile": etcd_client.certificate,
        "etcd-keyfile": etcd_client.key,
        "kubelet-certificate-authority": files.authority.certificate,
        "kubelet-client-certificate": kubelet_client.certificate,
        "kubelet-client-key": kubelet_client.key,
        # The default asks DNS for the node's name first, and this machine's DNS does not know it.
        "kubelet-preferred-address-types": "InternalIP",
        "requestheader-client-ca-file": files.front_proxy_authority.certificate,
        "requestheader-allowed-names": _FRONT_PROXY,
        "requestheader-username-headers": "X-Remote-User",
        "requestheader-group-headers": "X-Remote-Group",
        "requestheader-extra-headers-prefix": "X-Remote-Extra-",
        "proxy-client-cert-file": front_proxy.certificate,
        "proxy-client-key-file": front_proxy.key,
        "service-account-issuer": _SERVICE_ACCOUNT_ISSUER,
        "service-account-key-file": files.signing_key,
        "service-account-signing-key-file": files.signing_key,
        "service-cluster-ip-range": endpoints.service_cidr,
        # Admission webhooks are called at their pods' addresses: no kube-proxy runs beside the API server.
        "enable-aggregator-routing": "true",
        "profiling": "false",
    }
    if disabled_admission:
        flags["disable-admission-plugins"] = ",".join(disabled_admission)
    if not publish_endpoint:
        flags["endpoint-reconciler-type"] = "none"
    return _command(program, flags)


def controller_manager_command(
    program: Path, files: ControlPlaneFiles, node_grace_seconds: int = NODE_GRACE_SECONDS
) -> list[str]:
    """Each controller has its own service account, so that RBAC applies to it."""
    kubeconfig = files.kubeconfig("kubeconfigs/kube-controller-manager", "system:kube-controller-manager")
    serving = files.serving("kube-controller-manager")
    return _command(
        program,
        {
            **_delegated(kubeconfig),
            "kubeconfig": kubeconfig,
            "bind-address": files.endpoints.address,
            "secure-port": str(files.endpoints.controller_manager_port),
            "tls-cert-file": serving.certificate,
            "tls-private-key-file": serving.key,
            "use-service-account-credentials": "true",
            "service-account-private-key-file": files.signing_key,
            "root-ca-file": files.authority.certificate,
            "cluster-signing-cert-file": files.authority.certificate,
            "cluster-signing-key-file": files.authority.key,
            "service-cluster-ip-range": files.endpoints.service_cidr,
            # A lone replica: waiting for a dead predecessor's lease would only slow a restart down.
            "leader-elect": "false",
            "node-monitor-grace-period": f"{node_grace_seconds}s",
            "node-monitor-period": "2s",
            "profiling": "false",
        },
    )


def scheduler_command(program: Path, files: ControlPlaneFiles) -> list[str]:
    """kube-scheduler with its default profile."""
    kubeconfig = files.kubeconfig("kubeconfigs/kube-scheduler", "system:kube-scheduler")
    serving = files.serving("kube-scheduler")
    return _command(
        program,
        {
            **_delegated(kubeconfig),
            "kubeconfig": kubeconfig,
            "bind-address": files.endpoints.address,
            "secure-port": str(files.endpoints.scheduler_port),
            "tls-cert-file": serving.certificate,
            "tls-private-key-file": serving.key,
            "leader-elect": "false",
            "profiling": "false",
        },
    )


def _delegated(kubeconfig: Path) -> dict[str, str | Path]:
    """The API server authorizes clients of this component's metrics, with the component's own credential."""
    return {"authentication-kubeconfig": kubeconfig, "authorization-kubeconfig": kubeconfig}


def _command(program: Path, flags: Mapping[str, str | Path]) -> list[str]:
    return [str(program), *(f"--{name}={value}" for name, value in flags.items())]
