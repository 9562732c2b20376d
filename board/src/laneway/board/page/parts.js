// Parts that several views share.

import { h } from "./dom.js";

export function jobLink(key, text = key) {
  const [namespace, name] = key.split("/");
  return h("a", { href: `#/jobs/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}` }, text);
}

/** Jobs in a sentence: those of the namespace with links, the others, which the API does not name, as a number. */
export function jobsNamed(keys, elsewhere, most = keys.length) {
  const parts = keys.slice(0, most).map((key) => (key.includes("/") ? jobLink(key) : key));
  const more = keys.length - parts.length;
  parts.push(...(more > 0 ? [`${more} more`] : []), ...(elsewhere ? [elsewhere === 1 ? "a job of another namespace" : `${elsewhere} jobs of other namespaces`] : []));
  return parts.length ? parts.map((part, index) => [index === 0 ? "" : index === parts.length - 1 ? " and " : ", ", part]) : "";
}

export function nodeLink(name) {
  return h("a", { href: `#/nodes/${encodeURIComponent(name)}` }, name);
}

const TONES = {
  Running: "good", Holding: "good", Complete: "done", Failed: "bad", Invalid: "bad", Lost: "bad",
  Paused: "held", Offloaded: "held", Suspended: "held", Pending: "wait", Waiting: "wait", Starting: "wait",
};

export function stateTag(text, reason = "") {
  return h("span", { class: `tag ${TONES[text] ?? "plain"}` }, reason ? `${text}: ${reason}` : text);
}

export function heading(text, ...more) {
  return h("h2", { tabindex: "-1", id: "heading" }, text, more);
}

/** A list of terms and values; pairs without a value are left out. */
export function facts(pairs) {
  const shown = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "" && value !== false);
  return shown.length ? h("dl", { class: "facts" }, shown.map(([term, value]) => h("div", {}, h("dt", {}, term), h("dd", {}, value)))) : "";
}

const MOST_ROWS = 500; // a browser takes seconds to draw ten thousand, at each change

/** The jobs that get a row, and a remark on the others. */
export function firstOf(jobs) {
  const note = jobs.length > MOST_ROWS ? h("p", { class: "note" }, `The first ${MOST_ROWS} of ${jobs.length} jobs. The filter finds the others.`) : "";
  return [jobs.slice(0, MOST_ROWS), note];
}

/** A table. `columns`: label, optional class; `rows`: key and cells. */
export function table(caption, columns, rows) {
  return h(
    "div",
    { class: "scroll", role: "group", "aria-label": caption, tabindex: "0" },
    h(
      "table",
      {},
      h("thead", {}, h("tr", {}, columns.map(({ label, kind, header }) => h("th", { scope: "col", class: kind, "aria-sort": header?.sort }, header?.content ?? label)))),
      h("tbody", {}, rows.map(({ key, cells }) => h("tr", { "data-key": key }, cells.map((cell, index) => h("td", { class: columns[index].kind }, cell))))),
    ),
  );
}

export function notice(tone, ...content) {
  return h("p", { class: `notice ${tone}` }, content);
}

const SOURCES = {
  jobs: "TrainingJobs", nodes: "GPUNodes, and with them GPUs, lanes and sessions", turns: "the turns of this node",
};
const ADVICE = {
  nodes: "An administrator can give you the ClusterRole that ends in gpunodes-view.",
  turns: "An administrator can give you the Role that ends in turns-view. What the lanes hold is shown all the same.",
  jobs: "Enter a namespace of yours above.",
};

/** Says why a source shows nothing; empty while it is live. */
export function sourceNotice(name, source) {
  if (!source || source.state === "live") {
    return "";
  }
  if (source.state === "forbidden") {
    return notice("warn", `You may not read ${SOURCES[name]}. ${ADVICE[name]} `, h("small", {}, source.message));
  }
  return notice("bad", `The board cannot read ${SOURCES[name]}: ${source.message}`);
}
