// The numbers of a chart where the pointer is.
import { local } from "./times.js";

export function startTips() {
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  document.body.append(tip);
  document.addEventListener("pointermove", (event) => {
    const shape = event.target.closest?.("[data-tip]");
    tip.hidden = !shape;
    if (!shape) return;
    tip.textContent = `${local(Number(shape.dataset.at))}\n${shape.dataset.tip}`;
    const wide = tip.offsetWidth;
    const left = event.clientX + 14 + wide > innerWidth ? event.clientX - 14 - wide : event.clientX + 14;
    // Positions by script are properties of the object model, which the policy allows; attributes are not.
    tip.style.left = `${Math.max(4, left)}px`;
    tip.style.top = `${Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 4)}px`;
  });
}
