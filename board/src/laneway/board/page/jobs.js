// All jobs as a table that can be sorted and filtered.

import { h } from "./dom.js";
import { age, duration, gpuHours, plural, since } from "./format.js";
import { firstOf, heading, jobLink, notice, sourceNotice, stateTag, table } from "./parts.js";
import { matches, state } from "./state.js";

const ORDER = ["Running", "Starting", "Paused", "Waiting", "Pending", "Suspended", "Invalid", "Failed", "Complete"];
const rank = (job) => ORDER.indexOf(job.state) + 1 || ORDER.length + 1;

const COLUMNS = [
  { id: "name", label: "Job", kind: "job", value: (job) => job.key, cell: (job) => jobLink(job.key) },
  { id: "state", label: "State", value: rank, cell: (job) => stateTag(job.state, job.reason) },
  { id: "request", label: "Requests", kind: "wide", value: (job) => job.requestedGpus ?? 0, cell: (job) => job.request },
  { id: "progress", label: "Progress", value: (job) => job.progress?.percent ?? -1, cell: progressCell },
  { id: "remaining", label: "Remaining", kind: "number wide", value: (job) => job.progress?.remainingSeconds ?? Infinity, cell: (job) => (job.progress?.remainingSeconds ?? null) === null ? "" : duration(1000 * job.progress.remainingSeconds) },
  { id: "loss", label: "Loss", kind: "number wide", value: (job) => Number.parseFloat(job.progress?.loss) || 0, cell: (job) => shortLoss(job.progress?.loss) },
  { id: "service", label: "GPU-hours", kind: "number wide", value: (job) => job.serviceGpuMilliseconds, cell: (job) => gpuHours(job.serviceGpuMilliseconds) },
  { id: "queue", label: "Queue", kind: "number wide", value: (job) => job.queue, cell: (job) => job.queue },
  { id: "attempt", label: "Attempt", kind: "number wide", value: (job) => job.attempts.number, cell: (job) => job.attempts.number },
  { id: "preempted", label: "Preempted", kind: "number wide", value: (job) => job.attempts.preemptions, cell: (job) => job.attempts.preemptions },
  { id: "age", label: "Age", kind: "number", value: (job) => since(job.created) ?? 0, cell: (job) => age(job.created) },
];

export function jobsView() {
  const jobs = [...state.jobs.values()];
  const shown = jobs.filter((job) => matches(job.key, job.state, job.reason, ...job.placement.map((worker) => worker.node)));
  const { value } = COLUMNS.find((column) => column.id === state.sort.column);
  const sign = state.sort.descending ? -1 : 1;
  shown.sort((a, b) => sign * compare(value(a), value(b)) || compare(a.key, b.key));
  const [first, others] = firstOf(shown);
  return [
    heading("Jobs"),
    sourceNotice("jobs", state.sources.jobs),
    state.sources.jobs?.state === "live" ? h("p", { class: "summary" }, jobs.length ? `${plural(jobs.length, "job")}: ${byState(jobs)}.` : "There are no TrainingJobs.") : "",
    shown.length ? table("Jobs", COLUMNS.map(sortable), first.map((job) => ({ key: job.key, cells: COLUMNS.map((column) => column.cell(job)) }))) : "",
    others,
    jobs.length && !shown.length ? notice("plain", "No job matches the filter.") : "",
  ];
}

function sortable(column) {
  const sorted = state.sort.column === column.id;
  const arrow = sorted ? (state.sort.descending ? " ▼" : " ▲") : "";
  return {
    kind: column.kind,
    header: {
      sort: sorted ? (state.sort.descending ? "descending" : "ascending") : null,
      content: h("button", { type: "button", "data-sort": column.id }, column.label, h("span", { "aria-hidden": "true" }, arrow)),
    },
  };
}

function compare(a, b) {
  return typeof a === "string" ? a.localeCompare(b, "en", { numeric: true }) : a - b || 0;
}

function byState(jobs) {
  const counts = new Map();
  for (const job of [...jobs].sort((a, b) => rank(a) - rank(b))) {
    counts.set(job.state, (counts.get(job.state) ?? 0) + 1);
  }
  return [...counts].map(([name, count]) => `${count} ${name}`).join(", ");
}

export function progressText(progress) {
  if (!progress) {
    return "";
  }
  const steps = progress.step === null ? (progress.iterations ? plural(progress.iterations, "iteration") : "") : `step ${progress.step}${progress.steps ? ` of ${progress.steps}` : ""}`;
  return progress.percent === null ? steps : `${progress.percent} %`;
}

function progressCell(job) {
  const text = progressText(job.progress);
  return (job.progress?.percent ?? null) === null ? text : [h("progress", { max: 100, value: job.progress.percent, "aria-label": `Progress of ${job.name}` }), ` ${text}`];
}

export function shortLoss(loss) {
  const value = Number.parseFloat(loss);
  return loss && Number.isFinite(value) ? String(Number(value.toPrecision(4))) : loss ?? "";
}
