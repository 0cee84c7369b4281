// Live pages: the server says that something happened, the page asks for itself again and takes over what differs. One
// request at a time; nothing is asked while the page is hidden or updates are switched off.
import { path } from "./api.js";
import { morph } from "./morph.js";

const button = document.getElementById("live");
const refreshEvery = Number(document.documentElement.dataset.refresh) * 1000;
let source = null;
let wanted = true;
let asking = false;
let again = false;
let last = 0;

function show(state) {
  button.dataset.state = state;
  const words = { live: "Live", off: "Paused", lost: "Trying" };
  button.querySelector("span").textContent = words[state];
  const said = { live: "Live updates are on", off: "Live updates are off", lost: "The server or store is away; trying again" };
  button.title = said[state];
  button.setAttribute("aria-label", said[state]);
}

export async function refresh() {
  if (asking) {
    again = true;
    return;
  }
  asking = true;
  last = Date.now();
  try {
    const response = await fetch(location.href, { credentials: "same-origin", headers: { Accept: "text/html" } });
    if (response.status >= 500) throw new Error("away");
    if (response.redirected || response.status === 401) {
      location.reload();
      return;
    }
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    morph(document.getElementById("main"), page.getElementById("main"));
    morph(document.getElementById("nav"), page.getElementById("nav"));
    document.title = page.title;
    document.dispatchEvent(new CustomEvent("windlass:fresh"));
    if (wanted) show("live");
  } catch {
    show("lost");
  } finally {
    asking = false;
  }
  if (again) {
    again = false;
    await refresh();
  }
}

// A tick that comes soon after another waits its turn: a busy store must not make busy pages.
let planned = 0;
function plan() {
  if (planned) return;
  planned = setTimeout(() => {
    planned = 0;
    if (wanted && !document.hidden) refresh();
  }, Math.max(0, last + refreshEvery - Date.now()));
}

function listen() {
  source?.close();
  source = null;
  if (!wanted || document.hidden) return;
  source = new EventSource(path("live"));
  source.addEventListener("hello", () => show("live"));
  source.addEventListener("tick", plan);
  source.addEventListener("away", () => show("lost"));
  source.addEventListener("error", () => {
    show("lost");
    if (source?.readyState === EventSource.CLOSED) setTimeout(listen, 5000);
  });
}

export function toggleLive() {
  wanted = !wanted;
  show(wanted ? "live" : "off");
  listen();
  if (wanted) refresh();
}

export function startLive() {
  button.addEventListener("click", toggleLive);
  document.addEventListener("visibilitychange", () => {
    listen();
    if (!document.hidden && wanted && Date.now() - last > refreshEvery) refresh();
  });
  window.addEventListener("pagehide", () => source?.close());
  window.addEventListener("pageshow", (event) => event.persisted && listen());
  if (document.querySelector("[data-retry]")) setInterval(() => location.reload(), 2000);
  listen();
}
