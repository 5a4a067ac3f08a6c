/**
 * The front end of MoveProgress. It asks the manager by itself, since the kernel is frozen
 * during the move; it stops asking once the move has ended, and while nobody can see it.
 * Text is only ever set as text, never as markup.
 */
const WAIT_S = 25;
const RETRY_FIRST_MS = 1000;
const RETRY_LONGEST_MS = 15000;
const TICK_MS = 100;

/* As in the panel: park is part of capture, commit and release are part of reroute. */
const GROUPS = {
  prepare: ["prepare"],
  check: ["check"],
  capture: ["park", "capture"],
  send: ["send"],
  restore: ["restore"],
  reroute: ["commit", "reroute", "release"],
};
const ROWS = {
  start: ["prepare", "reroute"],
  switch: ["prepare", "check", "capture", "send", "restore", "reroute"],
  deflate: ["check", "capture", "reroute"],
  inflate: ["prepare", "send", "restore", "reroute"],
  stop: ["reroute"],
};
const DONE = {
  start: "Started",
  switch: "Moved",
  deflate: "Deflated",
  inflate: "Inflated",
  stop: "Stopped",
};
const CHOICES = {
  wait: "Wait for it",
  interrupt: "Interrupt it",
  accept: "Move without them",
  cancel: "Cancel",
};
const SIGNS = { pending: "○", active: "", done: "✓", failed: "✕", stopped: "–" };

const isOpen = (move) => ["queued", "running", "asking"].includes(move.status);
const seconds = (s) => `${Math.max(0, s).toFixed(1)} s`;

function ordinal(n) {
  const suffix = n % 100 > 10 && n % 100 < 14 ? "th" : (["th", "st", "nd", "rd"][n % 10] ?? "th");
  return `${n}${suffix}`;
}

/** Control characters, and those that turn the direction of writing, become visible. */
function printable(text) {
  return String(text).replace(
    /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g,
    (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"),
  );
}

export function rows(move, now) {
  const last = move.steps[move.steps.length - 1];
  return ROWS[move.kind].map((key) => {
    const members = GROUPS[key];
    const steps = move.steps.filter((one) => members.includes(one.step));
    if (steps.length === 0) {
      return { key, status: move.status === "done" ? "done" : "pending", seconds: null };
    }
    const unfinished = steps.some((one) => one.ended === null);
    const isLast = members.includes(last.step);
    let status = unfinished || (isLast && isOpen(move) && steps.length < members.length)
      ? "active"
      : "done";
    if (isLast && move.status === "failed") status = "failed";
    if (isLast && move.status === "cancelled") status = "stopped";
    const end = unfinished ? (move.ended ?? now) : Math.max(...steps.map((one) => one.ended));
    return { key, status, seconds: Math.max(0, end - steps[0].began) };
  });
}

export function sentence(move) {
  const goal = move.flavor ? ` to ${printable(move.flavor)}` : "";
  const reason = printable(move.reason);
  if (move.status === "queued") {
    const place = move.place === null ? "Queued" : `${ordinal(move.place)} in the queue`;
    return `${place}: ${reason || "waits until hardware is free."}`;
  }
  if (move.status === "done") {
    const began = move.steps[0]?.began ?? move.created;
    const pause = move.pause_s === null ? "" : `, paused ${seconds(move.pause_s)}`;
    return `${DONE[move.kind]}${goal} in ${seconds(move.ended - began)}${pause}.`;
  }
  if (move.status === "failed") return `It did not work: ${reason || "no reason was given."}`;
  if (move.status === "cancelled") return reason || "Cancelled.";
  return reason;
}

function element(tag, className, text) {
  const made = document.createElement(tag);
  made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

function button(label, primary, press) {
  const made = element("button", primary ? "dcw-button dcw-primary" : "dcw-button", label);
  made.addEventListener("click", async () => {
    made.disabled = true;
    await press();
    made.disabled = false;
  });
  return made;
}

/** Asks the manager for one workspace; learns where it is from the Jupyter server, once. */
class Manager {
  constructor(workspace, signal) {
    const [user, name] = workspace.split("/");
    this.path = `/api/workspaces/${encodeURIComponent(user)}/${encodeURIComponent(name)}`;
    this.signal = signal;
    this.session = null;
  }

  async connect() {
    const config = document.getElementById("jupyter-config-data");
    if (config === null) throw new Error("Progress is shown in JupyterLab's Dev Cluster panel.");
    const { baseUrl } = JSON.parse(config.textContent);
    const xsrf = document.cookie.match(/(?:^|; )_xsrf=([^;]*)/)?.[1] ?? "";
    const answer = await fetch(`${baseUrl}devcluster/session`, {
      headers: { "X-XSRFToken": decodeURIComponent(xsrf) },
      signal: this.signal,
    });
    if (!answer.ok) throw new Error(`The workspace's server answered HTTP ${answer.status}.`);
    this.session = await answer.json();
  }

  async call(method, rest, body) {
    if (this.session === null) await this.connect();
    const answer = await fetch(this.session.api.replace(/\/$/, "") + this.path + rest, {
      method,
      cache: "no-store",
      headers: {
        Authorization: `token ${this.session.token}`,
        "Content-Type": "application/json",
      },
      body: body === undefined ? null : JSON.stringify(body),
      signal: this.signal,
    });
    if (answer.status === 401 || answer.status === 403) this.session = null;
    const said = await answer.json().catch(() => ({}));
    if (!answer.ok) throw new Error(said.message ?? `The manager answered HTTP ${answer.status}.`);
    return said;
  }
}

function visible(signal) {
  return new Promise((resolve) => {
    const look = () => {
      if (!document.hidden || signal.aborted) {
        document.removeEventListener("visibilitychange", look);
        resolve();
      }
    };
    document.addEventListener("visibilitychange", look);
    signal.addEventListener("abort", look);
    look();
  });
}

function pause(ms, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => (clearTimeout(timer), resolve()));
  });
}

