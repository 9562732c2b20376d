// One node: each GPU with its turns as they are taken, and its sessions.

import { h } from "./dom.js";
import { age, gib } from "./format.js";
import { memoryBar } from "./nodes.js";
import { facts, heading, jobLink, notice, sourceNotice, stateTag, table } from "./parts.js";
import { newestSeconds, state } from "./state.js";

const WINDOW_SECONDS = 30;
const WIDTH = 3000;

export function nodeView(name) {
  const node = state.nodes.get(name);
  if (!node) {
    const live = state.sources.nodes?.state === "live";
    return [heading(`Node ${name}`), sourceNotice("nodes", state.sources.nodes), live ? notice("plain", "There is no such GPUNode.") : ""];
  }
  return [
    heading(`Node ${node.name}`, " ", node.ready ? "" : h("span", { class: "tag bad" }, "not ready")),
    node.ready ? "" : notice("bad", node.message),
    node.observedAt ? h("p", { class: "note" }, `Last changed ${age(node.observedAt)} ago.`) : "",
    sourceNotice("turns", state.sources.turns),
    node.gpus.map(gpuSection),
  ];
}

function gpuSection(gpu) {
  return h(
    "section",
    { class: "gpu-detail", "data-key": gpu.uuid, "aria-label": `GPU ${gpu.index}` },
    h("h3", {}, `GPU ${gpu.index} · ${gpu.model}`, gpu.simulated ? h("span", { class: "tag plain" }, "simulated") : "", gpu.healthy ? "" : h("span", { class: "tag bad" }, "unhealthy")),
    gpu.healthReason ? notice(gpu.healthy ? "warn" : "bad", gpu.healthReason) : "",
    memoryBar(gpu),
    facts([
      ["Memory for jobs", `${gib(gpu.memoryBytes)} GiB`],
      ["Kept by jobs", `${gib(gpu.persistentBytes)} GiB`],
      ["In lanes", `${gib(gpu.laneBytes)} GiB`],
      ["Held now", `${gib(gpu.heldBytes)} GiB`],
      ["Shares", `${gpu.sharePercent} %`],
      ["Enforcement", gpu.enforcement],
    ]),
    gpu.sessions.length ? [turns(gpu), sessions(gpu)] : notice("plain", "No job uses this GPU."),
  );
}

function turns(gpu) {
  const taken = [...state.turns.values()].filter((turn) => turn.gpu === gpu.uuid);
  if (state.sources.turns?.state !== "live") {
    return "";
  }
  const newest = newestSeconds();
  return h(
    "div",
    { class: "timeline", role: "group", "aria-label": `Turns of GPU ${gpu.index} in the last ${WINDOW_SECONDS} seconds` },
    gpu.lanes.map((lane) => lane.sessions.map((key, index) => timelineRow(gpu, lane, key, index, taken, newest))),
    h("p", { class: "axis" }, h("span", {}, `${WINDOW_SECONDS} s ago`), h("span", {}, "now")),
  );
}

function timelineRow(gpu, lane, key, index, taken, newest) {
  const session = gpu.sessions.find((each) => each.key === key);
  const own = spans(taken.filter((turn) => turn.session === key), newest);
  const part = own.reduce((sum, span) => sum + span.to - span.from, 0) / WIDTH;
  const label = `${session.name}, lane ${lane.id}: ${Math.round(100 * part)} % of the time`;
  return h(
    "div",
    { class: `timeline-row${index === 0 ? " first" : ""}`, "data-key": `${gpu.uuid} ${key}` },
    h("span", { class: "timeline-name" }, h("span", { class: "lane" }, `${lane.id}`), ` ${session.name}`),
    h("svg", { class: "turns", viewBox: `0 0 ${WIDTH} 10`, preserveAspectRatio: "none", role: "img", "aria-label": label }, h("title", {}, label), own.map(({ from, to, outcome }) => h("rect", { class: outcome, x: from, y: 0, width: Math.max(2, to - from), height: 10 }))),
    h("span", { class: "timeline-part" }, `${Math.round(100 * part)} %`),
  );
}

/** Turns as spans of the picture. Turns that follow closely are drawn as one, so that short ones stay cheap to draw. */
function spans(turns, newest) {
  const from = newest - WINDOW_SECONDS;
  const place = (seconds) => Math.round((Math.max(0, seconds - from) * WIDTH) / WINDOW_SECONDS);
  const drawn = [];
  for (const turn of turns.filter((each) => (each.end ?? newest) >= from).sort((a, b) => a.start - b.start)) {
    const span = { from: place(turn.start), to: place(turn.end ?? newest), outcome: ["revoked", "died"].includes(turn.outcome) ? "cut" : "taken" };
    const last = drawn.at(-1);
    if (last && last.outcome === span.outcome && span.from - last.to < 1) {
      last.to = Math.max(last.to, span.to);
    } else {
      drawn.push(span);
    }
  }
  return drawn;
}

function sessions(gpu) {
  const columns = [
    { label: "Job or pod" }, { label: "State" }, { label: "Lane", kind: "number" }, { label: "Share", kind: "number" },
    { label: "Held, GiB", kind: "number" }, { label: "Kept, GiB", kind: "number wide" }, { label: "Per iteration, GiB", kind: "number wide" },
    { label: "Quota, GiB", kind: "number wide" }, { label: "Turns", kind: "number wide" }, { label: "Enforcement", kind: "wide" }, { label: "Remark", kind: "text" },
  ];
  const rows = gpu.sessions.map((session) => ({
    key: session.key,
    cells: [
      session.job ? jobLink(session.job, session.pod) : session.pod, stateTag(session.state), session.lane ?? "–", `${session.sharePercent} %`,
      gib(session.heldBytes), gib(session.persistentBytes), gib(session.ephemeralBytes), gib(session.quotaBytes), session.turns, session.enforcement, session.message,
    ],
  }));
  return table(`Sessions of GPU ${gpu.index}`, columns, rows);
}
