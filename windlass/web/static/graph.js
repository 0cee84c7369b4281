// A graph is moved by dragging, made smaller and larger, and begins with what failed in view. Scrolling and the keyboard
// move it too, as any scrolled box. The scale stays while the page renews itself.
const LEAST = 0.1;
const MOST = 3;
const STEP = 1.25;

const canvas = () => document.querySelector(".canvas");
let scale = 1;
let held = null;

// The size is that of two attributes: the view box does the rest.
function apply() {
  const svg = canvas()?.querySelector("svg");
  if (!svg) return;
  const { width, height } = svg.viewBox.baseVal;
  svg.setAttribute("width", width * scale);
  svg.setAttribute("height", height * scale);
  const shown = document.querySelector('[data-zoom="one"]');
  if (shown) shown.textContent = `${Math.round(scale * 100)} %`;
}

// What is at this place of the canvas stays there.
function zoom(wanted, x, y) {
  const box = canvas();
  const before = scale;
  scale = Math.min(Math.max(wanted, LEAST), MOST);
  const left = (box.scrollLeft + x) * (scale / before) - x;
  const top = (box.scrollTop + y) * (scale / before) - y;
  apply();
  box.scrollTo(left, top);
}

function fit() {
  const box = canvas();
  const { width, height } = box.querySelector("svg").viewBox.baseVal;
  scale = Math.min(Math.max(Math.min((box.clientWidth - 32) / width, (box.clientHeight - 32) / height), LEAST), 1);
  apply();
}

const ACTS = { in: () => scale * STEP, out: () => scale / STEP, one: () => 1 };

function press(what) {
  const box = canvas();
  if (what === "fit") fit();
  else zoom(ACTS[what](), box.clientWidth / 2, box.clientHeight / 2);
}

// What failed, else what runs, in the middle.
function look() {
  const box = canvas();
  const node = box.querySelector(".node.culprit, .node.failed") ?? box.querySelector(".node.running");
  if (!node) {
    box.scrollLeft = (box.scrollWidth - box.clientWidth) / 2;
    return;
  }
  const at = node.getBoundingClientRect();
  const frame = box.getBoundingClientRect();
  box.scrollLeft += at.left + at.width / 2 - frame.left - frame.width / 2;
  box.scrollTop += at.top + at.height / 2 - frame.top - frame.height / 2;
}

function drag() {
  document.addEventListener("pointerdown", (event) => {
    const box = event.target.closest(".canvas");
    if (!box || event.button !== 0 || event.target.closest("a") || event.pointerType === "touch") return;
    held = { box, x: event.clientX + box.scrollLeft, y: event.clientY + box.scrollTop };
    box.classList.add("held");
  });
  document.addEventListener("pointermove", (event) => {
    if (held) held.box.scrollTo(held.x - event.clientX, held.y - event.clientY);
  });
  const drop = () => {
    held?.box.classList.remove("held");
    held = null;
  };
  document.addEventListener("pointerup", drop);
  document.addEventListener("pointercancel", drop);
}

export function startGraph() {
  if (!canvas()) return;
  drag();
  document.getElementById("zoom").hidden = false;
  document.getElementById("zoom").addEventListener("click", (event) => {
    const button = event.target.closest("[data-zoom]");
    if (button) press(button.dataset.zoom);
  });
  canvas().addEventListener(
    "wheel",
    (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      const frame = canvas().getBoundingClientRect();
      zoom(scale * (event.deltaY < 0 ? STEP : 1 / STEP), event.clientX - frame.left, event.clientY - frame.top);
    },
    { passive: false },
  );
  document.addEventListener("windlass:fresh", apply);
  look();
}
