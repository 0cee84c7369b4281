// The keyboard. Nothing is taken from somebody who writes, nor keys with Ctrl, Alt or Meta.
import { path } from "./api.js";
import { clear, pickAll } from "./bulk.js";
import { open } from "./dialogs.js";
import { refresh, toggleLive } from "./live.js";
import { toast } from "./toast.js";

const PLACES = {
  o: "", j: "jobs", q: "queues", w: "workers", d: "dead", s: "schedules", f: "workflows", t: "tasks", l: "limits", a: "audit",
};
const PATIENCE = 1500;
let going = 0;

const rows = () => [...document.querySelectorAll("table[data-rows] tbody tr")];
const current = () => document.querySelector("tr.at");

function step(by) {
  const all = rows();
  if (!all.length) return;
  const place = all.indexOf(current());
  const next = all[Math.min(Math.max(place + by, 0), all.length - 1)];
  current()?.classList.remove("at");
  next.classList.add("at");
  next.scrollIntoView({ block: "nearest" });
}

function pick() {
  const box = current()?.querySelector("input.pick");
  if (!box) return;
  box.checked = !box.checked;
  box.dispatchEvent(new Event("change", { bubbles: true }));
}

const KEYS = {
  "/": () => {
    const field = document.getElementById("filter-text") ?? document.getElementById("find");
    field.focus();
    field.select();
  },
  "?": () => open(document.getElementById("keys")),
  j: () => step(1),
  k: () => step(-1),
  x: pick,
  a: () => pickAll([...document.querySelectorAll("input.pick")].some((box) => !box.checked)),
  n: () => document.getElementById("next")?.click(),
  r: () => refresh(),
  l: toggleLive,
  t: () => toast(`Theme: ${window.windlassTheme()}`),
  Escape: clear,
};

export function startKeys() {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || document.querySelector("dialog[open]")) return;
    // What had the focus may be in a dialog that was closed a moment ago.
    const at = event.target.checkVisibility() ? event.target : document.body;
    if (at.closest("input:not([type=checkbox]), textarea, select, [contenteditable]")) {
      if (event.key === "Escape") at.blur();
      return;
    }
    if (going && Date.now() - going < PATIENCE && event.key in PLACES) {
      event.preventDefault();
      location.href = path(PLACES[event.key]);
      return;
    }
    going = event.key === "g" ? Date.now() : 0;
    if (event.key === "Enter" && current() && !at.closest("a, button, summary")) {
      location.href = current().dataset.href;
      return;
    }
    const act = KEYS[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });
  // The row stays marked while the table is renewed.
  let marked = "";
  document.addEventListener("windlass:fresh", () => {
    if (marked && !current()) rows().find((row) => row.dataset.key === marked)?.classList.add("at");
  });
  new MutationObserver(() => {
    if (current()) marked = current().dataset.key;
  }).observe(document.getElementById("main"), { subtree: true, attributes: true, attributeFilter: ["class"] });
}
