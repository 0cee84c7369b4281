// A large graph is moved by dragging; scrolling and the keyboard move it too, as any scrolled box.

export function startGraph() {
  let held = null;
  document.addEventListener("pointerdown", (event) => {
    const canvas = event.target.closest(".canvas");
    if (!canvas || event.button !== 0 || event.target.closest("a") || event.pointerType === "touch") return;
    held = { canvas, x: event.clientX + canvas.scrollLeft, y: event.clientY + canvas.scrollTop };
    canvas.classList.add("held");
  });
  document.addEventListener("pointermove", (event) => {
    if (!held) return;
    held.canvas.scrollLeft = held.x - event.clientX;
    held.canvas.scrollTop = held.y - event.clientY;
  });
  const drop = () => {
    held?.canvas.classList.remove("held");
    held = null;
  };
  document.addEventListener("pointerup", drop);
  document.addEventListener("pointercancel", drop);
  const canvas = document.querySelector(".canvas");
  if (canvas) canvas.scrollLeft = (canvas.scrollWidth - canvas.clientWidth) / 2;
}
