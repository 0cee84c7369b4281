// Dialogs: questions before an action, and forms that ask for what an action needs.

export function open(dialog) {
  const wrong = dialog.querySelector(".wrong");
  if (wrong) wrong.hidden = true;
  dialog.showModal();
  dialog.querySelector("input:not([type=hidden]):not([type=checkbox]), textarea, select")?.focus();
}

export function complain(scope, text) {
  const place = scope.querySelector(".wrong");
  place.textContent = text;
  place.hidden = false;
}

// The words of a question stand on the button that asks it: windlass/web/dialogs.py has them all.
export function questionOf(button) {
  const { ask, text, go, stay: keep, danger } = button.dataset;
  return { title: ask, text, go, keep, danger: danger !== undefined };
}

// Ask; `typed` has to be typed first. `work(report)` runs while the dialog shows how far it is; `stopped()` says when to
// end. Answers what `work` did, or null where the answer was no.
export function ask({ title, text, go, keep, danger = false, typed = "", work = null }) {
  const dialog = document.getElementById("ask");
  const button = document.getElementById("ask-go");
  const typing = document.getElementById("ask-typed");
  const field = typing.querySelector("input");
  const progress = document.getElementById("ask-progress");
  dialog.querySelector(".wrong").hidden = true;
  progress.hidden = true;
  document.getElementById("ask-title").textContent = title;
  document.getElementById("ask-text").textContent = text;
  button.textContent = go;
  button.hidden = false;
  button.className = danger ? "btn danger primary" : "btn primary";
  typing.hidden = !typed;
  typing.querySelector("span").textContent = typed ? `Type ${typed} to go on` : "";
  field.value = "";
  button.disabled = Boolean(typed);
  const close = dialog.querySelector("[data-close]");
  close.textContent = keep;

  return new Promise((resolve) => {
    const control = new AbortController();
    const listen = (target, type, act) => target.addEventListener(type, act, { signal: control.signal });
    let answer = null;
    let working = false;
    let stop = false;
    listen(field, "input", () => {
      button.disabled = field.value !== typed;
    });
    listen(dialog, "cancel", () => {
      stop = true;
    });
    listen(close, "click", () => {
      stop = true;
    });
    listen(dialog, "close", () => {
      if (working) return;
      control.abort();
      resolve(answer);
    });
    const run = async () => {
      if (button.disabled || working) return;
      if (!work) {
        answer = true;
        dialog.close();
        return;
      }
      working = true;
      button.hidden = true;
      typing.hidden = true;
      progress.hidden = false;
      close.textContent = "Stop here";
      const bar = progress.querySelector("progress");
      bar.removeAttribute("value");
      const report = (done, total) => {
        progress.querySelector("p").textContent = total ? `${done.toLocaleString("en")} of ${total.toLocaleString("en")}` : done.toLocaleString("en");
        if (total) bar.value = Math.min(done / total, 1);
      };
      report(0, 0);
      try {
        answer = await work(report, () => stop);
        working = false;
        if (dialog.open) dialog.close();
        else dialog.dispatchEvent(new Event("close"));
      } catch (error) {
        working = false;
        complain(dialog, error.message);
        close.textContent = "Close question";
        if (!dialog.open) dialog.dispatchEvent(new Event("close"));
      }
    };
    listen(button, "click", run);
    listen(dialog.querySelector("form"), "submit", (event) => {
      event.preventDefault();
      run();
    });
    dialog.showModal();
    if (typed) field.focus();
    else button.focus();
  });
}
