// All nodes: a tile for each GPU, with its memory and its lanes.

import { h } from "./dom.js";
import { gib, plural } from "./format.js";
import { heading, jobLink, nodeLink, notice, sourceNotice } from "./parts.js";
import { matches, state } from "./state.js";

const SHOWN_SESSIONS = 4;

export function nodesView() {
  const nodes = [...state.nodes.values()].sort((a, b) => a.name.localeCompare(b.name, "en", { numeric: true }));
  const shown = nodes.map((node) => ({ node, gpus: node.gpus.filter((gpu) => gpuMatches(node, gpu)) })).filter(({ node, gpus }) => gpus.length || (!node.gpus.length && matches(node.name)));
  return [
    heading("Nodes"),
    sourceNotice("nodes", state.sources.nodes),
    state.sources.nodes?.state === "live" ? summary(nodes) : "",
    shown.map(({ node, gpus }) => nodeSection(node, gpus)),
    state.filter && !shown.length && nodes.length ? notice("plain", "No GPU matches the filter.") : "",
  ];
}

function gpuMatches(node, gpu) {
  return matches(node.name, gpu.model, gpu.healthy ? "" : "unhealthy", gpu.sessions.length ? "used" : "free", gpu.sessions.map((session) => `${session.pod} ${session.job} ${session.state}`).join(" "));
}

function summary(nodes) {
  const gpus = nodes.flatMap((node) => node.gpus);
  const shared = gpus.filter((gpu) => gpu.sessions.length > 1).length;
  const free = gpus.filter((gpu) => gpu.healthy && !gpu.sessions.length).length;
  const unhealthy = gpus.filter((gpu) => !gpu.healthy).length;
  return h(
    "p",
    { class: "summary" },
    `${plural(gpus.length, "GPU")} on ${plural(nodes.length, "node")}: ${gpus.length - free - unhealthy} used, ${shared} of them shared; ${free} free; ${unhealthy} unhealthy.`,
  );
}

function nodeSection(node, gpus) {
  return h(
    "section",
    { class: "node", "data-key": `node ${node.key}`, "aria-label": `Node ${node.name}` },
    h("h3", {}, nodeLink(node.name), node.ready ? "" : h("span", { class: "tag bad" }, "not ready")),
    node.ready ? "" : h("p", { class: "note" }, node.message),
    h("ul", { class: "gpus" }, gpus.map((gpu) => gpuTile(node, gpu))),
  );
}

function gpuTile(node, gpu) {
  const sessions = [...gpu.lanes.flatMap((lane) => lane.sessions.map((key) => ({ key, lane }))), ...gpu.withoutLane.map((key) => ({ key, lane: null }))];
  const byKey = new Map(gpu.sessions.map((session) => [session.key, session]));
  const hidden = sessions.length - SHOWN_SESSIONS;
  const shown = hidden > 1 ? sessions.slice(0, SHOWN_SESSIONS) : sessions;
  return h(
    "li",
    { class: `gpu${gpu.healthy ? "" : " unhealthy"}${sessions.length ? "" : " free"}`, "data-key": gpu.uuid },
    h("p", { class: "gpu-head" }, h("strong", {}, `GPU ${gpu.index}`), h("span", { class: "model", title: gpu.model }, shortModel(gpu.model)), h("span", { class: "share" }, sessions.length ? `${gpu.sharePercent} %` : "free")),
    memoryBar(gpu),
    gpu.healthy ? "" : h("p", { class: "note" }, h("span", { class: "tag bad" }, "unhealthy"), ` ${gpu.healthReason}`),
    shown.length ? h("ul", { class: "sessions" }, shown.map(({ key, lane }) => sessionLine(byKey.get(key), lane))) : "",
    hidden > 1 ? h("p", { class: "note" }, h("a", { href: `#/nodes/${encodeURIComponent(node.name)}` }, `and ${hidden} more`)) : "",
  );
}

function sessionLine(session, lane) {
  const holds = lane?.holder === session.key;
  const shown = ["Paused", "Offloaded", "Lost", ...(lane ? [] : ["Waiting"])]; // in a lane, all but one wait for their turn
  const state = shown.includes(session.state) ? session.state.toLowerCase() : "";
  return h(
    "li",
    { "data-key": session.key, class: holds ? "holder" : null },
    h("span", { class: "lane", title: lane ? `lane ${lane.id}` : "no lane" }, lane ? `${lane.id}` : "–"),
    holds ? h("span", { class: "turn", role: "img", "aria-label": "has the turn" }, "▶") : h("span", { class: "turn" }),
    h("span", { class: "name" }, session.job ? jobLink(session.job, session.rank ? `${session.name} (${session.rank})` : session.name) : session.name),
    state ? h("span", { class: "tag held" }, state) : "",
    h("span", { class: "share" }, `${session.sharePercent} %`),
  );
}

/** Memory of a GPU: what jobs keep, what lanes reserve for one iteration at a time, and the rest. */
export function memoryBar(gpu) {
  const total = Math.max(gpu.memoryBytes, gpu.persistentBytes + gpu.laneBytes, 1);
  const kept = (1000 * gpu.persistentBytes) / total;
  const lanes = (1000 * gpu.laneBytes) / total;
  const text = `${gib(gpu.persistentBytes)} GiB kept by jobs, ${gib(gpu.laneBytes)} GiB in lanes, of ${gib(gpu.memoryBytes)} GiB`;
  return h(
    "svg",
    { class: "bar", viewBox: "0 0 1000 10", preserveAspectRatio: "none", role: "img", "aria-label": text },
    h("title", {}, text),
    h("rect", { class: "rest", x: 0, y: 0, width: 1000, height: 10 }),
    h("rect", { class: "kept", x: 0, y: 0, width: kept.toFixed(1), height: 10 }),
    h("rect", { class: "in-lanes", x: kept.toFixed(1), y: 0, width: lanes.toFixed(1), height: 10 }),
  );
}

function shortModel(model) {
  return model.replace(/^NVIDIA /, "");
}
