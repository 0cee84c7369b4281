// Many jobs at once: those picked in a table, or all that a filter finds, with a count first and then in steps.
import { parameters, told } from "./actions.js";
import { call } from "./api.js";
import { ask, questionOf } from "./dialogs.js";
import { refresh } from "./live.js";
import { toast } from "./toast.js";

const DONE = {
  retry: "retried", cancel: "cancelled", delete: "deleted", promote: "promoted", reprioritise: "changed",
  reschedule: "rescheduled", move: "moved",
};
const jobs = (count) => `${count.toLocaleString("en")} ${count === 1 ? "job" : "jobs"}`;
let matching = false;

const picks = () => [...document.querySelectorAll("input.pick")];
const picked = () => picks().filter((box) => box.checked).map((box) => box.value);

function show() {
  const bar = document.getElementById("bulk");
  if (!bar) return;
  const count = picked().length;
  bar.hidden = !count && !matching;
  document.getElementById("bulk-count").textContent = matching ? "All that match" : `${count} selected`;
  const all = document.getElementById("pick-all");
  if (all) {
    all.checked = count > 0 && count === picks().length;
    all.indeterminate = count > 0 && count < picks().length;
  }
}

export function clear() {
  matching = false;
  for (const box of picks()) box.checked = false;
  show();
}

export function pickAll(on) {
  for (const box of picks()) box.checked = on;
  show();
}

function report(action, changed, skipped, lines) {
  const text = `${jobs(changed)} ${DONE[action]}${skipped ? `, ${skipped.toLocaleString("en")} left out` : ""}`;
  toast([text, ...lines].join("\n"), changed === 0 && skipped > 0);
}

function questionAbout(button, many) {
  const question = questionOf(button);
  return { ...question, title: question.title.replace("{jobs}", many) };
}

async function onPicked(button, action, params) {
  const ids = picked();
  const question = questionAbout(button, jobs(ids.length));
  if (question.danger && (await ask(question)) === null) return;
  const answer = await call("POST", "api/jobs/actions", { action, ids, params });
  const { skipped, lines } = told(answer);
  report(action, answer.changed?.length ?? 0, skipped, lines);
  clear();
}

async function onMatching(button, action, filter, params) {
  const found = await call("GET", `api/count?filter=${encodeURIComponent(filter)}`);
  if (!found.count && found.exact) {
    toast("No job matches any more");
    return;
  }
  const about = found.exact ? jobs(found.count) : `at least ${jobs(found.count)}`;
  let changed = 0;
  let skipped = 0;
  const work = async (progress, stopped) => {
    let after = "";
    do {
      const answer = await call("POST", "api/jobs/actions", { action, filter, after, params });
      changed += answer.changed?.length || answer.count || 0;
      skipped += Object.keys(answer.skipped ?? {}).length;
      after = answer.cursor ?? "";
      progress(changed + skipped, found.exact ? found.count : 0);
    } while (after && !stopped());
    return true;
  };
  const question = questionAbout(button, about);
  const text = `${about} match: ${filter || "all jobs"}. ${question.text}`.trim();
  const answer = await ask({ ...question, text, work });
  if (answer !== null || changed) report(action, changed, skipped, []);
  clear();
}

async function start(button) {
  const { bulk: action, params: dialog } = button.dataset;
  const params = dialog ? await parameters(dialog) : {};
  if (!params) return;
  const own = button.dataset.filter;
  try {
    if (own !== undefined) await onMatching(button, action, own, params);
    else if (matching) await onMatching(button, action, document.getElementById("list").dataset.filter, params);
    else await onPicked(button, action, params);
  } catch (error) {
    toast(error.message, true);
  }
  await refresh();
}

export function startBulk() {
  document.addEventListener("change", (event) => {
    if (event.target.id === "pick-all") pickAll(event.target.checked);
    else if (event.target.matches("input.pick")) {
      matching = false;
      show();
    }
  });
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    if (button.dataset.bulk) start(button);
    else if (button.id === "bulk-clear") clear();
    else if (button.id === "all-matching") {
      clear();
      matching = true;
      show();
      document.querySelector("#bulk button").focus();
    }
  });
  document.addEventListener("windlass:fresh", show);
  show();
}
