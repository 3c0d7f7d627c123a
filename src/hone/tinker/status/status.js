// Asks the server for its numbers every two seconds, with the key that was typed; the key stays in this tab.
"use strict";
const byId = (id) => document.getElementById(id);
const whole = new Intl.NumberFormat("en");
let before = null; // the last answer, for rates

function tiles(list, entries) {
  list.replaceChildren(...entries.map(([name, value]) => {
    const tile = document.createElement("div");
    const title = document.createElement("dt");
    const number = document.createElement("dd");
    title.textContent = name;
    number.textContent = value;
    tile.append(title, number);
    return tile;
  }));
}

function duration(seconds) {
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  return seconds < 172800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86400)} d`;
}

function bytes(count) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  for (; count >= 1000 && unit < units.length - 1; unit++) count /= 1000;
  return `${count < 10 && unit > 0 ? count.toFixed(1) : Math.round(count)} ${units[unit]}`;
}

function rate(now, name) {
  const seconds = before ? now.seconds - before.seconds : 0;
  return seconds > 0 ? whole.format(Math.round((now[name] - before[name]) / seconds)) : "…";
}

// Rows of a table, whose cells know their column's name: a narrow screen shows it in each.
function fill(body, rows) {
  const names = [...body.parentElement.tHead.rows[0].cells].map((cell) => cell.textContent);
  body.replaceChildren(...rows.map((texts) => {
    const line = document.createElement("tr");
    line.append(...texts.map((text, column) => {
      const cell = document.createElement("td");
      cell.textContent = text;
      cell.dataset.name = names[column];
      return cell;
    }));
    return line;
  }));
}

function runRow(run) {
  return [run.id + (run.unloaded ? " (unloaded)" : ""), run.rank, whole.format(run.requests), run.checkpoints, `${duration(Date.now() / 1000 - run.last_request)} ago`];
}

// Of a gateway; a server by itself has none.
function workerRow({ worker, models, alive, server }) {
  const numbers = server ? [server.training_requests_waiting, server.runs_resident, server.tokens_total].map((number) => whole.format(number)) : ["–", "–", "–"];
  return [worker, models.join(", ") || "–", alive ? "answers" : "does not answer", ...numbers];
}

function show({ server, tenant, runs, workers }) {
  byId("model").textContent = `${server.base_model} · hone ${server.version} · up ${duration(server.seconds)}`;
  tiles(byId("server"), [
    ["trained tokens/s", rate(server, "tokens_total")], ["generated tokens/s", rate(server, "generated_tokens_total")],
    ["training requests waiting", whole.format(server.training_requests_waiting)], ["samples waiting", whole.format(server.samples_waiting)],
    ["open polls", whole.format(server.polls_open)], ["runs in memory", whole.format(server.runs_resident)],
    ["runs in a pass", server.passes_total ? (server.runs_in_passes_total / server.passes_total).toFixed(1) : "–"],
    ["optimizer steps", whole.format(server.optim_steps_total)], ["failed requests", whole.format(server.training_failures_total)],
  ]);
  byId("tenant-name").textContent = `Tenant ${tenant.name}`;
  tiles(byId("tenant"), [
    ["training requests waiting", whole.format(tenant.waiting)], ["training runs", whole.format(tenant.runs)],
    ["checkpoints", whole.format(tenant.checkpoints)], ["on disk", bytes(tenant.checkpoint_bytes)], ["priority", tenant.priority],
  ]);
  fill(byId("runs"), runs.map(runRow));
  byId("gateway").hidden = !workers;
  fill(byId("workers"), (workers ?? []).map(workerRow));
  byId("no-runs").hidden = runs.length > 0;
  before = server;
}

function tell(problem) {
  byId("problem").textContent = problem;
  byId("problem").hidden = !problem;
}

function signedIn(yes) {
  byId("status").hidden = !yes;
  byId("leave").hidden = !yes;
  byId("login").hidden = byId("welcome").hidden = yes;
}

async function refresh() {
  const key = sessionStorage.getItem("key");
  if (!key) return;
  try {
    const answer = await fetch("/api/v1/status", { headers: { "X-API-Key": key } });
    if (answer.status === 401) {
      sessionStorage.removeItem("key");
      signedIn(false);
      return tell("The server does not know this key.");
    }
    if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
    show(await answer.json());
    signedIn(true);
    tell("");
  } catch (problem) {
    tell(`No answer: ${problem.message}. Trying again.`);
  }
}

byId("login").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem("key", byId("key").value.trim());
  byId("key").value = "";
  refresh();
});
byId("leave").addEventListener("click", () => {
  sessionStorage.removeItem("key");
  before = null;
  signedIn(false);
});
setInterval(refresh, 2000);
refresh();
