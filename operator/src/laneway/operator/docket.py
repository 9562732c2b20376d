"""Where each job stands, kept from cycle to cycle: a job is judged anew only when something about it has changed, or when its time comes.

What a job is judged by are its own record, its pods, the nodes on which these are (and what their agents report), the priority
classes, and the clock; of the clock a standing says when it matters. All of that is compared with what it was when the job was judged
last, so it does not matter how often, in which order or whether at all anybody has told of a change.

Figures that merely grow (turns, iterations, progress) are no reason to judge at once: of the jobs of which only these are new, a few
are judged in each cycle, those first that have waited longest.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from laneway.operator import transitions
from laneway.operator.cache import ClusterView
from laneway.operator.config import PatienceConfig
from laneway.operator.gang import Surroundings
from laneway.operator.lifecycle import advance
from laneway.operator.records.gpu_node_record import GPUNodeRecord
from laneway.operator.records.job_record import JobRecord
from laneway.operator.records.node_record import NodeRecord
from laneway.operator.records.priority_class import PriorityClassRecord
from laneway.operator.records.worker_pod import WorkerPod
from laneway.operator.sessions import SessionIndex
from laneway.operator.sick_gpus import SickGPU, sick_gpus
from laneway.operator.standing import Facts, Standing

logger = logging.getLogger(__name__)

_FIGURES_AT_ONCE = 100
"""Of jobs of which only figures are new, so many are judged in one cycle."""

_CHECKED_AT_ONCE = 10


@dataclass(slots=True)
class Dossier:
    """One job."""

    job: JobRecord | None
    """As the cluster had it when it was judged; None: it is to be judged anew whatever has changed."""

    pods: tuple[WorkerPod, ...]
    refusal: str
    standing: Standing
    due_seconds: float
    nodes: frozenset[str]
    """Where its pods are, and which it avoids: what becomes of these matters to it."""


@dataclass(slots=True)
class News:
    """What is not as it was in the cycle before."""

    jobs: set[str] = field(default_factory=set)
    """Uids of jobs that were judged anew."""

    gone: set[str] = field(default_factory=set)
    """Uids of jobs that are no longer there."""

    reported: set[str] = field(default_factory=set)
    """Gangs, by the uid of their job, of which a node reports other sessions than before; they may have no job any more."""

    nodes: set[str] = field(default_factory=set)
    """Nodes of which the Node, what its agent says, or whether it is silent has changed."""


class Docket:
    """All jobs."""

    def __init__(self, patience: PatienceConfig) -> None:
        self.of: dict[str, Dossier] = {}
        """By uid."""

        self.drifts = 0
        """How often a job was found to stand elsewhere than was thought: a fault of this program, put right in the next cycle."""

        self.sessions = SessionIndex()
        self._patience = patience
        self._gpu_nodes: dict[str, GPUNodeRecord] = {}
        self._nodes: dict[str, NodeRecord] = {}
        self._silent: frozenset[str] = frozenset()
        self._classes: Mapping[str, PriorityClassRecord] = {}
        self._template_refusals: Mapping[tuple[str, int], str] = {}
        self._sick: dict[str, dict[str, SickGPU]] = {}
        self._on_node: dict[str, set[str]] = {}
        self._to_judge: set[str] = set()
        self._grown: dict[str, None] = {}
        self._to_check: list[str] = []

    def due_seconds(self) -> float:
        """Return when the first job is to be judged though nothing changes; infinite: none is."""
        return min((each.due_seconds for each in self.of.values()), default=math.inf)

    def facts(
        self,
        refusals: Mapping[tuple[str, int], str],
        template_refusals: Mapping[tuple[str, int], str],
        now_seconds: float,
    ) -> Facts:
        """Return what jobs are judged by now."""
        sick = {uuid: gpu for of_node in self._sick.values() for uuid, gpu in of_node.items()}
        around = Surroundings(self._nodes, self.sessions, self._patience, now_seconds, sick)
        return Facts(around, self._classes, refusals, template_refusals)

    def update(
        self,
        view: ClusterView,
        refusals: Mapping[tuple[str, int], str],
        template_refusals: Mapping[tuple[str, int], str],
        busy: Collection[str],
        now_seconds: float,
    ) -> News:
        """Judge those anew of which something has changed.

        Args:
            view: what the cluster says.
            refusals: by uid and attempt, what the API server said of an object.
            template_refusals: by uid and generation, what it said of a pod template.
            busy: uids of jobs that are being written about: they stand as they are to be, and are judged when that has ended.
            now_seconds: Unix time.
        """
        news = News()
        self._take_gpu_nodes(view, news)
        self._take_nodes(view, news)
        if dict(view.priority_classes) != self._classes:
            self._classes = dict(view.priority_classes)
            self._to_judge.update(self.of)
        for uid, _ in template_refusals.keys() ^ self._template_refusals.keys():
            self._to_judge.add(uid)
        self._template_refusals = dict(template_refusals)
        news.gone = self.of.keys() - {job.uid for job in view.jobs}
        for uid in news.gone:
            self._leave_nodes(uid, self.of.pop(uid).nodes)
        self._to_judge &= self.of.keys()
        facts = self.facts(refusals, template_refusals, now_seconds)
        for job in self._in_question(view, refusals, busy, now_seconds):
            self._judge(job, view.pods.get(job.uid, ()), facts)
            news.jobs.add(job.uid)
        self._check_some(facts)
        return news

    def assume(self, uid: str, standing: Standing) -> None:
        """Have a job stand as it is to be, until what is written about it has been written."""
        dossier = self.of[uid]
        dossier.standing, dossier.job, dossier.due_seconds = standing, None, math.inf

    def _in_question(
        self,
        view: ClusterView,
        refusals: Mapping[tuple[str, int], str],
        busy: Collection[str],
        now_seconds: float,
    ) -> Iterator[JobRecord]:
        to_judge, self._to_judge = self._to_judge, set()
        grown = self._some_that_grew(busy)
        for job in view.jobs:
            uid = job.uid
            dossier = self.of.get(uid)
            if dossier is not None:
                same = (
                    dossier.job is job
                    and dossier.pods is view.pods.get(uid, ())
                    and now_seconds < dossier.due_seconds
                    and uid not in to_judge
                    and uid not in grown
                    and (not refusals or refusals.get((uid, job.status.attempt), "") == dossier.refusal)
                )
                if same:
                    continue
                if uid in busy:
                    self._to_judge.add(uid)
                    continue
            yield job

    def _check_some(self, facts: Facts) -> None:
        """Judge some jobs without any reason: they must stand where they stood. In turn all are, so that what went wrong does not stay."""
        if not self._to_check:
            self._to_check = list(self.of)
        for uid in (self._to_check.pop() for _ in range(min(_CHECKED_AT_ONCE, len(self._to_check)))):
            dossier = self.of.get(uid)
            if dossier is None or dossier.job is None or uid in self._grown or uid in self._to_judge:
                continue
            standing = dossier.standing
            if (
                standing.job.status is dossier.job.status
                and judged(dossier.job, dossier.pods, facts) != standing
            ):
                logger.error("a job stands elsewhere than was thought", extra={"job": dossier.job.key})
                self.drifts += 1
                self._to_judge.add(uid)

    def _some_that_grew(self, busy: Collection[str]) -> set[str]:
        found: set[str] = set()
        for uid in list(self._grown):
            if len(found) == _FIGURES_AT_ONCE:
                break
            if uid not in busy:
                del self._grown[uid]
                found.add(uid)
        return found

    def _judge(self, job: JobRecord, pods: tuple[WorkerPod, ...], facts: Facts) -> None:
        standing = judged(job, pods, facts)
        due = [time for time in (standing.due_seconds, *_due_by_pods(pods, facts)) if time is not None]
        nodes = frozenset(pod.node for pod in pods if pod.node).union(
            each.node for status in (job.status, standing.job.status) for each in status.avoid
        )
        before = self.of.get(job.uid)
        if before is None or before.nodes != nodes:
            self._leave_nodes(job.uid, frozenset() if before is None else before.nodes)
            for node in nodes:
                self._on_node.setdefault(node, set()).add(job.uid)
        refusal = facts.refusals.get((job.uid, job.status.attempt), "")
        self.of[job.uid] = Dossier(job, pods, refusal, standing, min(due, default=math.inf), nodes)
        self._grown.pop(job.uid, None)

    def _leave_nodes(self, uid: str, nodes: Iterable[str]) -> None:
        for node in nodes:
            there = self._on_node.get(node, set())
            there.discard(uid)
            if not there:
                self._on_node.pop(node, None)

    def _take_gpu_nodes(self, view: ClusterView, news: News) -> None:
        there = set()
        for record in view.gpu_nodes:
            there.add(record.name)
            before = self._gpu_nodes.get(record.name)
            if before is not record:
                self._take_gpu_node(record.name, before, record, view, news)
        for name in self._gpu_nodes.keys() - there:
            self._take_gpu_node(name, self._gpu_nodes[name], None, view, news)
        if view.silent_nodes != self._silent:
            news.nodes |= view.silent_nodes ^ self._silent
            self._silent = view.silent_nodes

    def _take_gpu_node(
        self,
        name: str,
        before: GPUNodeRecord | None,
        record: GPUNodeRecord | None,
        view: ClusterView,
        news: News,
    ) -> None:
        concerned = self._on_node.get(name, set()) | _gangs_reported(self.sessions, name, view)
        self.sessions.report(name, record)
        concerned = concerned | _gangs_reported(self.sessions, name, view)
        if record is None:
            del self._gpu_nodes[name]
            self._sick.pop(name, None)
        else:
            self._gpu_nodes[name] = record
            sick = sick_gpus([record])
            if sick:
                self._sick[name] = dict(sick)
            else:
                self._sick.pop(name, None)
        if before is None or record is None or before.decisive != record.decisive:
            news.nodes.add(name)
            self._to_judge |= concerned
            news.reported |= concerned
        else:
            self._grown.update(dict.fromkeys(concerned & self.of.keys()))

    def _take_nodes(self, view: ClusterView, news: News) -> None:
        changed = [
            name
            for name in self._nodes.keys() | view.nodes.keys()
            if self._nodes.get(name) is not view.nodes.get(name)
        ]
        for name in changed:
            before, node = self._nodes.pop(name, None), view.nodes.get(name)
            if node is not None:
                self._nodes[name] = node
            if before != node:
                news.nodes.add(name)
                self._to_judge |= self._on_node.get(name, set())


def judged(job: JobRecord, pods: tuple[WorkerPod, ...], facts: Facts) -> Standing:
    """Judge a job; one that this version of the operator cannot make sense of must not stop the others."""
    try:
        return advance(job, pods, facts)
    except Exception as error:
        logger.exception("a job could not be judged and is left as it is", extra={"job": job.key})
        message = f"the operator cannot make sense of this job ({type(error).__name__}: {error}); see its log"
        return Standing(
            job.with_status(transitions.refused(job.status, "NotUnderstood", message, facts.now_seconds)),
            None,
        )


def _gangs_reported(sessions: SessionIndex, node: str, view: ClusterView) -> set[str]:
    """Return the gangs of which a node reports sessions."""
    pods = (view.pod_of(hold.session) for hold in sessions.on(node))
    return {pod.job_uid for pod in pods if pod is not None}


def _due_by_pods(pods: tuple[WorkerPod, ...], facts: Facts) -> Iterator[float]:
    """Yield the moments from which pods and their nodes are judged otherwise."""
    now_seconds, patience = facts.now_seconds, facts.around.patience
    moments = []
    for pod in pods:
        if pod.unschedulable_since_seconds is not None:
            moments.append(pod.unschedulable_since_seconds + patience.unschedulable_seconds)
        node = facts.around.nodes.get(pod.node)
        if node is not None and node.not_ready_since_seconds is not None:
            moments.append(node.not_ready_since_seconds + patience.lost_node_seconds)
    for moment in moments:
        if moment > now_seconds:
            yield moment
