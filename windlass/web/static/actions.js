// Buttons and forms that change something. What they send stands in their data attributes; nothing is sent by a link.
import { call, path } from "./api.js";
import { ask, complain, open, questionOf } from "./dialogs.js";
import { read } from "./forms.js";
import { refresh } from "./live.js";
import { toast } from "./toast.js";

const MOST_STEPS = 100_000;

export function told(changed) {
  const skipped = Object.entries(changed.skipped ?? {});
  const lines = skipped.slice(0, 3).map(([id, reason]) => `${id}: ${reason}`);
  if (skipped.length > 3) lines.push(`and ${skipped.length - 3} more`);
  return { count: changed.count ?? changed.changed?.length ?? 0, skipped: skipped.length, lines };
}

// An action that goes on while its answer has a cursor.
async function inSteps(rest, body, report, stopped) {
  let done = 0;
  for (let step = 0; step < MOST_STEPS && !stopped(); step += 1) {
    const answer = await call("POST", rest, body);
    done += told(answer).count;
    report(done, 0);
    if (!answer.cursor) break;
  }
  return { count: done };
}

async function after(answer, toastText, then) {
  if (answer?.skipped && Object.keys(answer.skipped).length && !answer.changed?.length) {
    toast(`Not done\n${told(answer).lines.join("\n")}`, true);
  } else if (then) {
    location.href = path(then.replace("{id}", encodeURIComponent(answer.id ?? "")));
    return;
  } else {
    toast(answer?.count > 1 ? `${toastText}: ${answer.count.toLocaleString("en")} jobs` : toastText);
  }
  await refresh();
}

async function press(button) {
  const { post, body = "{}", toast: said = "Done", typed, then, method = "POST" } = button.dataset;
  const given = JSON.parse(body);
  const purge = typed && post.endsWith("/purge");
  const steps = purge ? (report, stopped) => inSteps(post, { confirm: typed }, report, stopped) : null;
  let answer;
  if (button.dataset.ask) {
    answer = await ask({ ...questionOf(button), typed: typed ?? "", work: steps });
    if (answer === null) return;
  }
  button.disabled = true;
  try {
    if (!steps) answer = await call(method, post, given);
    await after(answer, said, then);
  } catch (error) {
    toast(error.message, true);
  } finally {
    button.disabled = false;
  }
}

async function submit(form) {
  const { post, toast: said = "Done", then } = form.dataset;
  const button = form.querySelector("footer .primary, .actions .primary");
  form.querySelector(".wrong").hidden = true;
  button.disabled = true;
  try {
    const body = read(form);
    const never = () => false;
    const answer = form.hasAttribute("data-steps")
      ? await inSteps(post, body, () => {}, never)
      : await call("POST", post, body);
    form.closest("dialog")?.close();
    await after(answer, said, then);
  } catch (error) {
    complain(form, error.message);
  } finally {
    button.disabled = false;
  }
}

// Ask a dialog for parameters; null where it was closed.
export function parameters(id) {
  const dialog = document.getElementById(id);
  return new Promise((resolve) => {
    const form = dialog.querySelector("form");
    let given = null;
    const control = new AbortController();
    form.addEventListener(
      "submit",
      (event) => {
        event.preventDefault();
        try {
          given = read(form);
          dialog.close();
        } catch (error) {
          complain(form, error.message);
        }
      },
      { signal: control.signal },
    );
    dialog.addEventListener(
      "close",
      () => {
        control.abort();
        resolve(given);
      },
      { signal: control.signal },
    );
    open(dialog);
  });
}

async function onJob(button) {
  const params = await parameters(button.dataset.params);
  if (!params) return;
  const ids = [document.getElementById("job").dataset.job];
  try {
    await after(await call("POST", "api/jobs/actions", { action: button.dataset.job, ids, params }), "Changed");
  } catch (error) {
    toast(error.message, true);
  }
}

export function startActions() {
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    if (button.dataset.post) press(button);
    else if (button.dataset.open) open(document.getElementById(button.dataset.open));
    else if (button.dataset.job) onJob(button);
    else if (button.hasAttribute("data-close")) button.closest("dialog").close();
  });
  document.addEventListener("submit", (event) => {
    if (!event.target.dataset.post) return;
    event.preventDefault();
    submit(event.target);
  });
}
