// What the page knows of the cluster, and how messages of the board change it.

const LOSS_POINTS = 500;
const MOST_TURNS = 20000;
const TURNS_SECONDS = 60;

export const state = {
  jobs: new Map(),
  nodes: new Map(),
  turns: new Map(), // of the node that is shown
  turnsSeconds: 0, // when its agent last answered, by its clock
  sources: {},
  losses: new Map(), // of each job, since the page was opened
  events: { job: "", source: null, events: [] },
  connection: "Connecting …",
  filter: "",
  stateFilter: "",
  sort: { column: "state", descending: false },
};

export function receiveObjects(name, message) {
  const objects = state[name];
  if (message.source) {
    state.sources[name] = message.source;
  }
  if (message.reset) {
    objects.clear();
  }
  for (const key of message.removed) {
    objects.delete(key);
    state.losses.delete(key);
  }
  for (const view of message.set) {
    objects.set(view.key, view);
    if (name === "jobs") {
      rememberLoss(view);
    }
  }
}

function rememberLoss({ key, uid, progress }) {
  const loss = Number.parseFloat(progress?.loss);
  if (!Number.isFinite(loss)) {
    return;
  }
  const known = state.losses.get(key);
  const points = known?.uid === uid ? known.points : [];
  const step = progress.step ?? progress.iterations;
  const last = points.at(-1);
  if (last && last.step === step && last.loss === loss) {
    return;
  }
  points.push({ step, loss });
  state.losses.set(key, { uid, points: points.slice(-LOSS_POINTS) });
}

export function receiveTurns(message) {
  state.sources.turns = message.source;
  state.turnsSeconds = message.now ?? 0;
  if (message.source.state === "live") {
    forgetRunningTurns(); // each answer of the agent lists all of them
  }
  for (const turn of message.turns) {
    state.turns.set(turn.key, turn);
  }
  const oldest = newestSeconds() - TURNS_SECONDS;
  for (const [key, turn] of state.turns) {
    if ((turn.end !== null && turn.end < oldest) || state.turns.size > MOST_TURNS) {
      state.turns.delete(key);
    }
  }
}

function forgetRunningTurns() {
  for (const [key, turn] of state.turns) {
    if (turn.end === null) {
      state.turns.delete(key);
    }
  }
}

/** The newest time that is known of the node, by its clock. */
export function newestSeconds() {
  let newest = state.turnsSeconds;
  for (const turn of state.turns.values()) {
    newest = Math.max(newest, turn.end ?? turn.start);
  }
  return newest;
}

export function forgetTurns() {
  state.turns.clear();
  state.turnsSeconds = 0;
  delete state.sources.turns;
}

export function matches(...texts) {
  const words = state.filter.toLowerCase().split(/\s+/).filter(Boolean);
  const all = texts.join(" ").toLowerCase();
  return words.every((word) => all.includes(word));
}
