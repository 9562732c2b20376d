// The jobs that wait, in the order in which they are to start, with the reasons.

import { h } from "./dom.js";
import { age, clock, plural, until } from "./format.js";
import { firstOf, heading, jobLink, jobsNamed, notice, sourceNotice, table } from "./parts.js";
import { matches, state } from "./state.js";

const COLUMNS = [
  { label: "#", kind: "number" }, { label: "Job", kind: "job" }, { label: "Requests", kind: "wide" }, { label: "Queue", kind: "number wide" },
  { label: "Waits", kind: "number" }, { label: "Why, and what would end the wait", kind: "text" }, { label: "May start" , kind: "wide" },
];

export function waitingJobs() {
  const place = (job) => job.waiting.position || Number.MAX_SAFE_INTEGER;
  return [...state.jobs.values()].filter((job) => job.waiting).sort((a, b) => place(a) - place(b) || a.waiting.since.localeCompare(b.waiting.since) || a.key.localeCompare(b.key));
}

export function queueView() {
  const waiting = waitingJobs();
  const shown = waiting.filter((job) => matches(job.key, job.state, job.waiting.reason, job.waiting.message));
  const [first, others] = firstOf(shown);
  return [
    heading("Queue"),
    sourceNotice("jobs", state.sources.jobs),
    state.sources.jobs?.state === "live" ? h("p", { class: "summary" }, waiting.length ? `${plural(waiting.length, "job waits", "jobs wait")}. ${byReason(waiting)}` : "No job waits.") : "",
    shown.length ? table("Jobs that wait", COLUMNS, first.map(row)) : "",
    others,
    waiting.length && !shown.length ? notice("plain", "No waiting job matches the filter.") : "",
  ];
}

function byReason(waiting) {
  const counts = new Map();
  for (const { waiting: { reason } } of waiting) {
    counts.set(reason, (counts.get(reason) ?? 0) + 1);
  }
  return [...counts].sort((a, b) => b[1] - a[1]).slice(0, 6).map(([reason, count]) => `${reason}: ${count}`).join(", ");
}

function row(job) {
  const { waiting } = job;
  return {
    key: job.key,
    cells: [
      waiting.position || "–", jobLink(job.key), job.request, job.queue, age(waiting.since || job.created),
      [h("strong", {}, waiting.reason), " ", h("span", {}, waiting.message), " ", h("span", {}, waiting.unblock), blockers(waiting)],
      waiting.estimatedStart ? h("time", { datetime: waiting.estimatedStart, title: `${clock(waiting.estimatedStart)}. ${waiting.estimateBasis}` }, until(waiting.estimatedStart)) : "",
    ],
  };
}

function blockers({ blockers, blockersElsewhere }) {
  const named = jobsNamed(blockers, blockersElsewhere, 3);
  return named ? h("span", { class: "blockers" }, " Held by ", named, ".") : "";
}