function draw(el, move, now, manager, tell) {
  const list = element("ol", "dcw-steps");
  for (const row of rows(move, now)) {
    const item = element("li", `dcw-step dcw-${row.status}`);
    item.dataset.step = row.key;
    item.dataset.status = row.status;
    const sign = element("span", "dcw-sign", SIGNS[row.status]);
    sign.setAttribute("aria-label", row.status);
    item.append(sign, element("span", "dcw-label", row.key));
    item.append(element("span", "dcw-time", row.seconds === null ? "" : seconds(row.seconds)));
    list.append(item);
  }
  const parts = move.status === "queued" ? [] : [list];
  const text = sentence(move);
  if (text) parts.push(element("p", "dcw-sentence", text));
  const send = (path, body) => async () => {
    try {
      await manager.call("POST", path, body);
    } catch (error) {
      tell(printable(error.message));
    }
  };
  const actions = element("div", "dcw-actions");
  if (move.status === "asking" && move.question !== null) {
    parts.push(element("p", "dcw-question", printable(move.question.text)));
    const items = element("ul", "dcw-items");
    for (const one of move.question.items) items.append(element("li", "", printable(one)));
    parts.push(items);
    move.question.choices.forEach((choice, index) => {
      const label = CHOICES[choice] ?? printable(choice);
      actions.append(button(label, index === 0, send("/answer", { move: move.id, choice })));
    });
  } else if (isOpen(move) && !move.steps.some((one) => GROUPS.reroute.includes(one.step))) {
    actions.append(button("Cancel", false, send("/cancel", {})));
  }
  if (actions.children.length) parts.push(actions);
  el.replaceChildren(...parts);
}

async function follow(model, shown, trouble, signal) {
  const manager = new Manager(model.get("workspace"), signal);
  const tell = (text) => (trouble.textContent = text);
  let since = null;
  let delay = RETRY_FIRST_MS;
  let ticks = null;
  while (!signal.aborted) {
    await visible(signal);
    try {
      const query = since === null ? "" : `?wait=${WAIT_S}&after=${since}`;
      const workspace = await manager.call("GET", query);
      const asked = Date.now() / 1000;
      const behind = since === null ? 0 : asked - workspace.since;
      since = workspace.since;
      delay = RETRY_FIRST_MS;
      tell("");
      clearInterval(ticks);
      const move = workspace.move;
      if (move === null || move.id !== model.get("move")) {
        shown.replaceChildren(element("p", "dcw-sentence", "This move is over."));
        return;
      }
      const paint = () => draw(shown, move, Date.now() / 1000 - behind, manager, tell);
      paint();
      if (!isOpen(move)) return;
      if (move.status === "running") ticks = setInterval(paint, TICK_MS);
    } catch (error) {
      if (signal.aborted) break;
      tell(printable(error.message));
      await pause(delay, signal);
      delay = Math.min(2 * delay, RETRY_LONGEST_MS);
    }
  }
  clearInterval(ticks);
}

function render({ model, el }) {
  const over = new AbortController();
  const box = element("div", "dcw-box");
  const shown = element("div", "dcw-shown");
  const trouble = element("p", "dcw-trouble");
  trouble.setAttribute("role", "alert");
  shown.append(element("p", "dcw-sentence", printable(model.get("said"))));
  box.append(shown, trouble);
  el.append(box);
  follow(model, shown, trouble, over.signal);
  return () => over.abort();
}

export default { render };
