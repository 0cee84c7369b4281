// One job live: its log lines and progress as they come. Everything is put in as text.
import { path } from "./api.js";
import { refresh } from "./live.js";

const MOST_LINES = 2000;

function line({ n, at, level, text }) {
  const item = document.createElement("li");
  item.dataset.n = n;
  if (/^[a-z]+$/i.test(level)) item.className = level.toUpperCase();
  const when = document.createElement("span");
  when.className = "dim";
  when.textContent = new Date(at).toLocaleTimeString(undefined, { hour12: false });
  const name = document.createElement("span");
  name.className = "level dim";
  name.textContent = level;
  const said = document.createElement("bdi");
  said.textContent = text;
  item.append(when, name, said);
  return item;
}

function addLine(data) {
  const list = document.getElementById("logs");
  const last = Number(list?.lastElementChild?.dataset.n ?? -1);
  if (!list || data.n <= last) return;
  const atEnd = list.scrollHeight - list.scrollTop - list.clientHeight < 24;
  list.append(line(data));
  while (list.children.length > MOST_LINES) list.firstElementChild.remove();
  if (atEnd) list.scrollTop = list.scrollHeight;
  document.getElementById("logs-none").hidden = true;
  document.getElementById("logs-count").textContent = list.children.length.toLocaleString("en");
}

function showProgress({ progress, message }) {
  const card = document.getElementById("progress");
  if (!card || progress === undefined || progress === null) return;
  card.hidden = false;
  document.getElementById("progress-bar").value = progress;
  document.getElementById("progress-number").textContent = `${Math.round(progress)} %`;
  document.getElementById("progress-text").textContent = message ?? "";
}

export function startJob() {
  const job = document.getElementById("job");
  if (!job) return;
  const list = document.getElementById("logs");
  if (list) list.scrollTop = list.scrollHeight;
  let source = null;
  let seen = job.dataset.state;
  const listen = () => {
    source?.close();
    source = null;
    if (document.hidden || ["succeeded", "failed", "cancelled", "skipped"].includes(seen)) return;
    source = new EventSource(path(`api/jobs/${encodeURIComponent(job.dataset.job)}/events`));
    source.addEventListener("log", (event) => addLine(JSON.parse(event.data)));
    source.addEventListener("state", (event) => {
      const data = JSON.parse(event.data);
      showProgress(data);
      if (data.state !== seen) {
        seen = data.state;
        refresh();
      }
    });
    for (const end of ["end", "gone"]) source.addEventListener(end, () => source.close());
  };
  document.addEventListener("visibilitychange", listen);
  // Retried or edited: it lives again.
  document.addEventListener("windlass:fresh", () => {
    const now = document.getElementById("job")?.dataset.state ?? seen;
    const over = source === null || source.readyState === EventSource.CLOSED;
    if (now !== seen || over) {
      seen = now;
      if (over) listen();
    }
  });
  window.addEventListener("pagehide", () => source?.close());
  listen();
}
