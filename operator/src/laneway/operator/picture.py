"""What the planner is told: nodes and jobs, kept from cycle to cycle. It is told what has changed, and nothing else."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from laneway.lanes import LaneRules
from laneway.operator import transitions
from laneway.operator.cache import ClusterView
from laneway.operator.docket import Docket, News
from laneway.operator.node_choice import NodeChoice
from laneway.operator.planner_jobs import planner_job
from laneway.operator.planner_nodes import first_reporters, planner_node
from laneway.operator.records.gpu_node_record import GPUNodeRecord
from laneway.operator.records.worker_pod import WorkerPod
from laneway.operator.standing import Standing
from laneway.operator.template_book import TemplateBook
from laneway.operator.templates import TemplateKey, template_of
from laneway.operator.tenants import NOWHERE, Footprint, NodeTenants, footprint, node_tenants
from laneway.scheduling import ClusterSnapshot, Job, JobState, Node, Policies, Scheduler


@dataclass(slots=True)
class _Reported:
    """One node with GPUs."""

    record: GPUNodeRecord
    tenants: NodeTenants
    node: Node


class Picture:
    """Nodes, jobs and the nodes that these keep away from, as the scheduler knows them."""

    def __init__(self, policies: Policies, rules: LaneRules, active_percent: int | None) -> None:
        self.scheduler = Scheduler((), policies)
        self.templates = TemplateBook()
        self._rules = rules
        self._active_percent = active_percent
        self._choice = NodeChoice()
        self._home: dict[str, str] = {}
        """By GPU: the node that has it."""

        self._reported: dict[str, _Reported] = {}
        self._footprints: dict[str, Footprint] = {}
        self._orphans: dict[str, tuple[WorkerPod, ...]] = {}
        self._strangers: dict[str, dict[str, Footprint]] = {}
        """By GPU and gang."""

        self._jobs: dict[str, Job] = {}
        """By the job's uid."""

        self._departures: dict[str, dict[str, Job]] = {}
        """By node and key."""

        self._avoid: dict[str, frozenset[str]] = {}
        self._refused: dict[str, str] = {}
        """By key of a waiting job: to which nodes its template does not let it, as a sentence; only where there are any."""

        self._template: dict[str, TemplateKey] = {}
        self._of_template: dict[TemplateKey, set[str]] = {}

    def due_seconds(self) -> float:
        """Return when the first node changes by itself; infinite: none does."""
        return min((each.tenants.until_seconds for each in self._reported.values()), default=math.inf)

    def snapshot(self) -> ClusterSnapshot:
        """Return what the scheduler was told."""
        departures = (job for jobs in self._departures.values() for job in jobs.values())
        return ClusterSnapshot(
            nodes=tuple(each.node for each in self._reported.values()),
            jobs=(*self._jobs.values(), *departures),
            avoid={key: nodes for key, nodes in self._avoid.items() if nodes},
        )

    def update(self, view: ClusterView, docket: Docket, news: News, now_seconds: float) -> None:
        """Bring all up to date with what is new, and tell the scheduler.

        Args:
            view: what the cluster says.
            docket: where the jobs stand.
            news: what has changed since this was called last.
            now_seconds: Unix time.
        """
        for uid in news.gone:
            self._forget_job(uid)
        gangs = set(news.jobs)
        self._note_jobs(docket, news)
        for template in self.templates.refresh():
            gangs |= self._of_template.get(template, set()) & docket.of.keys()
        nodes = self._take_reports(view, docket, news, gangs)
        gangs |= self._take_orphans(view, docket)
        gangs |= news.reported & self._orphans.keys()
        for uid in gangs | news.gone:
            nodes |= self._place_gang(uid, view, docket)
        nodes |= {name for name, each in self._reported.items() if each.tenants.until_seconds <= now_seconds}
        self._take_nodes(nodes, view, docket, now_seconds)
        other_choice = self._choice.set_nodes(
            view.nodes[name] for name in self._reported if name in view.nodes
        )
        for uid in gangs & docket.of.keys():
            self._tell_job(docket.of[uid].standing, view, now_seconds)
        for uid in self._jobs.keys() - gangs if other_choice else ():
            self._keep_away(docket.of[uid].standing, now_seconds)

    def refused(self, key: str) -> str:
        """Return to which nodes a waiting job's template does not let it, and why, as a sentence; empty where to all."""
        return self._refused.get(key, "")

    def assume(self, standing: Standing, view: ClusterView, now_seconds: float) -> None:
        """Have the scheduler know a job as it is to be."""
        self._tell_job(standing, view, now_seconds)

    def _note_jobs(self, docket: Docket, news: News) -> None:
        for uid in news.jobs:
            self.templates.note(uid, docket.of[uid].job)
        for uid in news.gone:
            self.templates.note(uid, None)

    def _take_reports(self, view: ClusterView, docket: Docket, news: News, gangs: set[str]) -> set[str]:
        """Note which node has which GPU; return the nodes to look at anew, and add gangs that can be planned with now, or no more."""
        records = {record.name: record for record in view.gpu_nodes}
        nodes = news.nodes & (records.keys() | self._reported.keys())
        changed = any(
            name not in records
            or name not in self._reported
            or [gpu.uuid for gpu in records[name].gpus]
            != [gpu.uuid for gpu in self._reported[name].record.gpus]
            for name in nodes
        )
        if changed:
            self._home = first_reporters(view.gpu_nodes)
            nodes |= records.keys() | self._reported.keys()
            gangs |= {
                uid
                for uid, dossier in docket.of.items()
                if dossier.standing.state is not None
                and (uid in self._jobs) is not self._can_be_planned(dossier.standing)
            }
        return nodes

    def _can_be_planned(self, standing: Standing) -> bool:
        return all(gpu in self._home for worker in standing.holds for gpu in worker.gpus)

    def _take_orphans(self, view: ClusterView, docket: Docket) -> set[str]:
        """Return the gangs without a job that are new, have changed or are gone."""
        orphans = {uid: pods for uid, pods in view.pods.items() if uid not in docket.of}
        changed = {
            uid
            for uid in orphans.keys() | self._orphans.keys()
            if orphans.get(uid) is not self._orphans.get(uid)
        }
        self._orphans = orphans
        return changed

    def _place_gang(self, uid: str, view: ClusterView, docket: Docket) -> set[str]:
        """Note where a gang is; return the nodes on which that concerns others."""
        dossier, pods = docket.of.get(uid), view.pods.get(uid, ())
        standing = None if dossier is None else dossier.standing
        planned = standing is not None and self._can_be_planned(standing)
        before = self._footprints.pop(uid, NOWHERE)
        after = footprint(standing, pods, planned, docket.sessions)
        if after != NOWHERE:
            self._footprints[uid] = after
        for gpu, _ in before.strangers:
            of_gpu = self._strangers.get(gpu, {})
            of_gpu.pop(uid, None)
            if not of_gpu:
                self._strangers.pop(gpu, None)
        for gpu, _ in after.strangers:
            self._strangers.setdefault(gpu, {})[uid] = after
        gpus = {gpu for each in (before, after) for gpu, _ in each.strangers}
        gpus |= {gpu for each in (before, after) for _, gpu in each.covered}
        nodes = {self._home[gpu] for gpu in gpus if gpu in self._home}
        nodes |= {pod.node for pod in pods}
        nodes |= {hold.node for pod in pods for hold in docket.sessions.of(pod)}
        return nodes

    def _take_nodes(
        self, names: Iterable[str], view: ClusterView, docket: Docket, now_seconds: float
    ) -> None:
        records = {record.name: record for record in view.gpu_nodes}
        changed = False
        for name in names:
            record, before = records.get(name), self._reported.get(name)
            if record is None:
                changed |= self._reported.pop(name, None) is not None
                self._depart(name, {})
                continue
            tenants = node_tenants(docket.sessions.on(name), view.pod_of, self._covers, now_seconds)
            for gpu in record.gpus:
                for footprint_there in self._strangers.get(gpu.uuid, {}).values():
                    tenants.foreign.setdefault(gpu.uuid, []).extend(
                        tenant for where, tenant in footprint_there.strangers if where == gpu.uuid
                    )
            node = planner_node(
                record,
                view.nodes.get(name),
                name in view.silent_nodes,
                tenants.foreign,
                self._rules,
                self._active_percent,
                self._home,
            )
            changed |= before is None or before.node != node
            self._reported[name] = _Reported(
                record, tenants, node if before is None or before.node != node else before.node
            )
            self._depart(name, {job.key: job for job in tenants.departures})
        if changed:
            self.scheduler.set_nodes([each.node for each in self._reported.values()])

    def _covers(self, pod: WorkerPod, gpu: str) -> bool:
        return (pod.uid, gpu) in self._footprints.get(pod.job_uid, NOWHERE).covered

    def _depart(self, node: str, departures: dict[str, Job]) -> None:
        before = self._departures.pop(node, {})
        if departures:
            self._departures[node] = departures
        for key in before.keys() - departures.keys():
            self.scheduler.forget(key)
        for key, job in departures.items():
            if before.get(key) != job:
                self.scheduler.observe(job)

    def _tell_job(self, standing: Standing, view: ClusterView, now_seconds: float) -> None:
        uid = standing.job.uid
        if standing.state is None or not self._can_be_planned(standing):
            self._forget_job(uid)
            return
        pods = view.pods.get(uid, ())
        job = planner_job(standing, pods, self.templates.of(standing.job), now_seconds)
        before = self._jobs.get(uid)
        if before is not None and before.key != job.key:
            self._forget_job(uid)
        if before != job:
            self._jobs[uid] = job
            self.scheduler.observe(job)
        template = template_of(standing.job)
        if template is not None and self._template.get(uid) != template:
            self._leave_template(uid)
            self._template[uid] = template
            self._of_template.setdefault(template, set()).add(uid)
        self._keep_away(standing, now_seconds)

    def _keep_away(self, standing: Standing, now_seconds: float) -> None:
        """Keep a waiting job away from nodes that its template does not allow, or on which it failed to start lately."""
        nodes, sentence = frozenset[str](), ""
        job = standing.job
        if standing.state is JobState.WAITING and job.wish is not None:
            lately = {each.node for each in transitions.unexpired(job.status.avoid, now_seconds)}
            refused = self._choice.refused(job.wish.spec.template["spec"])
            nodes, sentence = refused.nodes | lately, refused.sentence
        if sentence:
            self._refused[job.key] = sentence
        else:
            self._refused.pop(job.key, None)
        if self._avoid.get(job.key, frozenset()) != nodes:
            self._avoid[job.key] = nodes
            self.scheduler.avoid(job.key, nodes)

    def _forget_job(self, uid: str) -> None:
        job = self._jobs.pop(uid, None)
        if job is not None:
            self.scheduler.forget(job.key)
            self._avoid.pop(job.key, None)
            self._refused.pop(job.key, None)
            self._leave_template(uid)

    def _leave_template(self, uid: str) -> None:
        template = self._template.pop(uid, None)
        if template is not None:
            self._of_template[template].discard(uid)
            if not self._of_template[template]:
                del self._of_template[template]
