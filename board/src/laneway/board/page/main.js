// The page: signs in, follows the board's streams, and draws the view that the address names.

import { h, update } from "./dom.js";
import { jobView } from "./job.js";
import { jobsView } from "./jobs.js";
import { nodeView } from "./node.js";
import { nodesView } from "./nodes.js";
import { heading } from "./parts.js";
import { queueView, waitingJobs } from "./queue.js";
import { forgetTurns, receiveObjects, receiveTurns, state } from "./state.js";
import { follow, request, SignInError } from "./stream.js";

const TICK_MILLISECONDS = 5000;
const SECRET = "laneway-board-secret";

const content = document.getElementById("content");
const connection = document.getElementById("connection");
const namespaceInput = document.getElementById("namespace");

let token = "";
let signIn = ""; // why the page asks for a token; empty: it does not
let objectsStream = new AbortController();
let turnsStream = new AbortController();
let drawing = false;

function route() {
  const parts = location.hash.startsWith("#/") ? location.hash.slice(2).split("/").map(decoded) : ["nodes"];
  const [view, first, second] = parts;
  if (view === "jobs") {
    return second ? { view, job: `${first}/${second}`, title: `Job ${first}/${second}` } : { view, title: "Jobs" };
  }
  if (view === "queue") {
    return { view, title: "Queue" };
  }
  return first ? { view: "nodes", node: first, title: `Node ${first}` } : { view: "nodes", title: "Nodes" };
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function draw() {
  if (drawing) {
    return;
  }
  drawing = true;
  requestAnimationFrame(() => {
    drawing = false;
    const { view, job, node, title } = route();
    document.title = `${title} · Laneway`;
    update(document.getElementById("views"), links(view));
    if (connection.textContent !== state.connection) {
      connection.textContent = state.connection;
    }
    if (signIn) {
      update(content, signInForm());
    } else {
      update(content, job ? jobView(job) : node ? nodeView(node) : view === "jobs" ? jobsView() : view === "queue" ? queueView() : nodesView());
    }
  });
}

function links(current) {
  const counts = { nodes: state.nodes.size, queue: waitingJobs().length, jobs: state.jobs.size };
  return Object.entries({ nodes: "Nodes", queue: "Queue", jobs: "Jobs" }).map(([view, label]) =>
    h("a", { href: `#/${view}`, "aria-current": view === current ? "page" : null, "data-key": view }, label, " ", h("span", { class: "count" }, String(counts[view]))),
  );
}

function signInForm() {
  return [
    heading("Sign in"),
    h("p", {}, signIn),
    h("form", { id: "sign-in" }, h("label", {}, "Bearer token ", h("input", { type: "password", id: "token", autocomplete: "off", required: true })), h("button", {}, "Sign in")),
    h("p", { class: "note" }, "The token stays in this page's memory, and a reload forgets it."),
  ];
}

function forgetObjects() {
  state.jobs.clear();
  state.nodes.clear();
  state.sources = {};
}

async function followObjects() {
  objectsStream.abort();
  objectsStream = new AbortController();
  const { signal } = objectsStream;
  const namespace = new URLSearchParams(location.search).get("namespace") ?? "";
  const receive = (name, message) => {
    state.connection = "Live";
    if (message) {
      receiveObjects(name, message);
      if (message.source?.state === "unauthenticated") {
        askForToken(`The cluster refuses the token: ${message.source.message}`);
      }
      reloadEvents();
    }
    draw();
  };
  await guarded(follow(`api/objects${namespace ? `?namespace=${encodeURIComponent(namespace)}` : ""}`, () => token, receive, lost, signal));
}

async function followTurns(node) {
  turnsStream.abort();
  turnsStream = new AbortController();
  forgetTurns();
  if (!node || signIn) {
    return;
  }
  const { signal } = turnsStream;
  const receive = (_, message) => {
    receiveTurns(message);
    draw();
  };
  await guarded(follow(`api/turns?node=${encodeURIComponent(node)}`, () => token, receive, () => {}, signal));
}

async function guarded(stream) {
  try {
    await stream;
  } catch (error) {
    if (!(error instanceof SignInError)) {
      throw error;
    }
    askForToken(error.message);
  }
}

function lost(message) {
  state.connection = `Not live: ${message} Trying again …`;
  draw();
}

function askForToken(message) {
  objectsStream.abort();
  turnsStream.abort();
  signIn = message;
  state.connection = "Signed out";
  draw();
}

let loadedVersion = null;

/** Loads the events of the job that is shown, again whenever the job has changed. */
async function reloadEvents() {
  const { job } = route();
  const view = state.jobs.get(job);
  if (!view || view === loadedVersion || signIn) {
    return;
  }
  loadedVersion = view;
  const query = new URLSearchParams({ namespace: view.namespace, job: view.name, uid: view.uid });
  try {
    const found = await (await request(`api/events?${query}`, () => token)).json();
    state.events = { job, ...found };
  } catch (error) {
    state.events = { job, source: { state: "failed", message: error.message }, events: [] };
  }
  draw();
}

function navigate() {
  const { node } = route();
  loadedVersion = null;
  followTurns(node);
  reloadEvents();
  draw();
}

function setUpControls() {
  const theme = document.getElementById("theme");
  theme.value = localStorage.getItem("theme") ?? "";
  const showTheme = () => {
    document.documentElement.dataset.theme = theme.value;
  };
  theme.addEventListener("change", () => {
    localStorage.setItem("theme", theme.value);
    showTheme();
  });
  showTheme();
  const filter = document.getElementById("filter");
  filter.addEventListener("input", () => {
    state.filter = filter.value;
    draw();
  });
  namespaceInput.value = new URLSearchParams(location.search).get("namespace") ?? "";
  namespaceInput.addEventListener("change", () => {
    if (namespaceInput.reportValidity()) {
      const address = new URL(location.href);
      address.search = namespaceInput.value ? `?namespace=${encodeURIComponent(namespaceInput.value)}` : "";
      history.replaceState(null, "", address);
      forgetObjects();
      followObjects();
    }
  });
  document.getElementById("skip").addEventListener("click", (event) => {
    event.preventDefault();
    content.focus();
  });
  document.addEventListener("submit", (event) => {
    event.preventDefault();
    if (event.target.id === "sign-in") {
      token = document.getElementById("token").value.trim();
      signIn = "";
      forgetObjects();
      followObjects();
      navigate();
    }
  });
  content.addEventListener("click", (event) => {
    const column = event.target.closest("[data-sort]")?.dataset.sort;
    if (column) {
      state.sort = { column, descending: state.sort.column === column && !state.sort.descending };
      draw();
    }
  });
}

/** A page that is not seen has no streams: a browser allows only six connections to one server, and the board watches for each. */
function showOrHide() {
  if (document.hidden) {
    objectsStream.abort();
    turnsStream.abort();
  } else if (!signIn) {
    followObjects();
    navigate();
  }
}

/** The command `laneway board` puts its secret into the address, behind the '#', which browsers send to no server. */
function takeSecret() {
  const given = /^#secret=([\w-]+)$/.exec(location.hash)?.[1];
  if (given) {
    sessionStorage.setItem(SECRET, given);
    history.replaceState(null, "", location.pathname + location.search + "#/nodes");
  }
  token = sessionStorage.getItem(SECRET) ?? "";
}

takeSecret();
setUpControls();
window.addEventListener("hashchange", () => {
  navigate();
  requestAnimationFrame(() => requestAnimationFrame(() => document.getElementById("heading")?.focus({ preventScroll: true })));
  window.scrollTo(0, 0);
});
document.addEventListener("visibilitychange", showOrHide);
setInterval(draw, TICK_MILLISECONDS);
followObjects();
navigate();
