// One job: why it waits, its progress and loss, its attempts and preemptions, and what a preemption would lose.

import { h } from "./dom.js";
import { age, clock, duration, gpuHours, plural, since, until } from "./format.js";
import { progressText, shortLoss } from "./jobs.js";
import { facts, heading, jobLink, jobsNamed, nodeLink, notice, sourceNotice, stateTag, table } from "./parts.js";
import { state } from "./state.js";

const ACTIONS = {
  Pause: "paused; its memory stays on the GPU",
  Offload: "offloaded; its memory moves to the host",
  Evict: "evicted; it starts again from its checkpoint, else from the beginning",
};

export function jobView(key) {
  const job = state.jobs.get(key);
  if (!job) {
    const live = state.sources.jobs?.state === "live";
    return [heading(`Job ${key}`), sourceNotice("jobs", state.sources.jobs), live ? notice("plain", "There is no such TrainingJob, or it was deleted.") : ""];
  }
  return [
    heading(`Job ${job.key}`, " ", stateTag(job.state, job.reason)),
    sourceNotice("jobs", state.sources.jobs),
    job.otherController ? notice("plain", `${job.otherController} runs this job. Laneway does not.`) : "",
    job.waiting ? waitingNotice(job.waiting) : "",
    facts([
      ["Requests", job.request],
      ["Priority class", job.priorityClass],
      ["Queue", String(job.queue)],
      ["Workers", String(job.workers)],
      ["GPU time used", `${gpuHours(job.serviceGpuMilliseconds)} GPU-hours`],
      ["Waited for others", duration(job.waitedMilliseconds)],
      ["Turns", String(job.turns)],
      ["Created", time(job.created)],
      ["First ran", time(job.startTime)],
      ["Ended", time(job.completionTime)],
    ]),
    h("div", { class: "columns" }, progressSection(job), attemptsSection(job), unsavedSection(job)),
    endedAttemptsSection(job),
    preemptionSection(job),
    placementSection(job),
    conditionsSection(job),
    eventsSection(job),
  ];
}

function section(title, ...content) {
  return h("section", { class: "card", "data-key": title, "aria-label": title }, h("h3", {}, title), content);
}

function time(text) {
  return text ? h("time", { datetime: text, title: clock(text) }, `${age(text)} ago`) : "";
}

function waitingNotice(waiting) {
  return h(
    "div",
    { class: "notice warn", "data-key": "waiting" },
    h("p", {}, h("strong", {}, waiting.reason), " ", h("span", {}, waiting.message), " ", h("span", {}, waiting.unblock)),
    facts([
      ["Place in the queue", waiting.position ? String(waiting.position) : ""],
      ["Waits since", time(waiting.since)],
      ["May start", waiting.estimatedStart ? `${until(waiting.estimatedStart)}. ${waiting.estimateBasis}` : ""],
      ["Held by", jobsNamed(waiting.blockers, waiting.blockersElsewhere)],
      ["Before it", jobsNamed(waiting.ahead, waiting.aheadElsewhere)],
    ]),
    waiting.alternatives.length ? [h("p", {}, "It would start now with:"), h("ul", {}, waiting.alternatives.map((text) => h("li", {}, h("code", {}, text))))] : "",
  );
}

function progressSection({ key, name, progress }) {
  if (!progress) {
    return section("Progress", notice("plain", "Nothing was reported yet."));
  }
  return section(
    "Progress",
    progress.percent === null ? "" : h("progress", { max: 100, value: progress.percent, "aria-label": `Progress of ${name}` }),
    facts([
      ["Done", progressText(progress)],
      ["Step", progress.step === null ? "" : `${progress.step}${progress.steps ? ` of ${progress.steps}` : ""}`],
      ["Epoch", progress.epoch === null ? "" : String(progress.epoch)],
      ["Remaining", progress.remainingSeconds === null ? "" : duration(1000 * progress.remainingSeconds)],
      ["Loss", shortLoss(progress.loss)],
      ["Reported", time(progress.updatedAt)],
    ]),
    lossChart(key),
  );
}

function lossChart(key) {
  const points = state.losses.get(key)?.points ?? [];
  if (points.length < 2) {
    return "";
  }
  const losses = points.map(({ loss }) => loss);
  const [low, high] = [Math.min(...losses), Math.max(...losses)];
  const x = (index) => (1000 * index) / (points.length - 1);
  const y = (loss) => (high === low ? 50 : 95 - (90 * (loss - low)) / (high - low));
  const label = `Loss since this page was opened: from ${shortLoss(String(losses[0]))} to ${shortLoss(String(losses.at(-1)))}, lowest ${shortLoss(String(low))}, highest ${shortLoss(String(high))}`;
  return [
    h("svg", { class: "loss", viewBox: "0 0 1000 100", preserveAspectRatio: "none", role: "img", "aria-label": label }, h("polyline", { points: losses.map((loss, index) => `${x(index).toFixed(1)},${y(loss).toFixed(1)}`).join(" ") })),
    h("p", { class: "note" }, `${label}.`),
  ];
}

