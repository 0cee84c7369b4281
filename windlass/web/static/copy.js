// Copy buttons. The clipboard API needs a secure context; plain HTTP gets the old way.
import { toast } from "./toast.js";

function oldWay(text) {
  const field = document.createElement("textarea");
  field.value = text;
  field.className = "sr";
  field.setAttribute("readonly", "");
  document.body.append(field);
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  if (!done) throw new Error("the browser did not let it be copied");
}

async function copy(text) {
  if (navigator.clipboard && window.isSecureContext) {
    try {
      await navigator.clipboard.writeText(text);
      return;
    } catch {
      // Not permitted: the old way may be.
    }
  }
  oldWay(text);
}

export function startCopy() {
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    try {
      await copy(document.getElementById(button.dataset.copy).textContent);
      toast("Copied");
    } catch (error) {
      toast(error.message, true);
    }
  });
}
