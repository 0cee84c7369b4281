// Times in the visitor's own zone, and ages that count on between updates.

const UNITS = [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]];

function age(seconds) {
  const parts = [];
  let rest = seconds;
  for (const [unit, size] of UNITS) {
    const count = Math.floor(rest / size);
    rest -= count * size;
    if (count) parts.push(`${count}${unit}`);
  }
  return parts.slice(0, 2).join(" ");
}

function told(at) {
  const past = Date.now() - at;
  if (Math.abs(past) < 1000) return "now";
  const text = age(Math.floor(Math.abs(past) / 1000));
  return past > 0 ? `${text} ago` : `in ${text}`;
}

const put = (node, text) => {
  if (node.textContent !== text) node.textContent = text;
};

export function local(at) {
  return new Date(at).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
}

const ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone;
const FAR = 300 * 86400 * 1000;

// As the server writes what a schedule's own clock shows.
function wall(ms) {
  const at = new Date(ms);
  const options = { weekday: "short", day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", hour12: false };
  if (at.getSeconds()) options.second = "2-digit";
  if (Math.abs(ms - Date.now()) > FAR) options.year = "numeric";
  return at.toLocaleString("en-GB", options);
}

function fresh() {
  for (const node of document.querySelectorAll("time[data-at]")) {
    const at = Number(node.dataset.at);
    put(node, told(at));
    node.title = local(at);
  }
  for (const node of document.querySelectorAll("time[data-clock]")) {
    const at = new Date(Number(node.dataset.clock));
    const inChart = node.closest(".chart");
    const far = inChart && Date.now() - at > 20 * 3600 * 1000;
    const options = far
      ? { month: "short", day: "numeric", hour: "2-digit" }
      : { hour: "2-digit", minute: "2-digit", ...(inChart ? {} : { second: "2-digit" }), hour12: false };
    put(node, far ? at.toLocaleString(undefined, options) : at.toLocaleTimeString(undefined, options));
    node.title = local(at);
  }
  for (const node of document.querySelectorAll("[data-stamp]")) put(node, wall(Number(node.dataset.stamp)));
  for (const node of document.querySelectorAll("[data-zone]")) put(node, `${node.dataset.zone}, ${ZONE}`);
}

export function startTimes() {
  fresh();
  setInterval(() => document.hidden || fresh(), 1000);
  document.addEventListener("windlass:fresh", fresh);
}