function attemptsSection({ attempts, state: shown }) {
  return section(
    "Attempts",
    facts([
      ["Attempt", String(attempts.number)],
      ["Its workers", attempts.workers ? String(attempts.workers) : ""],
      ["Placed", time(attempts.startedAt)],
      ["Ran in it", duration(attempts.executedMilliseconds)],
      ["Restarts after failures", String(attempts.restarts)],
      ["Preemptions", String(attempts.preemptions)],
      ["Rescales", String(attempts.rescales)],
      ["Attempts in a row that never ran", attempts.unstarted ? String(attempts.unstarted) : ""],
    ]),
    shown === "Pending" && !attempts.number ? notice("plain", "It has not started yet.") : "",
  );
}

function endedAttemptsSection({ endedAttempts }) {
  const columns = [
    { label: "Attempt", kind: "number" }, { label: "Ended", kind: "wide" }, { label: "Lasted", kind: "number" }, { label: "GPU time", kind: "number wide" }, { label: "Lost", kind: "number" },
    { label: "Workers", kind: "number wide" }, { label: "Nodes", kind: "wide" }, { label: "Why", kind: "text" },
  ];
  const rows = endedAttempts.toReversed().map((each) => ({
    key: `attempt ${each.attempt}`,
    cells: [
      each.attempt, time(each.endedAt), duration(Date.parse(each.endedAt) - Date.parse(each.startedAt)), duration(each.serviceGpuMilliseconds),
      each.lostGpuMilliseconds === null ? "unknown" : duration(each.lostGpuMilliseconds), each.workers, each.nodes.join(", "),
      [stateTag(each.outcome, each.reason), ` ${each.message}`],
    ],
  }));
  return rows.length ? section("Ended attempts", table("Ended attempts", columns, rows)) : "";
}

function unsavedSection({ unsaved }) {
  const running = unsaved.countedAt ? since(unsaved.countedAt) ?? 0 : 0;
  return section(
    "Work that an eviction would lose",
    unsaved.milliseconds === null ? notice("plain", "None is known: the job has no workers, or its client sees no checkpoints.") : h("p", { class: "figure" }, duration(unsaved.milliseconds + Math.max(0, running))),
    facts([
      ["Last checkpoint", time(unsaved.lastCheckpoint) || "none was seen"],
      ["Last attempt", unsaved.resumes === null ? "" : unsaved.resumes ? "went on from a checkpoint" : "started from the beginning"],
    ]),
    unsaved.warning ? notice("warn", unsaved.warning) : "",
  );
}

function preemptionSection({ preemption, lastPreemption }) {
  const row = (key, label, each) =>
    each && {
      key,
      cells: [
        label, ACTIONS[each.action] ?? each.action, each.preemptor.includes("/") ? jobLink(each.preemptor) : each.preemptor, time(each.since),
        each.costMilliseconds === null ? "" : duration(each.costMilliseconds), `${each.reason} ${each.message}`,
      ],
    };
  const rows = [row("now", "now", preemption), row("last", "last", lastPreemption)].filter(Boolean);
  const columns = [{ label: "When" }, { label: "The job was" }, { label: "For" }, { label: "Since" }, { label: "Expected cost", kind: "number wide" }, { label: "Why", kind: "text" }];
  return rows.length ? section("Preemptions", table("Preemptions", columns, rows)) : "";
}

function placementSection({ placement, failures }) {
  const columns = [{ label: "Worker", kind: "number" }, { label: "Node" }, { label: "Share", kind: "number" }, { label: "GPUs", kind: "text wide" }];
  const rows = placement.map((worker) => ({ key: `worker ${worker.rank}`, cells: [worker.rank, nodeLink(worker.node), `${worker.sharePercent} %`, worker.gpus.join(", ")] }));
  const failed = failures.map((failure) => ({ key: `failure ${failure.node}`, cells: [nodeLink(failure.node), plural(failure.count, "failure"), time(failure.last)] }));
  return [
    rows.length ? section("Placement", table("Placement", columns, rows)) : "",
    failed.length ? section("Failures of workers", table("Failures", [{ label: "Node" }, { label: "In a row" }, { label: "Last" }], failed)) : "",
  ];
}

function conditionsSection({ conditions }) {
  const columns = [{ label: "Condition" }, { label: "Status" }, { label: "Since" }, { label: "Reason", kind: "wide" }, { label: "Message", kind: "text" }];
  const rows = conditions.map((each) => ({ key: each.type, cells: [each.type, each.status, time(each.since), each.reason, each.message] }));
  return rows.length ? section("Conditions", table("Conditions", columns, rows)) : "";
}

function eventsSection({ key }) {
  const { job, source, events } = state.events;
  if (job !== key) {
    return "";
  }
  const columns = [{ label: "Seen" }, { label: "Reason" }, { label: "Message", kind: "text" }];
  const rows = events.map((each) => ({ key: each.key, cells: [time(each.time), [each.reason, each.count > 1 ? ` (${each.count} times)` : ""], each.message] }));
  const problem = source ? notice("warn", `Events are not shown: ${source.message}`) : "";
  return section("History", problem, rows.length ? table("Events", columns, rows) : source ? "" : notice("plain", "No events. Clusters delete them, usually after an hour."));
}
